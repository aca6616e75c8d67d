"""Blocking use: in a script, inside a running loop, from several threads, and stopped by the user."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.running import PATIENCE
from spindle.errors import ConfigurationError, ConnectionFailedError, InvalidArgumentsError
from spindle.settings import Settings


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    return a + b


def opened(folder: Path, *tools: Any) -> Any:
    return spindle.open(settings=Settings(folder, {}), tools=tools or [add])


def loops() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "spindle"]


def test_every_method_works_and_the_thread_ends_with_the_block(tmp_path: Path) -> None:
    with opened(tmp_path) as s:
        assert loops() == ["spindle"]
        assert s.sync()[0].added == ["add"]
        assert s.call("add", {"a": 1}, b=2).structured == 3
        assert [tool.name for tool in s.tools(kind="python")] == ["add"]
        assert [tool.name for tool in s.search("numbers", limit=1)] == ["add"]
        assert s.show("add").description == "Add two numbers."
        assert [record.tool for record in s.history(limit=1, tool="add", outcome="ok")] == ["add"]
        with pytest.raises(InvalidArgumentsError):
            s.call("add", a="x")
    assert loops() == []


def test_it_works_in_a_plain_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import spindle

            def double(number: int) -> int:
                return number * 2

            with spindle.open(".", tools=[double]) as s:
                print(s.call("double", number=21).value)
        """)
    )
    (tmp_path / "spindle.toml").write_text("")
    environment = {**os.environ, "SPINDLE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    with opened(tmp_path) as s:
        assert s.call("add", a=1).structured == 2


def test_several_threads_share_it(tmp_path: Path) -> None:
    with opened(tmp_path) as s, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: s.call("add", a=n).structured, range(50)))
        assert results == [n + 1 for n in range(50)]
        assert len(s.history(limit=100)) == 50


def test_a_sync_tool_may_call_through_it(tmp_path: Path) -> None:
    def outer(a: int) -> int:
        return s.call("add", a=a).structured * 10

    with opened(tmp_path, add, outer) as s:
        assert s.call("outer", a=1).structured == 20
        inner, whole = sorted(s.history(), key=lambda record: record.tool)
        assert inner.parent == whole.key


def test_an_async_tool_that_would_block_its_own_loop_is_told_so(tmp_path: Path) -> None:
    async def outer(a: int) -> int:
        return s.call("add", a=a).structured

    with opened(tmp_path, add, outer) as s:
        result = s.call("outer", a=1)
    assert result.is_error
    assert "make the tool a plain `def` function" in result.text


def test_without_a_block_it_is_opened_by_its_first_use_and_closes_itself(tmp_path: Path) -> None:
    s = opened(tmp_path)
    assert loops() == []
    assert s.call("add", a=1).structured == 2
    assert [tool.name for tool in s.tools()] == ["add"]
    [thread] = [thread for thread in threading.enumerate() if thread.name == "spindle"]
    del s
    gc.collect()
    thread.join(PATIENCE)
    assert loops() == []


def test_it_closes_itself_also_when_its_own_thread_collects_the_garbage(tmp_path: Path) -> None:
    async def arrange(_: Any) -> tuple[Any, ...]:
        go = asyncio.Event()

        async def collect() -> None:
            await go.wait()
            gc.collect()

        task = asyncio.create_task(collect())
        return asyncio.get_running_loop(), go, task

    s = opened(tmp_path)
    s.itself = s
    loop, go, task = s.wait(arrange)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "spindle"]
    gc.disable()
    try:
        del s
        assert thread.is_alive()
        loop.call_soon_threadsafe(go.set)
        thread.join(PATIENCE)
    finally:
        gc.enable()
    assert task.done()
    assert loops() == []


def test_without_a_block_it_can_be_closed(tmp_path: Path) -> None:
    s = opened(tmp_path)
    assert s.call("add", a=1).structured == 2
    s.close()
    assert loops() == []
    with pytest.raises(ConnectionFailedError, match="was closed"):
        s.tools()
    with s as again:
        assert again.call("add", a=2).structured == 3
    assert loops() == []


