"""Tools through the served catalog, with the protocol's own client in both eras."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning

import spindle
from servers.running import PATIENCE, OpenSources, Signal, StdioServers, until
from servers.serving import ERAS, by_command_line, served, text_of
from spindle import Block, Context, tool
from spindle.domain.serve import Exposure
from spindle.schemas.compiled import schema_problem
from spindle.settings import Settings

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


@contextlib.asynccontextmanager
async def client_of(
    app: Any, era: str, options: dict[str, Any] | None = None, **serve: Any
) -> AsyncGenerator[Client]:
    async with served(app, **serve) as url, Client(url, mode=ERAS[era], **(options or {})) as client:
        yield client


async def all_tools(client: Client) -> tuple[list[t.Tool], int]:
    tools: list[t.Tool] = []
    cursor: str | None = None
    pages = 0
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            return tools, pages


@tool(read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool(destructive=True, idempotent=True)
def wipe() -> str:
    """Wipe it all."""
    return "wiped"


@EACH_ERA
async def test_a_tool_with_bad_schemas_is_listed_with_valid_ones_and_costs_its_neighbours_nothing(
    era: str, tmp_path: Path
) -> None:
    bad = {
        "type": ["object", "null"],
        "properties": {"n": {"type": "int"}, "any": True, "pair": {"items": [{}]}},
    }

    @tool(input_schema=bad)
    def odd(**arguments: Any) -> dict[str, Any]:
        return arguments

    async with (
        spindle.open(settings=Settings(tmp_path, {}), tools=[odd, add]) as app,
        client_of(app, era) as client,
    ):
        listed = {item.name: item for item in (await all_tools(client))[0]}
        assert set(listed) == {"odd", "add"}
        assert listed["odd"].input_schema == {
            "type": "object",
            "properties": {"n": {}, "any": {}, "pair": {"prefixItems": [{}]}},
        }
        assert schema_problem(listed["odd"].input_schema) is None
        answered = await client.call_tool("odd", {"n": "x", "pair": [1]})
        assert answered.structured_content == {"n": "x", "pair": [1]}


@EACH_ERA
async def test_a_tool_is_listed_with_all_that_is_known_of_it(tmp_path: Path, era: str) -> None:
    async with spindle.open(tmp_path, tools=[add, wipe]) as app, client_of(app, era) as client:
        tools = {item.name: item for item in (await client.list_tools()).tools}
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].input_schema["required"] == ["a", "b"]
    assert tools["add"].output_schema is not None
    assert tools["add"].annotations is not None
    assert tools["add"].annotations.read_only_hint is True
    assert tools["wipe"].annotations is not None
    assert tools["wipe"].annotations.destructive_hint is True
    assert tools["wipe"].annotations.idempotent_hint is True


@EACH_ERA
async def test_a_call_gives_text_and_structure(tmp_path: Path, era: str) -> None:
    async with spindle.open(tmp_path, tools=[add]) as app, client_of(app, era) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"sum": 3}
    assert not result.is_error


@EACH_ERA
async def test_structure_that_is_no_object_reaches_those_who_know_it(tmp_path: Path, era: str) -> None:
    @tool
    def count() -> list[int]:
        """Count."""
        return [1, 2]

    async with spindle.open(tmp_path, tools=[count]) as app, client_of(app, era) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("count", {})
    assert text_of(result) == "[1,2]"
    assert result.structured_content == ([1, 2] if era == "modern" else None)
    assert (listed.output_schema is not None) == (era == "modern")


@EACH_ERA
async def test_every_kind_of_content_arrives_in_order(
    open_sources: OpenSources, stdio_server: StdioServers, era: str
) -> None:
    async with open_sources({"s": stdio_server()}) as app, client_of(app, era) as client:
        result = await client.call_tool("s_kinds", {})
    kinds = ["text", "image", "audio", "resource_link", "resource", "resource"]
    assert [block.type for block in result.content] == kinds
    assert result.content[0].annotations is not None
    assert result.content[0].annotations.priority == 0.5
    assert result.structured_content == {"kinds": 6}


@EACH_ERA
async def test_mistakes_are_results_that_a_model_can_read(
    open_sources: OpenSources, stdio_server: StdioServers, era: str
) -> None:
    async with open_sources({"s": stdio_server()}) as app, client_of(app, era) as client:
        wrong = await client.call_tool("s_echo", {"text": 7})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("s_refuse", {"code": -32602})
        failed = await client.call_tool("s_failed_point", {})
    assert wrong.is_error
    assert refused.value.code == t.INVALID_PARAMS, "the server's own word, as a client of it would get it"
    assert failed.is_error
    assert "the arguments do not fit s.echo: text" in text_of(wrong)
    assert wrong.meta is not None
    assert wrong.meta["io.spindle/error"]["category"] == "invalid_arguments"
    assert text_of(failed) == "it failed"


@EACH_ERA
async def test_an_unknown_tool_is_an_error_of_the_protocol(tmp_path: Path, era: str) -> None:
    async with spindle.open(tmp_path, tools=[add]) as app, client_of(app, era) as client:
        with pytest.raises(MCPError, match="Unknown tool: ad; did you mean 'add'") as caught:
            await client.session.call_tool("ad", {})
        assert caught.value.code == t.INVALID_PARAMS
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools(cursor="no cursor of ours!")


@EACH_ERA
@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_a_thousand_tools_come_in_pages_and_can_be_called(
    tmp_path: Path, stdio_server: StdioServers, era: str, over: str
) -> None:
    command = stdio_server(extra_tools=971)["command"]
    (tmp_path / "spindle.toml").write_text(f"[serve]\npage_size = 300\n[sources.s]\ncommand = {command!r}\n")
    async with contextlib.AsyncExitStack() as stack:
        if over == "stdio":
            client = await stack.enter_async_context(by_command_line(tmp_path, era))
        else:
            app = await stack.enter_async_context(spindle.open(tmp_path))
            client = await stack.enter_async_context(client_of(app, era, page_size=300))
        tools, pages = await all_tools(client)
        assert len({item.name for item in tools}) == len(tools) == 1000
        assert pages == 4
        assert text_of(await client.call_tool("s_echo", {"text": "hello"})) == "hello"


async def test_tools_that_come_and_go_between_pages_neither_hide_nor_repeat_others(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with (
        open_sources({"s": stdio_server()}) as app,
        client_of(app, "modern", page_size=5) as client,
    ):
        first = await client.list_tools()
        names = [item.name for item in first.tools]
        await client.call_tool("s_add_tool", {"name": "aaa_new"})
        await app.sync("s")
        after: list[str] = []
        cursor = first.next_cursor
        while cursor is not None:
            page = await client.list_tools(cursor=cursor)
            after += [item.name for item in page.tools]
            cursor = page.next_cursor
    assert not set(names) & set(after)
    assert {"s_add_tool", "s_echo", "s_wait_safely"} <= {*names, *after}


@EACH_ERA
async def test_progress_reaches_the_client(
    open_sources: OpenSources, stdio_server: StdioServers, era: str
) -> None:
    heard = Signal()
    async with open_sources({"s": stdio_server()}) as app, client_of(app, era) as client:
        result = await client.call_tool("s_progress", {"steps": 3}, progress_callback=heard)
    assert text_of(result) == "done"
    assert heard.seen[-1] == (3, 3, "step 3")


@EACH_ERA
@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_a_call_that_the_client_gives_up_is_given_up_at_the_source(
    tmp_path: Path, stdio_server: StdioServers, era: str, over: str
) -> None:
    command = stdio_server()["command"]
    (tmp_path / "spindle.toml").write_text(f"[sources.s]\ncommand = {command!r}\n")
    async with contextlib.AsyncExitStack() as stack:
        if over == "stdio":
            client = await stack.enter_async_context(by_command_line(tmp_path, era))
        else:
            app = await stack.enter_async_context(spindle.open(tmp_path))
            client = await stack.enter_async_context(client_of(app, era))
        await client.list_tools()
        started = Signal()
        call = asyncio.create_task(client.call_tool("s_wait", {}, progress_callback=started))
        await started.wait()
        call.cancel()
        await until(
            lambda: any(entry.get("method") == "notifications/cancelled" for entry in stdio_server.recorded())
        )
        assert text_of(await client.call_tool("s_echo", {"text": "still here"})) == "still here"


@EACH_ERA
async def test_messages_of_tools_reach_the_client_at_the_level_it_wants(tmp_path: Path, era: str) -> None:
    @tool
    def talk(context: Context) -> str:
        """Say things."""
        context.log("low", 10)
        context.log("high", 30)
        return "said"

    heard: list[Any] = []

    async def hear(params: t.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data))

    options = {"logging_callback": hear}
    async with spindle.open(tmp_path, tools=[talk]) as app, client_of(app, era, options) as client:
        if era == "handshake":
            with pytest.warns(MCPDeprecationWarning):
                await client.session.set_logging_level("warning")
            await client.call_tool("talk", {})
        else:
            await client.session.call_tool("talk", {}, meta={t.LOG_LEVEL_META_KEY: "warning"})
        await until(lambda: bool(heard))
    assert heard == [("warning", "high")]


@EACH_ERA
async def test_a_change_of_the_tools_is_told(
    open_sources: OpenSources, stdio_server: StdioServers, era: str
) -> None:
    changed = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            changed.set()

    async with (
        open_sources({"s": stdio_server()}) as app,
        client_of(app, era, {"message_handler": on_message}) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        await client.list_tools()
        if era == "modern":
            await stack.enter_async_context(client.listen(tools_list_changed=True))
        await client.call_tool("s_add_tool", {"name": "newcomer"})
        async with asyncio.timeout(PATIENCE):
            names: set[str] = set()
            while "s_newcomer" not in names:
                await changed.wait()
                changed.clear()  # before the listing: what comes during it counts for the next
                names = {item.name for item in (await client.list_tools()).tools}


async def test_an_edited_file_of_tools_is_told(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "spindle.toml").write_text("")
    (tools / "a.py").write_text("from spindle import tool\n@tool\ndef one() -> str:\n    return '1'\n")
    async with spindle.open(tmp_path) as app, client_of(app, "modern") as client:
        assert [item.name for item in (await client.list_tools()).tools] == ["one"]
        async with client.listen(tools_list_changed=True) as changes:
            (tools / "b.py").write_text(
                "from spindle import tool\n@tool\ndef two() -> str:\n    return '2'\n"
            )
            async with asyncio.timeout(PATIENCE):
                await anext(aiter(changes))
        assert [item.name for item in (await client.list_tools()).tools] == ["one", "two"]


async def test_a_blocking_tool_delays_no_other_call(tmp_path: Path) -> None:
    entered, released = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Blocks until the other call was answered."""
        entered.set()
        assert released.wait(PATIENCE)
        return "blocked"

    @tool
    def release() -> str:
        """Ends the wait."""
        released.set()
        return "released"

    async with spindle.open(tmp_path, tools=[block, release]) as app, client_of(app, "modern") as client:
        blocked = asyncio.create_task(client.call_tool("block", {}))
        await asyncio.to_thread(entered.wait, PATIENCE)
        assert text_of(await client.call_tool("release", {})) == "released"
        assert text_of(await blocked) == "blocked"


