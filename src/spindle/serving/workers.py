"""Several processes that serve on one port: started, replaced when one dies, stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

    from spindle.ports.source import Note

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before a worker that died is replaced: more each time, until one has worked for long enough."""
LONG_ENOUGH: Final = 60.0
GRACE: Final = 10.0
"""Seconds beyond the workers' own time for ending calls after which they are killed."""


class Workers:
    """The workers of a server. The one who made them owns the socket that all of them listen on."""

    def __init__(self, command: Sequence[str], listening: socket.socket, count: int, note: Note) -> None:
        """`command` starts one, once `--worker SOCKET,READY,OWNER` is added: descriptors that it inherits."""
        self._command = command
        self._listening = listening
        self._count = count
        self._note = note
        self._running: set[asyncio.subprocess.Process] = set()
        self._kept: list[asyncio.Task[None]] = []
        self._failed = 0
        """The exit code of the last one that could not serve."""
        self._alive, self._lifeline = os.pipe()

    async def start(self) -> int | None:
        """Starts all, the first alone. Returns its exit code if it cannot serve, None if it does."""
        first = await self._started()
        if first is None:
            return self._failed
        self._kept.append(asyncio.create_task(self._keep(first)))
        self._kept += [asyncio.create_task(self._keep(None)) for _ in range(self._count - 1)]
        return None

    async def run(self) -> None:
        """Serves until cancelled."""
        await asyncio.gather(*self._kept)

    def read_again(self) -> None:
        """Has the workers read their settings again."""
        for process in self._running:
            _signal(process, signal.SIGHUP)

    async def stop(self, seconds: float) -> None:
        """Has the workers end their calls in time, and ends."""
        for task in self._kept:
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)
        for process in self._running:
            _signal(process, signal.SIGTERM)
        ending = [asyncio.create_task(process.wait()) for process in self._running]
        if ending:
            await asyncio.wait(ending, timeout=seconds + GRACE)
        for process in self._running:
            _signal(process, signal.SIGKILL)
        await asyncio.gather(*ending)
        os.close(self._alive)
        os.close(self._lifeline)

    async def _keep(self, process: asyncio.subprocess.Process | None) -> None:
        """Keeps one worker running."""
        wait = FIRST_WAIT
        while True:
            began = asyncio.get_running_loop().time()
            process = process or await self._started()
            if process is not None:
                code = await process.wait()
                self._running.discard(process)
                self._note(f"a worker ended ({_told(code)}); another one takes its place")
            process = None
            worked = asyncio.get_running_loop().time() - began
            wait = FIRST_WAIT if worked >= LONG_ENOUGH else wait
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _started(self) -> asyncio.subprocess.Process | None:
        """A worker that serves; None if it could not."""
        reading, ready = os.pipe()
        inherited = (self._listening.fileno(), ready, self._alive)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, "--worker", ",".join(map(str, inherited)),
                stdin=asyncio.subprocess.DEVNULL, pass_fds=inherited, env=_environment(),
            )  # fmt: skip
        finally:
            os.close(ready)
        self._running.add(process)
        try:
            is_ready = await _read(reading)
        finally:
            os.close(reading)
        if is_ready:
            return process
        self._failed = await process.wait()
        self._running.discard(process)
        return None


def _environment() -> dict[str, str]:
    """The environment without what a service manager gave to this process alone."""
    own = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC")
    return {name: value for name, value in os.environ.items() if name not in own}


async def _read(descriptor: int) -> bool:
    """True when a worker said that it serves; False when it ended before."""
    loop = asyncio.get_running_loop()
    said = asyncio.Event()
    loop.add_reader(descriptor, said.set)
    try:
        await said.wait()
    finally:
        loop.remove_reader(descriptor)
    return bool(os.read(descriptor, 1))


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _told(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


@contextlib.asynccontextmanager
async def of_owner(descriptors: Sequence[int]) -> AsyncGenerator[None]:
    """Tells the process that started this one that it serves, and ends with it. `descriptors` are those that
    say so: the one to write to, and the one that is at its end when the owner is."""
    ready, alive = descriptors
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(alive)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(alive, end)
    os.write(ready, b"1")
    os.close(ready)
    try:
        yield
    finally:
        loop.remove_reader(alive)
