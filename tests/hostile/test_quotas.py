"""One client that takes all it can: sessions, streams, suspended calls, requests. It loses its own oldest,
and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

import spindle
from mcp_server.conftest import fixture_source
from mcp_server.test_http_serving import JSON, handshake, initialize, modern, rpc
from servers.examples import examples
from servers.running import PATIENCE, until
from servers.serving import ERAS, listening_at, served
from spindle.catalog.diff import SyncReport
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import RateLimitedError
from spindle.listening.server import address_of, listen
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_server.http import McpApp
from spindle.mcp_server.server import CatalogServer
from spindle.mcp_server.suspended import Suspended, SuspendedCalls
from spindle.serving.access import ServingAccess
from spindle.serving.guard import Guard
from spindle.serving.quotas import Shares
from spindle.settings import Settings

TOKENS = {name: {"token": f"token-of-{name}"} for name in ("ann", "bob")}


def as_(name: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"authorization": f"Bearer token-of-{name}"}, timeout=PATIENCE)


def access_with(**quotas: int) -> ServingAccess:
    return ServingAccess.of(ServeConfig.model_validate({"port": 0, "tokens": TOKENS, "quotas": quotas}), {})


def with_fixture(root: Path, **settings: Any) -> AbstractAsyncContextManager[spindle.Spindle]:
    raw = {"sources": {"fixture": fixture_source(**settings)}, "store": ":memory:"}
    return spindle.open(settings=Settings(root, raw))


@contextlib.asynccontextmanager
async def serving(app: spindle.Spindle, **quotas: int) -> AsyncIterator[tuple[str, Any, Any]]:
    async with served(app, access=access_with(**quotas)) as url, as_("ann") as ann, as_("bob") as bob:
        yield url, ann, bob


async def ping(http: httpx2.AsyncClient, url: str, session: dict[str, str]) -> int:
    return (await http.post(url, json=rpc("ping"), headers=session)).status_code


async def test_who_opens_too_many_sessions_has_its_own_oldest_put_away_and_loses_none(tmp_path: Path) -> None:
    access = access_with(sessions=3)
    with listen("127.0.0.1", 0) as listening:
        async with spindle.open(tmp_path) as app, as_("ann") as ann, as_("bob") as bob:
            catalog = CatalogServer(app, access)
            web = McpApp(catalog)
            url = f"{address_of(listening, '127.0.0.1')}/mcp"
            async with listening_at(Guard(web, access), listening):
                other = await handshake(bob, url)
                sessions = [await handshake(ann, url) for _ in range(3)]
                assert await ping(ann, url, sessions[0]) == 200  # now the second is the oldest
                sessions += [await handshake(ann, url) for _ in range(2)]
                held = [session["mcp-session-id"] in web.sessions._open for session in sessions]
                assert held == [True, False, False, True, True]
                for _ in range(50):
                    await handshake(ann, url)
                assert not any(session["mcp-session-id"] in web.sessions._open for session in sessions)
                assert other["mcp-session-id"] in web.sessions._open
                assert [await ping(ann, url, each) for each in sessions] == [200] * 5
                assert len(web.sessions._open) == 4
            await web.sessions.close()


async def test_a_session_in_use_is_not_ended_for_another(tmp_path: Path) -> None:
    async with spindle.open(tmp_path) as app, serving(app, sessions=2) as (url, ann, bob):
        sessions = [await handshake(ann, url) for _ in range(2)]
        async with contextlib.AsyncExitStack() as stack:
            for session in sessions:
                stream = ann.stream("GET", url, headers={**session, "accept": "text/event-stream"})
                assert (await stack.enter_async_context(stream)).status_code == 200
            refused = await ann.post(url, json=initialize(), headers=JSON)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert "this client has 2 sessions open" in refused.text
            assert "serve.quotas" in refused.text
            assert await ping(bob, url, await handshake(bob, url)) == 200
            assert [await ping(ann, url, each) for each in sessions] == [200, 200]


@pytest.mark.parametrize("era", list(ERAS))
async def test_who_opens_too_many_streams_loses_its_own_oldest(tmp_path: Path, era: str) -> None:
    async with spindle.open(tmp_path) as app, serving(app, streams=2) as (url, ann, bob):

        async def opened(http: httpx2.AsyncClient, stack: contextlib.AsyncExitStack) -> Any:
            if era == "modern":
                body, headers = modern("subscriptions/listen", notifications={"toolsListChanged": True})
                stream = http.stream("POST", url, json=body, headers=headers)
            else:
                session = await handshake(http, url)
                stream = http.stream("GET", url, headers={**session, "accept": "text/event-stream"})
            answer = await stack.enter_async_context(stream)
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            await anext(lines)
            return lines

        async with contextlib.AsyncExitStack() as stack:
            other = await opened(bob, stack)
            first, second, third = [await opened(ann, stack) for _ in range(3)]
            async with asyncio.timeout(PATIENCE):
                async for _ in first:
                    pass
            # The others still hear what there is to hear.
            app.catalog.tell(SyncReport(""))
            async with asyncio.timeout(PATIENCE):
                for lines in (other, second, third):
                    while "list_changed" not in await anext(lines):
                        pass


async def test_who_leaves_too_many_questions_open_loses_its_own_oldest(tmp_path: Path) -> None:
    async with spindle.open(tmp_path) as app:
        await _leaves_questions_open(CatalogServer(app, access_with(suspended=2))._waiting)


async def _leaves_questions_open(waiting: SuspendedCalls) -> None:

    async def asked(name: str) -> tuple[Suspended, str]:
        call = Suspended(Principal(name), ("tool", b""), lambda _: None)
        result = await waiting.run(call, call.ask("elicitation/create", {}, PATIENCE))
        assert result["resultType"] == "input_required"
        return call, call.token

    async def answered(call: Suspended, token: str) -> bool:
        try:
            found = waiting.find(token, call.principal)
        except McpError:
            return False
        return await waiting.go_on(found, {"question-1": {"action": "decline"}}) == {"action": "decline"}

    theirs = await asked("bob")
    own = [await asked("ann") for _ in range(4)]
    assert [await answered(*each) for each in own] == [False, False, True, True]
    assert all(call.task is not None and call.task.done() for call, _ in own)
    # What was answered counts no more.
    own = [await asked("ann") for _ in range(2)]
    assert [await answered(*each) for each in own] == [True, True]
    assert await answered(*theirs)


async def test_who_leaves_too_many_calls_for_approval_loses_its_own_oldest(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mail.py").write_text(
        "from spindle import tool\n\n@tool\ndef send(text: str) -> str:\n    'Send it.'\n    return text\n"
    )
    (tmp_path / "spindle.toml").write_text('[sources.tools]\napprove = ["send"]\n')
    async with spindle.open(tmp_path) as app, serving(app, suspended=3) as (url, ann, bob):

        async def waiting(name: str) -> list[str]:
            found = await app.pauses(principal=Principal(name))
            return [pause.details["arguments"]["text"] for pause in found]

        for who, text in [(bob, "his"), *((ann, str(number)) for number in range(6))]:
            body, headers = modern("tools/call", "send", arguments={"text": text})
            assert (await who.post(url, json=body, headers=headers)).status_code == 200
        assert await waiting("ann") == ["3", "4", "5"]
        assert await waiting("bob") == ["his"]
        given_up = await app.runner._store.runs(limit=-1, status="cancelled", principal="ann")
        assert [run.error for run in given_up] == [
            {"category": "cancelled", "message": "more than 3 calls of 'ann' were waiting"}
        ] * 3


async def test_who_has_too_many_requests_is_told_when_to_come_back(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(
        "import asyncio\nfrom pathlib import Path\nfrom spindle import tool\n"
        "@tool\nasync def wait_for(path: str) -> str:\n"
        "    Path(path + '.here').touch()\n"
        "    while not Path(path).exists():\n        await asyncio.sleep(0.005)\n    return 'done'\n"
    )
    async with spindle.open(tmp_path) as app, serving(app, requests=2) as (url, ann, bob):
        await app.sync()
        files = [tmp_path / str(number) for number in range(2)]

        async def call(http: httpx2.AsyncClient, file: Path) -> httpx2.Response:
            body, headers = modern("tools/call", "wait_for", arguments={"path": str(file)})
            return await http.post(url, json=body, headers=headers)

        running = [asyncio.create_task(call(ann, file)) for file in files]
        for file in files:
            await until(file.with_name(f"{file.name}.here").exists)
        refused = await call(ann, files[0])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "serve.quotas.requests" in refused.text
        theirs = tmp_path / "theirs"
        theirs.touch()
        assert (await call(bob, theirs)).status_code == 200
        for file in files:
            file.touch()
        assert [(await each).status_code for each in running] == [200, 200]
        assert (await call(ann, files[0])).status_code == 200


@examples(100)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "remove", "use"]), st.sampled_from("abc"), st.integers(0, 9))
    ),
    share=st.integers(1, 3),
)
def test_a_client_never_has_more_than_its_share_nor_loses_for_another(
    steps: list[tuple[str, str, int]], share: int
) -> None:
    shares: Shares[int] = Shares("things", 5)
    held: dict[str, list[int]] = {client: [] for client in "abc"}
    for number, (step, client, which) in enumerate(steps):
        own = held[client]
        if step == "add":
            full = len(own) >= share or sum(map(len, held.values())) >= 5
            if full and not own:
                with pytest.raises(RateLimitedError):
                    shares.add(client, number, share)
                continue
            assert shares.add(client, number, share) == (own.pop(0) if full else None)
            own.append(number)
        elif own:
            item = own.pop(which % len(own))
            if step == "use":
                shares.used(client, item)
                own.append(item)
            else:
                shares.remove(client, item)
        assert {name: shares.of(name) for name in "abc"} == held
        assert len(shares) == sum(map(len, held.values()))


# --- notices


@contextlib.asynccontextmanager
async def hearing(url: str, name: str, era: str, uris: list[str]) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client that watches resources, with the addresses that it is told of and the lists that changed."""
    told: list[str] = []

    async def hear(message: Any) -> None:
        params = getattr(message, "params", None)
        told.append(str(getattr(params, "uri", type(message).__name__)))

    async with (
        as_(name) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[era], message_handler=hear) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if era == "modern":
            everything = {
                "tools_list_changed": True,
                "prompts_list_changed": True,
                "resources_list_changed": True,
            }
            listening = client.listen(resource_subscriptions=uris, **everything)
            await stack.enter_async_context(listening)
        else:
            for uri in uris:
                with contextlib.suppress(MCPError), pytest.warns():
                    await client.session.subscribe_resource(uri)
        yield client, told