async def test_a_large_file_is_a_link_that_only_who_got_it_can_read(tmp_path: Path) -> None:
    @tool
    def picture() -> Block:
        """A large picture."""

        return Block(
            "image", data=base64.b64encode(b"\x89PNG" + bytes(400_000)).decode(), mime_type="image/png"
        )

    (tmp_path / "spindle.toml").write_text("")
    async with spindle.open(tmp_path, tools=[picture]) as app, client_of(app, "modern") as client:
        result = await client.call_tool("picture", {})
        (link,) = result.content
        assert link.type == "resource_link"
        assert link.size == 400_004
        (held,) = (await client.read_resource(link.uri)).contents
        assert isinstance(held, t.BlobResourceContents)
        assert len(held.blob) > 400_000
        for wrong in ("spindle://files/" + "0" * 32 + ".png", "spindle://files/../state.db"):
            with pytest.raises(MCPError, match="there is no resource"):
                await client.read_resource(wrong)


@pytest.mark.parametrize("mode", ["all", "search"])
async def test_a_tool_that_is_not_visible_does_not_exist(tmp_path: Path, mode: Any) -> None:
    async with (
        spindle.open(tmp_path, tools=[add, wipe]) as app,
        client_of(app, "modern", groups={"guest": Exposure(excluded_tools=("wipe",))}, mode=mode) as client,
    ):
        assert "wipe" not in {item.name for item in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match=r"Unknown tool: wipe$"):
            await client.session.call_tool("wipe", {})
        if mode == "search":
            found = await client.call_tool("search_tools", {"query": "wipe add"})
            assert found.structured_content is not None
            assert [item["name"] for item in found.structured_content["tools"]] == ["add"]
            assert (await client.call_tool("describe_tool", {"name": "wipe"})).is_error
            assert (await client.call_tool("call_tool", {"name": "wipe"})).is_error
    async with spindle.open(settings=Settings(tmp_path, {})) as app:
        assert {record.tool for record in await app.history()} <= {"add"}


