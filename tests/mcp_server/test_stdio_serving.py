"""Serving over pipes: lines in, lines out, whatever they hold."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.running import PATIENCE, OpenSources, StdioServers, until
from servers.serving import SPINDLE, piped
from spindle import tool

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_version_of_the_handshake_is_spoken(tmp_path: Path, version: str) -> None:
    async with spindle.open(tmp_path, tools=[shout]) as app, piped(app) as client:
        opened = await client.handshake(version)
        assert opened["result"]["protocolVersion"] == version
        client.request(1, "tools/call", name="shout", arguments={"text": "hi"})
        answer = await client.answer(1)
    assert answer["result"]["content"] == [{"type": "text", "text": "HI"}]
    assert "_meta" not in answer["result"]


async def test_a_client_of_2026_needs_no_handshake(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[shout]) as app, piped(app) as client:
        client.request("d", "server/discover", _meta=ENVELOPE)
        found = (await client.answer("d"))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["capabilities"]["tools"] == {"listChanged": True}
        client.request("c", "tools/call", name="shout", arguments={"text": "hi"}, _meta=ENVELOPE)
        assert (await client.answer("c"))["result"]["content"][0]["text"] == "HI"
        client.request("i", "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        assert (await client.answer("i"))["error"]["code"] == -32022
        client.request("p", "ping")
        assert (await client.answer("p"))["error"]["code"] == -32602


async def test_what_is_not_json_rpc_is_answered_and_does_no_harm(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[shout]) as app, piped(app, max_body_size=10_000) as client:
        await client.handshake()
        client.send(
            b"not json", b"[1, 2]", b"{}", b"", b"\xff\xfe", b'{"jsonrpc": "2.0", "id": 1.5, "method": "x"}'
        )
        client.send({"jsonrpc": "1.0", "id": 3, "method": "ping"}, {"jsonrpc": "2.0", "id": 4, "method": 7})
        client.send({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [1]}, b"x" * 20_000)
        client.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        refused = [await client.next_answer() for _ in range(9)]
        client.request(6, "no/such/method")
        assert (await client.answer(6))["error"]["code"] == -32601
        client.request(7, "tools/call", name="shout", arguments={"text": "hi"})
        assert (await client.answer(7))["result"]["content"][0]["text"] == "HI"
    assert {answer["error"]["code"] for answer in refused} == {-32700, -32600}
    assert "10000 bytes" in refused[-1]["error"]["message"]


async def test_an_id_in_use_is_refused_and_both_kinds_of_ids_come_back_as_they_were(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app, piped(app) as client:
        await client.handshake()
        client.request(1, "tools/call", name="s_wait", arguments={})
        await until(lambda: stdio_server.calls("wait") == 1)
        client.request("1", "ping")
        assert "already in use" in (await client.answer("1"))["error"]["message"]
        client.request("seven", "ping")
        assert (await client.answer("seven"))["result"] == {}
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await until(
            lambda: any(item.get("method") == "notifications/cancelled" for item in stdio_server.recorded())
        )
        client.request(2, "ping")
        assert (await client.next_answer())["id"] == 2, "a cancelled request gets no answer"


async def test_calls_that_run_when_the_input_ends_are_answered(tmp_path: Path) -> None:
    entered, released = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Takes its time."""
        entered.set()
        assert released.wait(PATIENCE)
        return "done"

    async with spindle.open(tmp_path, tools=[slow]) as app, piped(app) as client:
        await client.handshake()
        client.request(1, "tools/call", name="slow", arguments={})
        await asyncio.to_thread(entered.wait, PATIENCE)
        client.close()
        released.set()
        rest = await client.rest()
    assert rest[-1]["result"]["content"][0]["text"] == "done"


async def test_calls_that_take_too_long_after_the_end_are_given_up(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources({"s": stdio_server()}) as app, piped(app, shutdown_timeout=0.01) as client:
        await client.handshake()
        client.request(1, "tools/call", name="s_wait", arguments={})
        await until(lambda: stdio_server.calls("wait") == 1)
        client.close()
        async with asyncio.timeout(PATIENCE):
            await client.done
        await until(
            lambda: any(item.get("method") == "notifications/cancelled" for item in stdio_server.recorded())
        )


async def test_a_client_that_does_not_read_holds_up_nobody_but_itself(tmp_path: Path) -> None:
    @tool
    def large() -> str:
        """Much text."""
        return "x" * 200_000

    async with spindle.open(tmp_path, tools=[large]) as app, piped(app) as client:
        await client.handshake()
        for number in range(1, 51):
            client.request(number, "tools/call", name="large", arguments={})
        seen: set[Any] = set()
        while len(seen) < 50:
            seen |= {(await client.read()).get("id")} - {None}
    assert seen == set(range(1, 51))


NOISY = """
import os, subprocess, sys
from spindle import tool
print("printed on import")

@tool
def noisy() -> str:
    print("printed")
    sys.stdout.flush()
    os.write(1, b"written to the descriptor\\n")
    subprocess.run(["echo", "from a program"], check=True)
    return input_or_nothing()

def input_or_nothing() -> str:
    return sys.stdin.read() or "nothing to read"
"""


def lines_of(folder: Path, *messages: Any, stdin: Any = subprocess.PIPE) -> list[Any]:
    text = "".join(json.dumps(message) + "\n" for message in messages)
    given = {"input": text} if stdin is subprocess.PIPE else {"stdin": stdin}
    done = subprocess.run(
        [warm.SPINDLE, "-w", str(folder), "serve", "--stdio"],
        capture_output=True, text=True, timeout=PATIENCE, check=False, **given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(number: int, name: str, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_what_tools_print_or_read_does_not_touch_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "noisy.py").write_text(NOISY)
    (tmp_path / "spindle.toml").write_text("")
    (answer,) = lines_of(tmp_path, call(1, "noisy"))
    assert answer["result"]["content"][0]["text"] == "nothing to read"


def test_messages_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "noisy.py").write_text(NOISY)
    (tmp_path / "spindle.toml").write_text("")
    file = tmp_path / "requests.jsonl"
    file.write_text(json.dumps(call(1, "noisy")) + "\n")
    with file.open() as opened:
        (answer,) = lines_of(tmp_path, stdin=opened)
    assert answer["id"] == 1


def test_no_input_at_all_is_the_end(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    done = subprocess.run(
        [SPINDLE, "-w", str(tmp_path), "serve", "--stdio"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_in_good_order(
    tmp_path: Path, stdio_server: StdioServers, how: signal.Signals
) -> None:
    command = stdio_server()["command"]
    (tmp_path / "spindle.toml").write_text(f"[sources.s]\ncommand = {command!r}\n")
    process = await asyncio.create_subprocess_exec(
        SPINDLE, "-w", str(tmp_path), "serve", "--stdio",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call(1, "s_echo", text="hi")).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        assert json.loads(await process.stdout.readline())["result"]["content"][0]["text"] == "hi"
        process.send_signal(how)
        assert await process.wait() == 0
    assert stdio_server.recorded()[-1]["end"] == "stdin closed"


def test_saying_neither_how_to_serve_nor_both_ways_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("")
    for words in ([], ["--stdio", "--http"], ["--stdio", "--port", "1"]):
        done = subprocess.run(
            [warm.SPINDLE, "-w", str(tmp_path), "serve", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr.startswith("spindle: ")
        assert "Traceback" not in done.stderr


def test_an_instruction_in_a_file_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[serve]\ninstruction = "guide.md"\n')
    done = subprocess.run(
        [warm.SPINDLE, "-w", str(tmp_path), "serve", "--stdio"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "guide.md, which is not there" in done.stderr
