"""A server's process: started without a shell, read line by line, ended with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import cast

from spindle.errors import ConnectionFailedError
from spindle.sources.mcp.link import LineReader, turns
from spindle.sources.mcp.pending import Pending, resume_all
from spindle.sources.programs.groups import end_group, signal_group, started
from spindle.sources.programs.starting import start_program

STDIN_GRACE = 2.0
TERM_GRACE = 2.0
LAST_GRACE = 1.0
"""The seconds to wait for the exit of a process that closed its pipes, or the other way round."""
EARLY_LINES = 20
STDERR_LINES = 40
STDERR_LINE_LENGTH = 500


class ServerProcess(asyncio.SubprocessProtocol):
    """A running server, linked to through its pipes."""

    def __init__(self, max_line: int) -> None:
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._stderr_rest = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_full = False
        self._exited = asyncio.Event()
        self._ending: asyncio.TimerHandle | None = None
        self._output_ended = False
        self._outgoing: list[bytes] = []
        """Lines that are written at the end of this turn of the event loop."""
        self._unread = b""
        """Lines that were received and wait for their turn."""
        self.brought: list[Pending] | None = None
        self._held = False
        self._told_lost = False
        self._early: deque[bytes] = deque(maxlen=EARLY_LINES)
        self._lines = LineReader(max_line, self._early.append, self._too_long)
        self._on_too_long: Callable[[bytes, bytes], None] = lambda _head, _tail: None
        self._on_lost: Callable[[], None] = lambda: None

    @classmethod
    async def start(
        cls, name: str, command: tuple[str, ...], env: Mapping[str, str], cwd: Path, max_line: int
    ) -> ServerProcess:
        server = cls(max_line)
        try:
            await start_program(server, command, env=env, cwd=cwd)
        except FileNotFoundError:
            missing = str(cwd) if not cwd.is_dir() else command[0]
            raise ConnectionFailedError(
                f"cannot start {name!r}: {missing!r} was not found",
                hint="install the program, or give its whole path" if cwd.is_dir() else "create that folder",
                sent=False,
            ) from None
        except (OSError, ValueError) as error:
            raise ConnectionFailedError(f"cannot start {name!r}: {error}", sent=False) from None
        return server

    # --- talking

    def listen(
        self,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._lines.on_line, self._on_too_long, self._on_lost = on_line, on_too_long, on_lost
        for line in self._early:
            on_line(line)
        if self._told_lost:
            on_lost()

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def lost(self) -> bool:
        return self._ending is not None

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode() if self._transport else None

    async def write(self, line: bytes) -> bool:
        if not self._writable.is_set():
            await self._writable.wait()
        return self.write_at_once(line)

    def write_at_once(self, line: bytes, *, together: bool = False) -> bool:
        if self._ending is not None or self._is_full:
            return False
        if together or self._outgoing:
            if not self._outgoing:
                asyncio.get_running_loop().call_soon(self._write_outgoing)
            self._outgoing.append(line)
            return True
        self._input.write(line)
        # Nobody reads any more, and we hear of the end only later: the transport closes without an error.
        return not self._input.is_closing()

    def write_now(self, line: bytes) -> None:
        self._write_outgoing()
        self._input.write(line)

    def _write_outgoing(self) -> None:
        lines, self._outgoing = self._outgoing, []
        if lines:
            self._input.write(b"".join(lines))

    def pause_reading(self) -> None:
        self._held = True
        self._pause_output()

    def resume_reading(self) -> None:
        self._held = False
        if not self._unread:
            self._resume_output()

    def _pause_output(self) -> None:
        with contextlib.suppress(RuntimeError):  # the pipe may just have closed
            self._output.pause_reading()

    def _resume_output(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._output.resume_reading()

    def last_words(self) -> str:
        """The end of what the server wrote to stderr."""
        lines = [*self._stderr]
        if self._stderr_rest:
            lines.append(_text(self._stderr_rest))
        return "\n".join(line for line in lines if line.strip())

    def epitaph(self) -> str:
        code = self.exit_code
        if code is None:
            return "closed its output"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"exited with status {code}"

    @cached_property
    def _input(self) -> asyncio.WriteTransport:
        assert self._transport is not None
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @cached_property
    def _output(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(1))

    # --- ending

    async def stop(self) -> None:
        """Close its input, wait, ask, and in the end make it; then everything it left in its group."""
        assert self._transport is not None
        pid = self.pid
        self._write_outgoing()
        self._input.close()
        if not await self._wait(STDIN_GRACE):
            signal_group(pid, signal.SIGTERM)
            if not await self._wait(TERM_GRACE):
                signal_group(pid, signal.SIGKILL)
                await self._wait(TERM_GRACE)
        self._end_group()
        self._transport.close()
        self._tell_lost()

    async def exit(self) -> None:
        """Wait a moment for the exit of a process that already closed its output."""
        await self._wait(LAST_GRACE)

    def _end_group(self) -> None:
        end_group(self.pid)

    async def _wait(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        return self._exited.is_set()

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        started(self.pid)

    def _read_lines(self, data: bytes) -> None:
        brought = self.brought = []
        try:
            read = self._lines.feed_a_while(data)
        finally:
            self.brought = None
        if read < len(data):
            self._unread = data[read:]
            self._pause_output()
            asyncio.get_running_loop().call_later(turns.wait(), self._read_on)
        resume_all(brought)

    def _read_on(self) -> None:
        data, self._unread = self._unread, b""
        self._read_lines(data)
        if not self._unread:
            if not self._held:
                self._resume_output()
            if self._output_ended:
                self._end()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1 and not self._unread:
            self._read_lines(data)
            return
        if fd == 1:
            self._unread += data
            return
        *lines, rest = (self._stderr_rest + data).split(b"\n")
        # Of a flood only the last lines are kept, so the others are not even read.
        self._stderr.extend(_text(line) for line in lines[-STDERR_LINES:])
        self._stderr_rest = rest[-STDERR_LINE_LENGTH:]

    def _too_long(self, head: bytes, tail: bytes) -> None:
        self._on_too_long(head, tail)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._output_ended = True
        if fd != 2:
            self._end()

    def process_exited(self) -> None:
        self._exited.set()
        # A launcher such as npx may leave the real server behind when it is killed.
        self._end_group()
        self._end()

    def pause_writing(self) -> None:
        self._is_full = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self._is_full = False
        self._writable.set()

    def _end(self) -> None:
        """The end has begun. It is complete when the process has exited, which says why, and its output
        was read to the end, which may hold answers; neither is waited for long."""
        self._writable.set()
        if self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(LAST_GRACE, self._tell_lost)
        if self._output_ended and self._exited.is_set() and not self._unread:
            self._tell_lost()

    def _tell_lost(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        if not self._told_lost:
            self._told_lost = True
            self._on_lost()


def _text(line: bytes) -> str:
    return line[-STDERR_LINE_LENGTH:].decode("utf-8", "replace").rstrip()
