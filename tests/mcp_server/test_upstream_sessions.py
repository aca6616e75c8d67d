"""Whose a session with a source is: two principals, both eras of clients, servers that keep state for their
session over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

import spindle
from mcp_server.test_http_serving import handshake, rpc
from mcp_server.test_sessions_anywhere import stream
from servers import warm
from servers.running import PATIENCE, StdioServers, process_end, until
from servers.serving import ERAS, piped, served, text_of
from spindle.app import Spindle
from spindle.settings import Settings

SERVER = Path(__file__).parent.parent / "servers" / "stateful_server.py"
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
EACH_WAY = pytest.mark.parametrize("way", ["stdio", "http"])
TOKENS = {name: {"token": f"token-of-{name}"} for name in ("ann", "bob")}
NOTE = "session://note"


@contextlib.asynccontextmanager
async def stateful(way: str) -> AsyncIterator[dict[str, Any]]:
    """The settings of a server that keeps state for each session."""
    command = [warm.PYTHON, str(SERVER)]
    settings: dict[str, Any] = {"protocol": "handshake", "answers": ["elicitation", "sampling", "roots"]}
    if way == "stdio":
        yield {"command": command, **settings}
        return
    process = await asyncio.create_subprocess_exec(*command, "http", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            port = int(await process.stdout.readline())
        yield {"url": f"http://127.0.0.1:{port}/mcp", **settings}
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@contextlib.asynccontextmanager
async def gateway(folder: Path, source: dict[str, Any], **more: Any) -> AsyncIterator[tuple[str, Spindle]]:
    """The address of a workspace with this source `s`, for ann and bob."""
    settings = Settings(folder, {"sources": {"s": {**source, **more}}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app, served(app, tokens=TOKENS) as url:
        yield url, app


class Person:
    """Somebody with a client: what it was told, and its answers."""

    def __init__(self, name: str, token: str | None = None) -> None:
        self.name = name
        self.token = token or f"token-of-{name}"
        self.root = name
        self.logs: list[Any] = []
        self.questions: list[str] = []
        self.updates: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    @contextlib.asynccontextmanager
    async def client(self, url: str, era: str, *able: str) -> AsyncIterator[Client]:
        callbacks: dict[str, Any] = {
            "roots": {"list_roots_callback": self._roots},
            "elicitation": {"elicitation_callback": self._answer},
        }
        given = {key: value for name in able for key, value in callbacks[name].items()}
        headers = {"authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(
                streamable_http_client(url, http_client=http), mode=ERAS[era],
                logging_callback=self._log, message_handler=self._told, **given,
            ) as client,
        ):  # fmt: skip
            yield client

    async def _roots(self, _context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=f"file:///{self.root}")])  # pyright: ignore[reportArgumentType]

    async def _answer(self, _context: Any, params: Any) -> t.ElicitResult:
        self.questions.append(params.message)
        self.asked.set()
        await self.may_answer.wait()
        return t.ElicitResult(action="accept", content={"city": f"{params.message} of {self.name}"})

    async def _log(self, params: Any) -> None:
        self.logs.append(params.data)

    async def _told(self, message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            self.updates.append(str(message.params.uri))


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(f"s_{tool}", arguments)
    assert not result.is_error, text_of(result)
    return json.loads(text_of(result))


async def note_of(client: Client) -> str:
    (content,) = (await client.read_resource(NOTE)).contents
    assert isinstance(content, t.TextResourceContents)
    return content.text


@EACH_ERA
@EACH_WAY
async def test_nothing_that_a_server_keeps_for_one_principal_reaches_another(
    tmp_path: Path, era: str, way: str
) -> None:
    ann, bob = Person("ann"), Person("bob")
    async with (
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, era, "roots") as of_ann,
        bob.client(url, era, "roots") as of_bob,
    ):
        assert (await call(of_ann, "learn_roots"))["roots"] == ["file:///ann"]
        await call(of_ann, "remember", text="secret of ann")
        theirs = await call(of_bob, "recall")
        assert (theirs["roots"], theirs["note"]) == ([], "")
        assert await note_of(of_bob) == ""
        assert NOTE not in [str(item.uri) for item in (await of_bob.list_resources()).resources]
        assert (await call(of_bob, "learn_roots"))["roots"] == ["file:///bob"]
        hers = await call(of_ann, "recall")
        assert (hers["roots"], hers["note"]) == (["file:///ann"], "secret of ann")
        assert await note_of(of_ann) == "secret of ann"
        assert NOTE in [str(item.uri) for item in (await of_ann.list_resources()).resources]


@EACH_ERA
@EACH_WAY
@pytest.mark.parametrize("aside", [False, True])
async def test_two_principals_are_asked_at_once_each_their_own(
    tmp_path: Path, era: str, way: str, *, aside: bool
) -> None:
    people = Person("ann"), Person("bob")
    for person in people:
        person.may_answer.clear()
    async with (
        asyncio.timeout(PATIENCE),
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        people[0].client(url, era, "elicitation") as of_ann,
        people[1].client(url, era, "elicitation") as of_bob,
    ):
        calls = [
            asyncio.create_task(client.call_tool("s_ask", {"message": f"{name}?", "aside": aside}))
            for name, client in (("ann", of_ann), ("bob", of_bob))
        ]
        for person in people:
            await person.asked.wait()
        for person in people:
            person.may_answer.set()
        said = [text_of(await work) for work in calls]
    assert said == ["ann? ann? of ann", "bob? bob? of bob"]
    assert [person.questions for person in people] == [["ann?"], ["bob?"]]


@EACH_ERA
@EACH_WAY
async def test_two_calls_of_one_client_both_ask_also_the_first_time(
    tmp_path: Path, era: str, way: str
) -> None:
    ann = Person("ann")
    ann.may_answer.clear()
    async with (
        asyncio.timeout(PATIENCE),
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, era, "elicitation") as client,
    ):
        calls = [
            asyncio.create_task(client.call_tool("s_ask", {"message": message})) for message in ("a", "b")
        ]
        await until(lambda: sorted(ann.questions) == ["a", "b"])
        ann.may_answer.set()
        said = [text_of(await work) for work in calls]
    assert said == ["a a of ann", "b b of ann"]


@EACH_ERA
@EACH_WAY
async def test_an_abandoned_question_keeps_nobody_waiting(tmp_path: Path, era: str, way: str) -> None:
    """Not the same client, nor another one, though the source takes one call at a time."""
    ann, again, bob = Person("ann"), Person("ann"), Person("bob")
    ann.may_answer.clear()
    async with (
        asyncio.timeout(PATIENCE),
        stateful(way) as source,
        gateway(tmp_path, source, max_concurrency=1) as (url, _),
        ann.client(url, era, "elicitation") as first,
        again.client(url, era, "elicitation") as second,
        bob.client(url, era, "elicitation") as third,
    ):
        abandoned = asyncio.create_task(first.call_tool("s_ask", {"message": "left?"}))
        await ann.asked.wait()
        assert text_of(await second.call_tool("s_ask", {"message": "two"})) == "two two of ann"
        assert text_of(await third.call_tool("s_ask", {"message": "three"})) == "three three of bob"
        assert (await call(first, "recall"))["note"] == ""
        assert not abandoned.done()
        ann.may_answer.set()
        assert text_of(await abandoned) == "left? left? of ann"


# --- whose a session is by the settings, and how long it lasts


async def session_of(client: Client) -> str:
    return (await call(client, "recall"))["session"]


@EACH_ERA
@EACH_WAY
async def test_clients_for_whom_nothing_is_kept_share_a_session(tmp_path: Path, era: str, way: str) -> None:
    async with (
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        Person("ann").client(url, era) as of_ann,
        Person("bob").client(url, era) as of_bob,
    ):
        assert await session_of(of_ann) == await session_of(of_bob)


@pytest.mark.parametrize(
    ("sessions", "same_principal", "others"), [("shared", 1, 1), ("principal", 1, 2), ("client", 2, 3)]
)
@EACH_WAY
async def test_the_settings_say_whose_a_session_is(
    tmp_path: Path, way: str, sessions: str, same_principal: int, others: int
) -> None:
    ann = Person("ann")
    async with (
        stateful(way) as source,
        gateway(tmp_path, source, sessions=sessions) as (url, _),
        ann.client(url, "handshake", "elicitation") as first,
        ann.client(url, "handshake") as second,
        Person("bob").client(url, "handshake") as third,
    ):
        found = [await session_of(client) for client in (first, second, third)]
    assert len(set(found[:2])) == same_principal
    assert len(set(found)) == others


async def test_a_client_has_its_own_session_from_when_it_sets_a_level_or_subscribes(tmp_path: Path) -> None:
    async with (
        stateful("stdio") as source,
        gateway(tmp_path, source) as (url, _),
        Person("ann").client(url, "handshake") as first,
        Person("ann").client(url, "handshake") as second,
        Person("bob").client(url, "handshake") as third,
    ):
        shared = await session_of(third)
        assert await session_of(first) == shared
        with pytest.warns(MCPDeprecationWarning):
            await first.set_logging_level("debug")
        with pytest.warns(MCPDeprecationWarning):
            await second.session.subscribe_resource("common://board")
        assert len({shared, await session_of(first), await session_of(second)}) == 3
        assert await session_of(third) == shared


async def test_servers_of_2026_07_28_keep_nothing_so_all_clients_share_one(
    tmp_path: Path, stdio_server: StdioServers
) -> None:
    async with (
        gateway(tmp_path, stdio_server(modern=True)) as (url, _),
        Person("ann").client(url, "handshake", "elicitation", "roots") as first,
        Person("bob").client(url, "handshake", "elicitation", "roots") as second,
        Person("bob").client(url, "modern", "elicitation", "roots") as third,
    ):
        found = await asyncio.gather(*(client.call_tool("s_pid", {}) for client in (first, second, third)))
        assert len({text_of(item) for item in found}) == 1
    assert len(stdio_server.starts()) == 1


async def test_over_pipes_the_one_client_uses_the_session_that_listed_the_tools(
    tmp_path: Path, stdio_server: StdioServers
) -> None:
    source = {**stdio_server(), "protocol": "handshake"}
    settings = Settings(tmp_path, {"sources": {"s": source}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app, piped(app) as client:
        await client.handshake(elicitation={}, roots={})
        for number in (1, 2):
            client.request(number, "tools/call", name="s_pid", arguments={})
            assert "result" in await client.answer(number)
    assert len(stdio_server.starts()) == 1


@EACH_WAY
async def test_a_server_hears_that_the_roots_of_its_client_changed_and_asks_for_them_at_once(
    tmp_path: Path, way: str
) -> None:
    ann, bob = Person("ann"), Person("bob")
    async with (
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, "handshake", "roots") as anns,
        bob.client(url, "handshake", "roots") as bobs,
        asyncio.timeout(PATIENCE),
    ):
        assert (await call(anns, "learn_roots"))["roots"] == ["file:///ann"]
        assert (await call(bobs, "learn_roots"))["roots"] == ["file:///bob"]
        ann.root, bob.root = "another of ann", "another of bob"
        with pytest.warns(MCPDeprecationWarning):
            await anns.send_roots_list_changed()
        while (await call(anns, "recall"))["roots"] != ["file:///another%20of%20ann"]:
            await asyncio.sleep(0.02)
        assert (await call(bobs, "recall"))["roots"] == ["file:///bob"], "nobody said so of his"


async def test_roots_that_changed_reach_the_server_of_another_process(tmp_path: Path) -> None:
    roots = ["file:///before"]
    told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    async with (
        stateful("stdio") as source,
        spindle.open(settings=Settings(tmp_path, {"sources": {"s": source}})) as first,
        spindle.open(settings=Settings(tmp_path, {"sources": {"s": source}})) as second,
        served(first) as one,
        served(second) as other,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        asyncio.timeout(PATIENCE),
    ):
        headers = await handshake(http, one, roots={})

        async def answer(question: Any) -> None:
            result = {"roots": [{"uri": uri} for uri in roots]}
            message = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert (await http.post(other, json=message, headers=headers)).status_code == 202

        async def learned(tool: str) -> Any:
            """The roots that the server behind the first process knows."""
            async with stream(http, one, headers, rpc("tools/call", 5, name=f"s_{tool}")) as messages:
                async for item in messages:
                    if item.get("method") == "roots/list":
                        await answer(item)
                    elif "result" in item:
                        return json.loads(item["result"]["content"][0]["text"])["roots"]
            raise AssertionError("no answer came")

        assert await learned("learn_roots") == roots
        async with stream(http, other, headers) as notices:
            roots[:] = ["file:///after"]
            assert (await http.post(other, json=told, headers=headers)).status_code == 202
            while (item := await anext(notices)).get("method") != "roots/list":
                pass
            await answer(item)
        call = rpc("tools/call", 6, name="s_recall")
        while "after" not in (await http.post(one, json=call, headers=headers)).text:
            await asyncio.sleep(0.02)


async def test_roots_of_the_one_client_over_pipes_change_too(tmp_path: Path) -> None:
    async with stateful("stdio") as source:
        settings = Settings(tmp_path, {"sources": {"s": source}, "store": ":memory:"})
        async with spindle.open(settings=settings) as app, piped(app) as client, asyncio.timeout(PATIENCE):
            await client.handshake(roots={})
            client.request(1, "tools/call", name="s_recall", arguments={})
            await client.answer(1)
            client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            while (asked := await client.read()).get("method") != "roots/list":
                pass
            client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": "file:///new"}]}})
            number = 2
            while True:
                client.request(number, "tools/call", name="s_recall", arguments={})
                if "file:///new" in json.dumps(await client.answer(number)):
                    break
                number += 1


def pid_in(session: str) -> int:
    return int(session.removeprefix("process "))


async def test_a_session_ends_with_its_client_and_makes_room_when_it_is_idle(tmp_path: Path) -> None:
    people = [Person("ann"), Person("ann"), Person("bob")]
    async with (
        stateful("stdio") as source,
        gateway(tmp_path, source, max_sessions=2) as (url, app),
        people[0].client(url, "handshake", "elicitation") as first,
        people[2].client(url, "handshake", "elicitation") as third,
    ):
        async with people[1].client(url, "handshake", "elicitation") as second:
            pids = [pid_in(await session_of(client)) for client in (first, second)]
            pids.append(pid_in(await session_of(third)))
            await process_end(pids[0])
            assert len(set(pids)) == 3
        await process_end(pids[1])
        assert pid_in(await session_of(third)) == pids[2]
        assert len(app.catalog.connections._alive) <= 2


async def test_an_idle_session_of_a_client_closes(tmp_path: Path) -> None:
    async with (
        stateful("stdio") as source,
        gateway(tmp_path, source, idle_timeout=0.2) as (url, _),
        Person("ann").client(url, "handshake", "elicitation") as client,
    ):
        await process_end(pid_in(await session_of(client)))
        await session_of(client)


@EACH_ERA
async def test_a_crash_of_one_clients_server_is_not_anothers(tmp_path: Path, era: str) -> None:
    async with (
        stateful("stdio") as source,
        gateway(tmp_path, source, breaker={"failures": 2}) as (url, _),
        Person("ann").client(url, era, "elicitation") as of_ann,
        Person("bob").client(url, era, "elicitation") as of_bob,
    ):
        await call(of_bob, "remember", text="of bob")
        before = await session_of(of_bob)
        assert (await of_ann.call_tool("s_die", {})).is_error
        assert (await call(of_ann, "recall"))["note"] == ""
        for _ in range(2):
            assert (await of_ann.call_tool("s_die", {})).is_error
        assert "failed 2 times in a row" in text_of(await of_ann.call_tool("s_recall", {}))
        assert await call(of_bob, "recall") == {"session": before, "note": "of bob", "roots": []}


# --- what a server tells


@EACH_WAY
async def test_messages_are_not_shown_to_others_than_those_who_caused_them(tmp_path: Path, way: str) -> None:
    ann, bob = Person("ann"), Person("bob")
    async with (
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, "handshake") as of_ann,
        bob.client(url, "handshake") as of_bob,
    ):
        await session_of(of_bob)
        with pytest.warns(MCPDeprecationWarning):
            await of_ann.set_logging_level("debug")
        await call(of_ann, "mutter", level="error", text="what ann did")
        await session_of(of_bob)
        await session_of(of_ann)
        if way == "stdio":
            await until(lambda: ann.logs == ["what ann did"])
    assert bob.logs == []


async def test_on_a_shared_session_messages_of_nobody_in_particular_are_nobodys(tmp_path: Path) -> None:
    ann, bob = Person("ann"), Person("bob")
    async with (
        stateful("stdio") as source,
        gateway(tmp_path, source, sessions="shared") as (url, _),
        ann.client(url, "handshake") as of_ann,
        bob.client(url, "handshake") as of_bob,
    ):
        await call(of_ann, "mutter", level="error", text="what ann did")
        await session_of(of_ann)
        await until(lambda: ann.logs == ["what ann did"])
        await call(of_ann, "mutter", level="error", text="what ann did then")
        await session_of(of_bob)
        await session_of(of_bob)
    assert bob.logs == []


@EACH_ERA
@EACH_WAY
async def test_updates_reach_only_the_session_that_they_are_about(tmp_path: Path, era: str, way: str) -> None:
    ann, bob = Person("ann"), Person("bob")
    async with (
        asyncio.timeout(PATIENCE),
        stateful(way) as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, era, "elicitation") as of_ann,
        bob.client(url, era, "elicitation") as of_bob,
        watching(of_ann, era, NOTE),
        watching(of_bob, era, NOTE),
    ):
        while not ann.updates:
            # The source may still be about to take note of who watches.
            await call(of_ann, "remember", text="a")
            await asyncio.sleep(0.05)
        assert bob.updates == []
        while not bob.updates:
            await call(of_bob, "remember", text="b")
            await asyncio.sleep(0.05)
    assert {*ann.updates, *bob.updates} == {NOTE}


@contextlib.asynccontextmanager
async def watching(client: Client, era: str, uri: str) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        if era == "modern":
            await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))
        else:
            with pytest.warns(MCPDeprecationWarning):
                await client.session.subscribe_resource(uri)
        yield


@EACH_ERA
async def test_a_resource_is_watched_again_after_its_server_crashed(tmp_path: Path, era: str) -> None:
    ann = Person("ann")
    async with (
        asyncio.timeout(PATIENCE),
        stateful("stdio") as source,
        gateway(tmp_path, source) as (url, _),
        ann.client(url, era, "elicitation") as client,
        watching(client, era, NOTE),
    ):
        while not ann.updates:
            await call(client, "remember", text="a")
            await asyncio.sleep(0.05)
        assert (await client.call_tool("s_die", {})).is_error
        told = len(ann.updates)
        while len(ann.updates) < told + 2:
            # One for what may have changed meanwhile, and one for what did.
            await client.call_tool("s_remember", {"text": "b"})
            await asyncio.sleep(0.05)