def test_threads_that_use_it_first_at_the_same_time_open_it_once(tmp_path: Path) -> None:
    s = opened(tmp_path)
    together = threading.Barrier(4)

    def use(number: int) -> int:
        together.wait(PATIENCE)
        return s.call("add", a=number).structured

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(4))) == [1, 2, 3, 4]
    assert loops() == ["spindle"]
    s.close()


LEAVING = """
import os, sys
import spindle

s = spindle.open(".")
print(s.call("mini.echo", text="hello").text)
print(s.call("pid").value)
{end}
"""


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(3)", "raise KeyboardInterrupt", "del s"])
def test_a_program_that_leaves_it_open_ends_quietly_and_leaves_no_process(end: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/t.py").write_text(
        "import os\nfrom spindle import tool\n@tool\ndef pid() -> int:\n    return os.getpid()\n"
    )
    server = Path(__file__).parent / "cli/mini_server.py"
    definitions = tmp_path / "server.json"
    definitions.write_text(json.dumps([{"name": "echo", "inputSchema": {"type": "object"}}]))
    command = [sys.executable, "-I", "-S", str(server), str(definitions)]
    (tmp_path / "spindle.toml").write_text(
        f"[sources.mini]\ncommand = {json.dumps(command)}\nprotocol = 'handshake'"
    )
    (tmp_path / "script.py").write_text(LEAVING.format(end=end))
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=tmp_path, env={**os.environ, "SPINDLE_HOME": str(tmp_path / "home")},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    quiet = "KeyboardInterrupt" in end or not done.stderr
    assert (done.stdout.count("\n"), quiet) == (2, True), done.stderr
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_an_error_while_opening_ends_the_thread(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no folder"), spindle.open(tmp_path / "nowhere"):
        raise AssertionError
    assert loops() == []


def test_closing_twice_is_harmless_and_use_after_closing_is_an_error(tmp_path: Path) -> None:
    with opened(tmp_path) as s:
        s.close()
        with pytest.raises(ConnectionFailedError, match="was closed"):
            s.call("add", a=1)
        s.close()
    assert loops() == []


def test_leaving_what_was_never_entered_is_harmless(tmp_path: Path) -> None:
    opened(tmp_path).__exit__(None, None, None)
    assert loops() == []


def test_what_a_tool_left_running_is_ended_with_the_loop(tmp_path: Path) -> None:
    ended: list[str] = []

    async def leave() -> str:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        left.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)
        return "left"

    left: list[asyncio.Task[None]] = []
    with opened(tmp_path, leave) as s:
        assert s.call("leave").text == "left"
    assert ended == ["ended"]


def test_ctrl_c_cancels_the_call_that_is_waited_for(tmp_path: Path) -> None:
    """The interrupt comes while the main thread waits, as from a terminal."""
    ended: list[str] = []

    async def wait() -> str:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "never"

    with opened(tmp_path, wait) as s, pytest.raises(KeyboardInterrupt):
        s.call("wait")
    assert ended == ["cancelled"]
    with opened(tmp_path, wait) as s:
        assert [record.outcome for record in s.history()] == ["cancelled"]
    assert loops() == []


def test_async_work_is_done_on_the_loop_of_the_app(tmp_path: Path) -> None:
    async def both(app: Any) -> list[Any]:
        calls = await asyncio.gather(app.call("add", a=1), app.call("add", a=2))
        return [call.structured for call in calls]

    with opened(tmp_path) as s:
        assert s.wait(both) == [2, 3]


def test_a_flow_runs_without_await(tmp_path: Path) -> None:
    def upper(text: str) -> str:
        return text.upper()

    (tmp_path / "spindle.toml").touch()
    with spindle.open(tmp_path, tools=[upper]) as s:
        outcome = s.run_flow("upper --text=hello >> upper")
        assert isinstance(outcome, spindle.Finished)
        assert outcome.result.text == "HELLO"
