"""Servers over stdio that misbehave, as real processes."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path

import pytest

from servers.running import PATIENCE, OpenSources, Signal, StdioServers, listening, next_change, process_end
from spindle import CallOptions
from spindle.errors import (
    CallTimeoutError,
    ClientError,
    ResultTooLargeError,
    ServerError,
)

SURROGATE = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"cut \\ud83d"}]}}'
NAN = '{"jsonrpc": "2.0", "id": $ID, "result": {"content": [], "structuredContent": {"x": NaN}}}'
NOT_A_RESULT = '{"jsonrpc":"2.0","id":$ID,"result":{"content":"not a list"}}'
NULL_RESULT = '{"jsonrpc":"2.0","id":$ID,"result":null}'
ODD_ERROR = '{"jsonrpc":"2.0","id":$ID,"error":{"code":"E42","message":7}}'


async def test_text_that_is_not_json_rpc_on_stdout_is_ignored(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(at_start="chatter")}) as app:
        result = await app.call("s.chatter")
    assert result.text == "after the chatter"


@pytest.mark.parametrize("method", ["notifications/message", "notifications/tools/list_changed"])
async def test_a_flood_of_notifications_neither_blocks_nor_breaks_a_call(
    open_sources: OpenSources, stdio_server: StdioServers, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few may wait that reading has to pause, and the server's pipe fills up.
    monkeypatch.setattr("spindle.sources.mcp.dispatcher.MAX_QUEUED_NOTIFICATIONS", 10)
    async with open_sources({"s": stdio_server()}) as app:
        flooded, echoed = await asyncio.gather(
            app.call("s.flood", count=100_000, method=method), app.call("s.echo", text="still here")
        )
    assert flooded.text == "flooded"
    assert echoed.text == "still here"


async def test_five_megabytes_of_text_arrive_whole(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        result = await app.call("s.big", size=5_000_000)
    assert result.text == "x" * 5_000_000


async def test_a_result_over_the_limit_fails_alone(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server() | {"max_result_size": "1MB"}}) as app:
        took = Signal()
        waiting = asyncio.create_task(app.call("s.wait", {}, CallOptions(on_progress=took, timeout=PATIENCE)))
        await took.wait()
        with pytest.raises(ResultTooLargeError, match="larger than 1000000 bytes") as caught:
            await app.call("s.big", size=50_000_000)
        assert "max_result_size" in (caught.value.hint or "")
        assert (await app.call("s.echo", text="next")).text == "next"
        assert not waiting.done()
        waiting.cancel()
    assert len(stdio_server.starts()) == 1


@pytest.mark.parametrize("head", ['{"jsonrpc": "2.0", "method": "x", ', '{"method":"x","id":"s1",'])
async def test_an_oversized_message_that_is_no_answer_fails_no_call(
    open_sources: OpenSources, stdio_server: StdioServers, head: str
) -> None:
    huge = head + '"params": {"data": "' + "x" * 200_000 + '"}}'
    line = huge + '\n{"jsonrpc": "2.0", "id": $ID, "result": {"content": []}}'
    async with open_sources({"s": stdio_server() | {"max_result_size": "100kB"}}) as app:
        result = await app.call("s.raw", line=line)
    assert result.content == ()


async def test_a_second_answer_to_one_request_is_dropped(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        assert (await app.call("s.twice")).text == "first"
        assert (await app.call("s.echo", text="next")).text == "next"


async def test_an_answer_that_comes_after_the_timeout_reaches_nobody(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        await app.sync()
        with pytest.raises(CallTimeoutError, match="did not answer within"):
            await app.call("s.answer_after_cancel", {}, CallOptions(timeout=0.05))
        assert (await app.call("s.echo", text="mine")).text == "mine"


async def test_a_timed_out_call_is_cancelled_at_the_server(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        await app.sync()
        with pytest.raises(CallTimeoutError):
            await app.call("s.wait", {}, CallOptions(timeout=0.05))
        messages = (await app.call("s.received")).structured["messages"]
    call, cancel = messages[-3:-1]
    assert call["params"]["name"] == "wait"
    assert cancel["method"] == "notifications/cancelled"
    assert cancel["params"]["requestId"] == call["id"]


async def test_a_cancelled_call_is_cancelled_at_the_server(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        took = Signal()
        task = asyncio.create_task(app.call("s.wait", {}, CallOptions(on_progress=took)))
        await took.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        messages = (await app.call("s.received")).structured["messages"]
        records = await app.history(tool="s.wait")
    assert messages[-2]["method"] == "notifications/cancelled"
    assert records[0].outcome == "cancelled"


async def test_progress_is_passed_on_before_the_answer(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        progress = Signal()
        result = await app.call("s.progress", {"steps": 5}, CallOptions(on_progress=progress))
        assert result.text == "done"
        assert progress.seen[-1] == (5, 5, "step 5")
        assert [step for step, _, _ in progress.seen] == sorted(step for step, _, _ in progress.seen)


async def test_a_progress_listener_that_fails_does_not_fail_the_call(
    open_sources: OpenSources, stdio_server: StdioServers, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(progress: float, total: float | None, message: str | None) -> None:
        raise ValueError("the listener is broken")

    async with open_sources({"s": stdio_server()}) as app:
        result = await app.call("s.progress", {"steps": 3}, CallOptions(on_progress=broken))
    assert result.text == "done"
    assert "the listener is broken" in caplog.text


@pytest.mark.parametrize("modern", [False, True])
async def test_every_kind_of_content_arrives_in_order(
    open_sources: OpenSources, stdio_server: StdioServers, modern: bool
) -> None:
    async with open_sources({"s": stdio_server(modern=modern)}) as app:
        result = await app.call("s.kinds")
    assert [block.type for block in result.content] == [
        "text", "image", "audio", "link", "resource", "resource"
    ]  # fmt: skip
    text, image, audio, link, held, blob = result.content
    assert (text.text, text.annotations) == ("words", {"audience": ["user"], "priority": 0.5})
    assert (image.data, image.mime_type) == ("aW1hZ2U=", "image/png")
    assert (audio.data, audio.mime_type) == ("YXVkaW8=", "audio/wav")
    assert (link.uri, link.name, link.text, link.size) == ("file:///a.txt", "a.txt", "a file", 12)
    assert (held.uri, held.text) == ("test://text", "held text")
    assert (blob.uri, blob.data, blob.mime_type) == ("test://blob", "YmxvYg==", "x/y")
    assert result.structured == {"kinds": 6}


async def test_structured_output_is_held_to_its_schema(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        assert (await app.call("s.point")).structured == {"x": 1.5}
        with pytest.raises(ServerError, match="does not fit its output schema: x: "):
            await app.call("s.not_a_point")
        with pytest.raises(ServerError, match="promises structured output and gave none"):
            await app.call("s.no_point")
        failed = await app.call("s.failed_point")
    assert failed.is_error
    assert failed.text == "it failed"


async def test_a_tool_with_an_invalid_schema_is_said_and_stays_callable(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        (report,) = await app.sync()
        assert report.error is None
        loosened = {item.name: item.reason for item in report.loosened}
        assert loosened.keys() == {"s.bad_schema", "s.bad_output_schema"}
        assert "no such type" in loosened["s.bad_schema"]
        await app.call("s.bad_schema", a=1)
        assert stdio_server.calls("bad_schema") == 1
        await app.call("s.bad_output_schema")
        assert (await app.call("s.echo", text="fine")).text == "fine"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (NOT_A_RESULT, "answered against the protocol"),
        (NULL_RESULT, "neither a result nor an error"),
        (NAN, "cannot be read"),
        (ODD_ERROR, "gave no reason"),
    ],
)
async def test_an_answer_that_makes_no_sense_fails_its_call_at_once(
    open_sources: OpenSources, stdio_server: StdioServers, line: str, message: str
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        with pytest.raises(ServerError, match=message):
            await app.call("s.raw", {"line": line}, CallOptions(timeout=PATIENCE))
        assert (await app.call("s.echo", text="next")).text == "next"


async def test_text_cut_in_the_middle_of_a_character_is_still_read(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        result = await app.call("s.raw", {"line": SURROGATE}, CallOptions(timeout=PATIENCE))
    assert result.text == "cut \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-32602, ClientError), (-32601, ClientError), (-32603, ServerError), (-32050, ServerError)],
)
async def test_a_json_rpc_error_is_told_by_its_code(
    open_sources: OpenSources, stdio_server: StdioServers, code: int, kind: type[Exception]
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        with pytest.raises(kind, match="refused") as caught:
            await app.call("s.refuse", code=code)
    assert caught.value.details == {"code": code, "data": {"why": "asked to"}}
    assert stdio_server.calls("refuse") == 1


async def test_a_server_that_dies_at_start_is_reported_with_its_last_words(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(at_start="die")}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert report.error["category"] == "connection"
    assert "exited with status 3" in report.error["message"]
    assert "fatal: the token is missing" in report.error["message"]
    assert "loading the settings\nfatal: the token is missing" in report.error["details"]["stderr"]


@pytest.mark.parametrize("probe", ["die", "crash"])
async def test_a_server_that_dies_of_the_modern_question_gets_the_handshake(
    open_sources: OpenSources, stdio_server: StdioServers, probe: str
) -> None:
    notes: list[str] = []
    async with open_sources({"s": stdio_server(probe=probe)}, note=notes.append) as app:
        result = await app.call("s.echo", text="hello")
    assert result.text == "hello"
    assert len(stdio_server.starts()) == 2
    assert any('protocol = "handshake"' in note for note in notes)


async def test_a_server_that_ignores_the_modern_question_gets_the_handshake(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(probe="ignore") | {"connect_timeout": 6}}) as app:
        assert (await app.call("s.echo", text="hello")).text == "hello"
        await app.catalog.connections.close_source("s")
        assert (await app.call("s.echo", text="again")).text == "again"
    asked = [entry for entry in stdio_server.recorded() if entry.get("method") == "server/discover"]
    assert len(asked) == 1


async def test_a_program_that_does_not_exist_is_named(open_sources: OpenSources) -> None:
    async with open_sources({"s": {"command": ["no-such-program-here"]}}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "'no-such-program-here' was not found" in report.error["message"]


async def test_a_folder_that_does_not_exist_is_named(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server() | {"cwd": "nowhere"}}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "nowhere" in report.error["message"]


async def test_a_file_that_cannot_be_run_is_named(open_sources: OpenSources, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("no program")
    async with open_sources({"s": {"command": [str(tmp_path / "plain.txt")]}}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "cannot start 's'" in report.error["message"]


async def test_a_program_that_is_no_mcp_server_is_shown_with_what_it_printed(
    open_sources: OpenSources,
) -> None:
    importlib.import_module("spindle.sources.mcp.session")  # which may take longer than it is given below
    script = "import sys; print('usage: thing [options]', flush=True); sys.stdin.read()"
    source = {"command": [sys.executable, "-I", "-S", "-c", script], "connect_timeout": 2}
    async with open_sources({"s": source}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "was not ready within 2 s" in report.error["message"]
    assert "usage: thing [options]" in report.error["message"]


async def test_a_version_that_nobody_knows_is_refused(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(at_start="wrong_version")}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert report.error["category"] == "server"
    assert "1999-01-01" in report.error["message"]


async def test_connecting_is_bounded_apart_from_calling(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    silent = stdio_server(at_start="silent") | {"connect_timeout": 0.2, "timeout": 1000}
    async with open_sources({"s": silent}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "was not ready within 0.2 s" in report.error["message"]
    assert "connect_timeout" in report.error["hint"]


async def test_all_pages_of_a_long_list_are_read(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(tools=[], extra_tools=3000, page_size=30)}) as app:
        (report,) = await app.sync()
        assert report.tools == 3000
        assert (await app.call("s.extra_02999")).text == "called extra_02999"
    listed = [entry for entry in stdio_server.recorded() if entry.get("method") == "tools/list"]
    assert len(listed) == 100


async def test_a_list_that_goes_in_a_circle_is_an_error(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server(cursor_loop=True, page_size=2)}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "in a circle" in report.error["message"]


async def test_the_second_of_two_tools_of_one_name_is_left_out(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    twins = [{"name": "twin", "inputSchema": {"type": "object"}}] * 2
    async with open_sources({"s": stdio_server(tools=twins)}) as app:
        (report,) = await app.sync()
    assert report.error is None
    assert report.tools == 1
    assert [item.to_dict() for item in report.left_out] == [
        {"name": "twin", "reason": "another tool of the same name came before it"}
    ]


async def test_odd_names_become_legal_ones_and_are_sent_back_as_they_were(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    names = ["with space", "a/b/c", "żółw", "x" * 200, "x" * 200 + "y", "a.b", "a_b", "a b", "日本"]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    async with open_sources({"s": stdio_server(tools=tools)}) as app:
        (report,) = await app.sync()
        assert report.error is None
        found = [await app.show(summary.name) for summary in await app.tools()]
        called = [(await app.call(tool.name)).text for tool in found]
    assert sorted(tool.spec.remote_name for tool in found) == sorted(names)
    assert len({tool.name for tool in found}) == len(names)
    assert sorted(called) == sorted(f"called {name}" for name in names)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_changed_list_refreshes_the_catalog_while_it_is_open(
    open_sources: OpenSources, stdio_server: StdioServers, modern: bool
) -> None:
    async with open_sources({"s": stdio_server(modern=modern)}) as app:
        await app.sync()
        change = next_change(app)
        if modern:
            await listening(app)
        await app.call("s.add_tool", name="newcomer")
        report = await change()
        assert report.added == ["s.newcomer"]
        assert (await app.call("s.newcomer")).text == "called newcomer"


async def test_many_notices_of_change_cause_few_refreshes(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        await app.sync()
        change = next_change(app)
        await app.call("s.add_tool", name="newcomer", notices=2000)
        report = await change()
        assert "s.newcomer" in {tool.name for tool in await app.tools()}
        assert report.error is None
    listed = [entry for entry in stdio_server.recorded() if entry.get("method") == "tools/list"]
    assert len(listed) < 5


async def test_what_a_server_asks_of_us_is_answered(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        ping = json.loads((await app.call("s.ask", method="ping")).text)
        roots = json.loads((await app.call("s.ask", method="roots/list")).text)
        many = json.loads((await app.call("s.ask", method="ping", count=500)).text)
    assert ping["result"] == {}
    assert roots["error"]["code"] in (-32600, -32601)
    assert many["result"] == {}


async def test_an_answer_that_is_followed_by_the_end_of_the_server_counts(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app:
        for _ in range(10):
            pid = int((await app.call("s.pid")).text)
            assert (await app.call("s.last_answer", size=200_000)).text == "x" * 200_000
            await process_end(pid)
    assert len(stdio_server.starts()) == 10


async def test_the_environment_of_a_server_holds_what_was_declared_and_no_secrets(
    open_sources: OpenSources, stdio_server: StdioServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "leaked")
    async with open_sources({"s": stdio_server() | {"env": {"DECLARED": "yes"}}}) as app:
        assert (await app.call("s.env", name="DECLARED")).text == "yes"
        assert (await app.call("s.env", name="SOME_SECRET")).text == ""
