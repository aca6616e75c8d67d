"""Clients of a server whose source lists its tools only to users who gave their consent: each learns that it
waits, gives theirs, and sees the tools. The program as it runs, real clients, and two users."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

import spindle
from servers.oauth import agree
from servers.running import PATIENCE
from servers.serving import ERAS, by_command_line, piped, serve_command, served, text_of
from spindle import Principal
from spindle.domain.serve import ServeConfig
from spindle.serving import connecting
from spindle.serving.access import ServingAccess

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
ANN, BEN = Principal("ann"), Principal("ben")
LINK = re.compile(r"https?://\S+")
TOKENS = """
[serve.tokens]
ann = { token = "token-of-ann" }
ben = { token = "token-of-ben" }
"""
OWN = """
from spindle import tool

@tool
def hello() -> str:
    '''Say hello.'''
    return "hello"
"""


@pytest.fixture
def root(tmp_path: Path, guarded_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(OWN)
    return settings(tmp_path, guarded_url)


def settings(root: Path, url: str, more: str = TOKENS) -> Path:
    lines = ["[auth]", 'redirect_uri = "http://127.0.0.1/callback"', "[sources.work]", f'url = "{url}"']
    lines += ['description = "Papers."', 'auth = { type = "oauth", provider = "Work" }']
    (root / "spindle.toml").write_text("\n".join(lines) + "\n" + more)
    return root


@contextlib.asynccontextmanager
async def client_of(url: str, era: str, user: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer token-of-{user}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[era], **options) as client,
    ):
        yield client


async def names(client: Client) -> list[str]:
    return [item.name for item in (await client.list_tools()).tools]


class Told:
    """A client's ear for changes of its tools."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    async def hear(self, message: Any) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            self._changed.set()

    def forget(self) -> None:
        self._changed.clear()

    async def until(self, client: Client, wanted: list[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                await self._changed.wait()
                self._changed.clear()  # before the listing: what comes during it counts for the next
                if await names(client) == wanted:
                    return


@EACH_ERA
async def test_each_user_connects_for_themselves_and_is_told_when_the_tools_are_there(
    root: Path, era: str
) -> None:
    ann_told, ben_told = Told(), Told()
    async with (
        serve_command(root) as (url, _),
        client_of(url, era, "ann", message_handler=ann_told.hear) as ann,
        client_of(url, era, "ben", message_handler=ben_told.hear) as ben,
        contextlib.AsyncExitStack() as stack,
    ):
        for client in (ann, ben):
            (connect,) = [item for item in (await client.list_tools()).tools if item.name != "hello"]
            assert connect.name == "connect_work"
            assert "Papers." in (connect.description or "")
            if era == "modern":
                await stack.enter_async_context(client.listen(tools_list_changed=True))
        asked = await ann.call_tool("connect_work", {})
        assert asked.is_error
        link = LINK.search(text_of(asked).partition("Open this link")[2])
        assert link is not None, text_of(asked)
        ann_told.forget()
        # Completed in another process than the one that serves.
        async with spindle.open(root) as app:
            await agree(app, link[0], ANN)
        await ann_told.until(ann, ["hello", "work_whoami", "work_write"])
        assert await names(ben) == ["connect_work", "hello"], "a consent is one user's own"
        assert json.loads(text_of(await ann.call_tool("work_whoami", {})))["subject"] == "ann"
        done = await ann.call_tool("connect_work", {})
        assert "work is connected" in text_of(done), "who comes back to it is told so"
        # Ben's own, after Ann's has made the tools known.
        asked = await ben.call_tool("connect_work", {})
        other = LINK.search(text_of(asked).partition("Open this link")[2])
        assert other is not None
        assert other[0] != link[0]
        async with spindle.open(root) as app:
            with pytest.raises(spindle.PermissionDeniedError, match="started by another user"):
                await agree_as(app, other[0], BEN, ANN)
            ben_told.forget()
            await agree(app, other[0], BEN)
        await ben_told.until(ben, ["hello", "work_whoami", "work_write"])
        assert json.loads(text_of(await ben.call_tool("work_whoami", {})))["subject"] == "ben"


async def agree_as(app: spindle.Spindle, url: str, user: Principal, other: Principal) -> None:
    """A user follows a link, and comes back as somebody else."""
    from servers.oauth import User

    async with User(user.id) as person:
        given = await person.follow(url)
    await app.auth.complete(given["code"], given["state"], given.get("iss"), principal=other)


async def test_a_client_that_opens_links_is_asked_to_open_one(root: Path) -> None:
    async with spindle.open(root) as app, piped(app) as client:
        await client.handshake(elicitation={"url": {}})
        client.request(1, "tools/list")
        listed = (await client.answer(1))["result"]["tools"]
        assert [item["name"] for item in listed] == ["connect_work", "hello"]
        assert listed[0]["inputSchema"] == {"type": "object", "properties": {}}
        client.request(2, "tools/call", name="connect_work", arguments={})
        error = (await client.answer(2))["error"]
        assert error["code"] == t.URL_ELICITATION_REQUIRED
        (elicitation,) = error["data"]["elicitations"]
        await agree(app, elicitation["url"], app_owner())
        client.request(3, "tools/call", name="connect_work", arguments={})
        result = (await client.answer(3))["result"]
        assert result["structuredContent"] == {"source": "work", "tools": ["work.whoami", "work.write"]}
        client.request(4, "tools/list")
        listed = (await client.answer(4))["result"]["tools"]
        assert [item["name"] for item in listed] == ["hello", "work_whoami", "work_write"]
        assert await app.pauses() == []


def app_owner() -> Principal:
    """The principal over a pipe: whoever started the server."""
    return Principal()


async def test_a_client_of_2026_comes_back_to_the_call_that_waits(root: Path) -> None:
    opened: list[str] = []
    async with spindle.open(root) as app:

        async def follow(_context: Any, params: Any) -> t.ElicitResult:
            opened.append(params.url)
            await agree(app, params.url, ANN)
            return t.ElicitResult(action="accept")

        access = ServingAccess.of(ServeConfig.model_validate({"port": 0, "tokens": app_tokens()}), {})
        async with (
            served(app, access=access) as url,
            client_of(url, "modern", "ann", elicitation_callback=follow) as client,
        ):
            assert await names(client) == ["connect_work", "hello"]
            done = await client.call_tool("connect_work", {})
            assert "work is connected" in text_of(done)
            assert await names(client) == ["hello", "work_whoami", "work_write"]
        assert await app.pauses() == []
    assert len(opened) == 1


def app_tokens() -> dict[str, Any]:
    return {name: {"token": f"token-of-{name}"} for name in ("ann", "ben")}


async def test_asking_again_and_again_leaves_one_run_that_waits(root: Path) -> None:
    async def cannot(_context: Any, params: Any) -> t.ElicitResult:
        raise AssertionError("the test answers by itself")

    async with (
        spindle.open(root) as app,
        served(app) as url,
        Client(url, mode="auto", elicitation_callback=cannot) as client,
    ):
        states: set[str | None] = set()
        for _ in range(5):
            asked = await client.session.call_tool("connect_work", {}, allow_input_required=True)
            assert isinstance(asked, t.InputRequiredResult)
            states.add(asked.request_state)
        assert len(states) == len(await app.pauses()) == 1


@EACH_ERA
async def test_a_client_over_a_pipe_learns_of_it_too(root: Path, era: str) -> None:
    async with by_command_line(root, era) as client:
        assert await names(client) == ["connect_work", "hello"]
        async with spindle.open(root) as app:
            asked = await app.auth.begin("work")
            await agree(app, asked.url, app_owner())
        assert await names(client) == ["hello", "work_whoami", "work_write"]


LISTS = {
    'exposed_tools = ["hello"]': False,
    'exposed_tools = ["hello", "work.whoami"]': True,
    'exposed_tools = ["w*"]': True,
    'exposed_tools = ["x*"]': False,
    'excluded_tools = ["work.*"]': False,
    'excluded_tools = ["work.write"]': True,
    'excluded_tools = ["connect_*"]': False,
}


@pytest.mark.parametrize("place", ["serve", "serve.groups.guest"])
@pytest.mark.parametrize("lists", LISTS)
async def test_it_is_there_for_those_who_may_see_a_tool_of_the_source(
    tmp_path: Path, guarded_url: str, lists: str, place: str
) -> None:
    root = settings(tmp_path, guarded_url, f"[{place}]\n{lists}\n")
    async with spindle.open(root) as app:
        access = ServingAccess.of(app.settings.serve().model_copy(update={"port": 0}), {})
        async with served(app, access=access) as url, Client(url) as client:
            assert ("connect_work" in await names(client)) is LISTS[lists]
            if not LISTS[lists]:
                with pytest.raises(MCPError, match="Unknown tool"):
                    await client.call_tool("connect_work", {})


async def test_a_tool_of_that_name_keeps_it(root: Path) -> None:
    text = OWN + "\n@tool\ndef connect_work() -> str:\n    '''Another.'''\n    return 'mine'\n"
    (root / "tools" / "t.py").write_text(text)
    async with spindle.open(root) as app, served(app) as url, Client(url) as client:
        listed = await names(client)
        (other,) = [name for name in listed if name not in ("connect_work", "hello")]
        assert re.fullmatch(r"connect_work_[0-9a-f]{8}", other)
        assert text_of(await client.call_tool("connect_work", {})) == "mine"
        assert "Open this link" in text_of(await client.call_tool(other, {}))


async def test_in_search_mode_it_stands_beside_the_three_tools(root: Path) -> None:
    async with spindle.open(root) as app:
        async with served(app, mode="search") as url, Client(url) as client:
            assert await names(client) == ["connect_work", "search_tools", "describe_tool", "call_tool"]
        asked = await app.auth.begin("work", ANN)
        await agree(app, asked.url, ANN)
        await app.sync("work", principal=ANN)
        async with served(app, mode="search") as url, Client(url) as client:
            found = await client.call_tool("search_tools", {"query": "whoami"})
            assert found.structured_content == {"tools": []}, "what Ann's consent has shown is not for all"


async def test_the_first_page_has_it_and_keeps_its_size(root: Path) -> None:
    more = "".join(f"\n@tool\ndef t{n}() -> str:\n    return ''\n" for n in range(3))
    (root / "tools" / "t.py").write_text(OWN + more)
    async with spindle.open(root) as app, served(app, page_size=2) as url, Client(url) as client:
        seen: list[list[str]] = []
        cursor: str | None = None
        while not seen or cursor is not None:
            page = await client.list_tools(cursor=cursor)
            seen.append([item.name for item in page.tools])
            cursor = page.next_cursor
    assert seen == [["connect_work", "hello"], ["t0", "t1"], ["t2"]]


async def test_a_token_that_cannot_be_read_any_more_costs_the_calls_that_need_it_alone(root: Path) -> None:
    async with spindle.open(root) as app:
        asked = await app.auth.begin("work")
        await agree(app, asked.url, app_owner())
        await app.sync("work")
        (secret,) = await app.store.secrets("token")
        await app.store.save_secret(replace(secret, sealed=secret.sealed[:-1] + b"?"))
        async with served(app) as url, Client(url) as client:
            assert await names(client) == ["hello", "work_whoami", "work_write"]
            assert text_of(await client.call_tool("hello", {})) == "hello"
            assert (await client.call_tool("work_whoami", {})).is_error


async def test_a_source_that_takes_its_time_after_a_consent_holds_up_no_list(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the news of other changes."""
    monkeypatch.setattr(connecting, "LIST_TIMEOUT", 0.01)
    async with spindle.open(root) as app:
        asked, entered, released = await app.auth.begin("work"), asyncio.Event(), asyncio.Event()
        listed = app.catalog._discovery._list

        async def slow(*parts: Any) -> Any:
            entered.set()
            await released.wait()
            return await listed(*parts)

        async with served(app) as url, Client(url) as client:
            assert await names(client) == ["connect_work", "hello"]
            await agree(app, asked.url, app_owner())
            app.catalog._discovery._list = slow  # type: ignore[method-assign]
            assert await names(client) == ["hello"], "it no longer waits for a person, only for its server"
            assert entered.is_set()
            async with client.listen(tools_list_changed=True) as changes:
                released.set()
                async with asyncio.timeout(PATIENCE):
                    await anext(aiter(changes))
            assert await names(client) == ["hello", "work_whoami", "work_write"]


async def test_a_source_that_lists_openly_has_no_such_tool(tmp_path: Path, open_lists_url: str) -> None:
    root = settings(tmp_path, open_lists_url, "")
    async with spindle.open(root) as app, served(app) as url, Client(url) as client:
        assert await names(client) == ["work_whoami"]
        asked = await client.call_tool("work_whoami", {})
        assert "Open this link to give consent" in text_of(asked)
