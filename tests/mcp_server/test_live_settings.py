"""Settings that change while MCP clients are connected: what they see changes, and they are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
import tomlkit
from mcp import Client

import spindle
from mcp_server.conftest import fixture_source
from mcp_server.test_http_serving import modern
from servers.running import PATIENCE, until
from servers.serving import ERAS, by_command_line, piped, served, text_of
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess
from spindle.serving.reload import EVERY, Live

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
TOOLS = """
from spindle import tool
@tool(name="say.loud")
def say(text: str) -> str:
    return text.upper()
@tool(name="say.twice")
def twice(text: str) -> str:
    return text * 2
"""
SEARCH = ["search_tools", "describe_tool", "call_tool"]


def write(root: Path, sources: Mapping[str, Any] | None = None, **serve: Any) -> None:
    (root / "tools").mkdir(exist_ok=True)
    (root / "tools" / "t.py").write_text(TOOLS)
    (root / "spindle.toml").write_text(tomlkit.dumps({"serve": serve, "sources": dict(sources or {})}))


class Turn:
    """Settings as `spindle serve` looks at them, whenever the test says that a second went by."""

    def __init__(self, app: spindle.Spindle) -> None:
        self.now = 100.0
        self.notes: list[str] = []
        self.access = ServingAccess.of(app.settings.serve().model_copy(update={"port": 0}), {})
        self._live = Live(app, self.access, {"port": 0}, self.notes.append, now=lambda: self.now)

    async def __call__(self) -> None:
        self.now += EVERY
        await self._live.look()


class Told:
    """What a client was told, in either era."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    async def __call__(self, message: Any) -> None:
        kinds = {
            t.ToolListChangedNotification: "tools",
            t.PromptListChangedNotification: "prompts",
            t.ResourceListChangedNotification: "resources",
        }
        self.kinds |= {kind for cls, kind in kinds.items() if isinstance(message, cls)}

    async def of(self, *kinds: str) -> None:
        await until(lambda: self.kinds >= set(kinds))
        self.kinds.clear()


@contextlib.asynccontextmanager
async def connected(root: Path, era: str) -> AsyncIterator[tuple[Client, Turn, Told]]:
    told = Told()
    async with spindle.open(root) as app:
        turn = Turn(app)
        async with (
            served(app, access=turn.access) as url,
            Client(url, mode=ERAS[era], message_handler=told) as client,
            contextlib.AsyncExitStack() as stack,
        ):
            if era == "modern":
                listening = client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                )
                await stack.enter_async_context(listening)
            yield client, turn, told


async def names(client: Client) -> list[str]:
    return sorted(item.name for item in (await client.list_tools()).tools)


@EACH_ERA
async def test_the_mode_and_the_names_change_and_are_told(tmp_path: Path, era: str) -> None:
    write(tmp_path)
    async with connected(tmp_path, era) as (client, turn, told):
        assert await names(client) == ["say_loud", "say_twice"]
        for settings, expected in [
            ({"names": "full"}, ["say.loud", "say.twice"]),
            ({"mode": "search"}, sorted(SEARCH)),
            ({"mode": "auto", "max_tools": 1}, sorted(SEARCH)),
            ({"mode": "auto", "max_tools": 2, "names": "full"}, ["say.loud", "say.twice"]),
            ({"exposed_tools": ["say.twice"]}, ["say_twice"]),
        ]:
            write(tmp_path, **settings)
            await turn()
            await told.of("tools")
            assert await names(client) == expected
        assert text_of(await client.call_tool("say_twice", {"text": "a"})) == "aa"


@EACH_ERA
async def test_the_size_of_a_page_changes(tmp_path: Path, era: str) -> None:
    write(tmp_path)
    async with connected(tmp_path, era) as (client, turn, _):
        assert (await client.list_tools()).next_cursor is None
        write(tmp_path, page_size=1)
        await turn()
        first = await client.list_tools()
        assert len(first.tools) == 1
        assert first.next_cursor is not None


@EACH_ERA
async def test_clients_that_come_later_get_the_new_instruction(tmp_path: Path, era: str) -> None:
    write(tmp_path, instruction="Shout.")
    async with spindle.open(tmp_path) as app:
        turn = Turn(app)
        async with served(app, access=turn.access) as url:
            async with Client(url, mode=ERAS[era]) as client:
                assert client.instructions == "Shout."
            write(tmp_path, instruction="missing.md")
            await turn()
            assert "the old ones stay in force" in turn.notes[-1]
            assert "missing.md" in turn.notes[-1]
            (tmp_path / "guide.md").write_text("Whisper.")
            write(tmp_path, instruction="guide.md")
            await turn()
            async with Client(url, mode=ERAS[era]) as client:
                assert client.instructions == "Whisper."


