"""Programs that are started beside the event loop: either kind of loop, either way to see their end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from servers.running import until
from spindle.sources.programs.starting import start_program

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Any:
    return asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop


@pytest.fixture(params=["descriptor", "thread"])
def run(request: pytest.FixtureRequest, loop_factory: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open")

    def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(asyncio.wait_for(main(), 60))

    return run


class Heard(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.data = {1: b"", 2: b""}
        self.lost: list[int] = []
        self.input_lost = asyncio.Event()
        self.exited = asyncio.Event()
        self.ended = asyncio.Event()
        self.transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.data[fd] += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.lost.append(fd)
        if fd == 0:
            self.input_lost.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.ended.is_set(), "told twice"
        self.ended.set()


async def started(code: str, *, has_input: bool = True) -> tuple[Heard, asyncio.SubprocessTransport]:
    heard = Heard()
    vector = [sys.executable, "-I", "-S", "-c", code]
    await start_program(heard, vector, env={}, cwd=Path.cwd(), has_input=has_input)
    assert heard.transport is not None
    return heard, heard.transport


def test_input_arrives_output_is_read_to_its_end_and_the_status_is_known(run: Run) -> None:
    async def main() -> None:
        code = (
            "import sys; sys.stdout.write(sys.stdin.read() * 2); sys.stderr.write('e' * 300_000); sys.exit(7)"
        )
        heard, program = await started(code)
        pipe = cast(asyncio.WriteTransport, program.get_pipe_transport(0))
        pipe.write(b"x" * 500_000)
        pipe.close()
        await heard.ended.wait()
        assert heard.data == {1: b"x" * 1_000_000, 2: b"e" * 300_000}
        assert (program.get_returncode(), sorted(heard.lost)) == (7, [0, 1, 2])
        program.close()

    run(main)


def test_a_program_without_input_reads_an_end(run: Run) -> None:
    async def main() -> None:
        heard, program = await started("import sys; print(repr(sys.stdin.read()))", has_input=False)
        await heard.ended.wait()
        assert (heard.data[1], program.get_returncode()) == (b"''\n", 0)
        assert program.get_pipe_transport(0) is None

    run(main)


def test_a_program_that_closes_its_input_is_noticed_at_once(run: Run) -> None:
    async def main() -> None:
        heard, program = await started("import os, time; os.close(0); time.sleep(600)")
        await heard.input_lost.wait()
        assert not heard.exited.is_set()
        program.close()
        await heard.ended.wait()

    run(main)


def test_closing_kills_it_and_frees_all_that_it_held(run: Run) -> None:
    async def main() -> None:
        first, program = await started("")  # uvloop opens a file of its own with the first pipe
        await first.ended.wait()
        program.close()
        before = set(os.listdir("/proc/self/fd"))
        heard, program = await started("import time; time.sleep(600)")
        program.close()
        program.close()
        await heard.ended.wait()
        assert program.get_returncode() == -signal.SIGKILL
        await until(lambda: set(os.listdir("/proc/self/fd")) <= before)

    run(main)


def test_what_cannot_be_started_leaves_nothing_behind(run: Run) -> None:
    async def main() -> None:
        before = set(os.listdir("/proc/self/fd"))
        for vector, error in ((["/nowhere/to/be/found"], FileNotFoundError), (["a\0b"], ValueError)):
            with pytest.raises(error):
                await start_program(Heard(), vector, env={}, cwd=Path.cwd())
        assert set(os.listdir("/proc/self/fd")) <= before

    run(main)


def test_giving_up_while_it_is_connected_ends_it(run: Run) -> None:
    async def main() -> None:
        heard = Heard()
        vector = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
        work = asyncio.create_task(start_program(heard, vector, env={}, cwd=Path.cwd()))
        while heard.transport is None:
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await heard.ended.wait()

    run(main)