@pytest.mark.parametrize("era", list(ERAS))
async def test_notices_never_cross_groups(tmp_path: Path, era: str) -> None:
    """Both sources have a resource of the same address. Who may see one of them is told of that one."""
    uri = "test://watched-resource"
    (tmp_path / "spindle.toml").write_text("")
    sources = {name: fixture_source(prefix=True) for name in ("one", "two")}
    serve = {
        "port": 0,
        "tokens": {
            name: {"token": f"token-of-{name}", "groups": [group]}
            for name, group in (("ann", "first"), ("bob", "second"))
        },
        "groups": {"first": {"exposed_tools": ["one.*"]}, "second": {"exposed_tools": ["two.*"]}},
    }
    settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
    access = ServingAccess.of(ServeConfig.model_validate(serve), {})
    hidden = f"spindle://one/{'test%3A%2F%2Fwatched-resource'}"
    async with (
        spindle.open(settings=settings, visible=access.shows) as app,
        served(app, access=access) as url,
        hearing(url, "ann", era, [uri]) as (ann, ann_told),
        hearing(url, "bob", era, [uri, hidden]) as (bob, bob_told),
    ):
        await app.sync()

        async def touch(client: Client, source: str, told: list[str]) -> None:
            before = told.count(uri)
            async with asyncio.timeout(PATIENCE):
                while told.count(uri) == before:
                    # The source may still be about to take note of who watches.
                    await client.call_tool(f"{source}_test_touch_resource", {})
                    await client.call_tool(f"{source}_test_change_prompts", {})
                    await asyncio.sleep(0.01)

        await touch(ann, "one", ann_told)
        await touch(ann, "one", ann_told)
        assert not [each for each in bob_told if "test" in each or "Prompt" in each]
        heard_by_ann = ann_told.count(uri)
        await touch(bob, "two", bob_told)
        assert set(bob_told) >= {uri}
        assert hidden not in bob_told
        assert ann_told.count(uri) == heard_by_ann


@pytest.mark.parametrize("era", list(ERAS))
async def test_who_may_no_longer_come_in_hears_no_more(tmp_path: Path, era: str) -> None:
    uri = "test://watched-resource"
    access = access_with()
    async with with_fixture(tmp_path, prefix=True) as app, served(app, access=access) as url:
        await app.sync()
        async with (
            hearing(url, "ann", era, [uri]) as (_, ann_told),
            hearing(url, "bob", era, [uri]) as (bob, bob_told),
        ):

            async def touch() -> None:
                before = bob_told.count(uri)
                async with asyncio.timeout(PATIENCE):
                    while bob_told.count(uri) == before:
                        await bob.call_tool("fixture_test_touch_resource", {})
                        await asyncio.sleep(0.01)

            async with asyncio.timeout(PATIENCE):
                while not (uri in ann_told and uri in bob_told):
                    await bob.call_tool("fixture_test_touch_resource", {})
                    await asyncio.sleep(0.01)
            await touch()
            quiet = {"port": 0, "tokens": {"bob": TOKENS["bob"]}}
            access.adopt(ServeConfig.model_validate(quiet))
            heard = len(ann_told)
            await touch()
            await touch()
            assert len(ann_told) == heard