async def test_three_tools_stand_for_all(tmp_path: Path) -> None:
    async with (
        spindle.open(tmp_path, tools=[add, wipe]) as app,
        client_of(app, "handshake", mode="auto", max_tools=1) as client,
    ):
        names = [item.name for item in (await client.list_tools()).tools]
        assert names == ["search_tools", "describe_tool", "call_tool"]
        found = await client.call_tool("search_tools", {"query": "numbers"})
        assert found.structured_content == {"tools": [{"name": "add", "description": "Add two numbers"}]}
        described = await client.call_tool("describe_tool", {"name": "add"})
        assert described.structured_content is not None
        assert described.structured_content["inputSchema"]["required"] == ["a", "b"]
        result = await client.call_tool("call_tool", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert result.structured_content == {"sum": 3}
        wrong = await client.call_tool("search_tools", {"words": "x"})
        assert wrong.is_error
        missing = await client.call_tool("call_tool", {"name": "ad"})
        assert "did you mean 'add'?" in text_of(missing)


async def test_few_tools_are_offered_as_they_are(tmp_path: Path) -> None:
    async with (
        spindle.open(tmp_path, tools=[add, wipe]) as app,
        client_of(app, "modern", mode="auto", max_tools=2) as client,
    ):
        assert [item.name for item in (await client.list_tools()).tools] == ["add", "wipe"]


async def test_full_names_on_request(open_sources: OpenSources, stdio_server: StdioServers) -> None:
    async with open_sources({"s": stdio_server()}) as app, client_of(app, "modern", names="full") as client:
        assert "s.echo" in {item.name for item in (await client.list_tools()).tools}
        assert text_of(await client.call_tool("s.echo", {"text": "hi"})) == "hi"


@EACH_ERA
async def test_the_instruction_is_told(tmp_path: Path, era: str) -> None:
    (tmp_path / "guide.md").write_text("Use add for sums.")
    async with (
        spindle.open(tmp_path, tools=[add]) as app,
        client_of(app, era, instruction="guide.md") as client,
    ):
        assert client.session.instructions == "Use add for sums."