async def test_how_large_a_body_may_be_changes(tmp_path: Path) -> None:
    write(tmp_path)
    large = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 3000}}
    headers = {"content-type": "application/json", "accept": "application/json"}

    async def chunks() -> AsyncIterator[bytes]:
        yield json.dumps(large).encode()

    async with spindle.open(tmp_path) as app:
        turn = Turn(app)
        async with served(app, access=turn.access) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
            # Refused for another reason: it belongs to no session.
            assert (await http.post(url, content=chunks(), headers=headers)).status_code == 400
            write(tmp_path, max_body_size=2000)
            await turn()
            assert (await http.post(url, content=chunks(), headers=headers)).status_code == 413
            write(tmp_path, max_body_size="1MB")
            await turn()
            assert (await http.post(url, content=chunks(), headers=headers)).status_code == 400


async def test_how_large_a_line_may_be_changes(tmp_path: Path) -> None:
    write(tmp_path)
    access = ServingAccess.of(ServeConfig(), {})
    async with spindle.open(tmp_path) as app, piped(app, access=access) as lines:
        await lines.handshake()
        lines.request(1, "ping", x="x" * 3000)
        assert (await lines.answer(1))["result"] == {}
        access.adopt(ServeConfig(max_body_size=2000))  # type: ignore[arg-type]
        lines.request(2, "ping", x="x" * 3000)
        refused = await lines.next_answer()
        assert "may have 2000 bytes" in refused["error"]["message"]
        lines.request(3, "ping", x="x" * 1000)
        assert (await lines.answer(3))["result"] == {}


# --- sources that come and go


@EACH_ERA
@pytest.mark.parametrize("source", ["2026-07-28", "handshake"])
async def test_what_a_new_source_tells_of_is_passed_on(tmp_path: Path, era: str, source: str) -> None:
    """Its prompts and resources are offered, and its notices reach clients that were there before."""
    write(tmp_path)
    async with connected(tmp_path, era) as (client, turn, told):
        assert (await client.list_prompts()).prompts == []
        write(tmp_path, {"fixture": fixture_source(protocol=source)})
        await turn()
        await told.of("tools", "prompts", "resources")
        assert "test_simple_prompt" in {item.name for item in (await client.list_prompts()).prompts}
        assert await client.get_prompt("test_simple_prompt")
        assert "test://static-text" in {str(item.uri) for item in (await client.list_resources()).resources}
        async with asyncio.timeout(PATIENCE):
            while "test_change_prompts" not in await names(client):  # the source is still asked for its tools
                await asyncio.sleep(0.01)
            told.kinds.clear()
            while "prompts" not in told.kinds:
                # We may still be about to listen to the source.
                assert text_of(await client.call_tool("test_change_prompts", {})) == "Told."
                await asyncio.sleep(0.01)
        assert "resources" not in told.kinds

        write(tmp_path)
        await turn()
        await told.of("tools", "prompts", "resources")
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []


@EACH_ERA
async def test_by_the_command_line_a_change_of_the_file_is_enough(tmp_path: Path, era: str) -> None:
    write(tmp_path)
    told = Told()
    async with (
        by_command_line(tmp_path, era, message_handler=told) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if era == "modern":
            await stack.enter_async_context(client.listen(tools_list_changed=True))
        assert await names(client) == ["say_loud", "say_twice"]
        write(tmp_path, mode="search")
        await told.of("tools")
        assert await names(client) == sorted(SEARCH)


async def test_running_calls_get_the_time_that_the_settings_give_them_at_the_end(tmp_path: Path) -> None:
    write(tmp_path, shutdown_timeout=0)
    (tmp_path / "tools" / "slow.py").write_text(
        "import asyncio, pathlib\nfrom spindle import tool\n"
        "@tool\nasync def slow(entered: str, go_on: str) -> str:\n"
        "    pathlib.Path(entered).touch()\n"
        "    while not pathlib.Path(go_on).exists():\n"
        "        await asyncio.sleep(0.01)\n"
        "    return 'done'\n"
    )
    entered, go_on = tmp_path / "entered", tmp_path / "go_on"
    arguments = {"entered": str(entered), "go_on": str(go_on)}
    body, headers = modern("tools/call", "slow", arguments=arguments)
    async with spindle.open(tmp_path) as app, httpx2.AsyncClient(timeout=PATIENCE) as http:
        turn, serving = Turn(app), contextlib.AsyncExitStack()
        url = await serving.enter_async_context(served(app, access=turn.access))
        call = asyncio.create_task(http.post(url, json=body, headers=headers))
        await until(entered.exists)
        write(tmp_path, shutdown_timeout=PATIENCE)
        await turn()
        ending = asyncio.create_task(serving.aclose())
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(httpx2.ConnectError):
                while True:  # it takes no more requests
                    # One that it accepted in its last moment is broken off.
                    with contextlib.suppress(httpx2.ReadError, httpx2.RemoteProtocolError):
                        await http.get(url)
        assert not ending.done()
        go_on.touch()
        assert (await call).json()["result"]["content"][0]["text"] == "done"
        await ending
