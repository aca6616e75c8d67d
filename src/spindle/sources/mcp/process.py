"""A server's process: started without a shell, read line by line, ended with everything it started."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from spindle.errors import ConnectionFailedError

# What every program may need to run at all. Everything else, secrets above all, must be declared.
BASE_ENVIRONMENT = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip

STDIN_GRACE = 2.0
TERM_GRACE = 2.0
STDERR_LINES = 40
STDERR_LINE_LENGTH = 500

_live: set[int] = set()


@atexit.register
def _end_survivors() -> None:
    """The last resort, for a process that ends without closing its sessions."""
    for pid in _live:
        _signal_group(pid, signal.SIGKILL)


def environment(declared: Mapping[str, str]) -> dict[str, str]:
    base = {key: os.environ[key] for key in BASE_ENVIRONMENT if key in os.environ}
    return base | dict(declared)


class ServerProcess(asyncio.SubprocessProtocol):
    """Hands complete lines to `on_line` and says once, through `on_lost`, that no more will come."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._buffer = bytearray()
        self._skipping = False
        self._head = b""
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._stderr_rest = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._lost = False
        self.on_line: Callable[[bytes], None] = lambda _line: None
        self.on_too_long: Callable[[bytes, bytes], None] = lambda _head, _tail: None
        self.on_lost: Callable[[], None] = lambda: None

    @classmethod
    async def start(
        cls, name: str, command: tuple[str, ...], env: Mapping[str, str], cwd: Path, max_line: int
    ) -> ServerProcess:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.subprocess_exec(
                lambda: cls(max_line), *command, env=dict(env), cwd=cwd, start_new_session=True
            )
        except FileNotFoundError:
            missing = str(cwd) if not cwd.is_dir() else command[0]
            raise ConnectionFailedError(
                f"cannot start {name!r}: {missing!r} was not found",
                hint="install the program, or give its whole path" if cwd.is_dir() else "create that folder",
                sent=False,
            ) from None
        except (OSError, ValueError) as error:
            raise ConnectionFailedError(f"cannot start {name!r}: {error}", sent=False) from None
        return protocol

    # --- talking

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode() if self._transport else None

    async def write(self, line: bytes) -> None:
        if not self._writable.is_set():
            await self._writable.wait()
        self._pipe(0).write(line)

    def write_now(self, line: bytes) -> None:
        """For the little that must go out although its writer cannot wait."""
        self._pipe(0).write(line)

    def pause_reading(self) -> None:
        with contextlib.suppress(RuntimeError):  # the pipe may just have closed
            cast(asyncio.ReadTransport, self._any_pipe(1)).pause_reading()

    def resume_reading(self) -> None:
        with contextlib.suppress(RuntimeError):
            cast(asyncio.ReadTransport, self._any_pipe(1)).resume_reading()

    def last_words(self) -> str:
        """The end of what the server wrote to stderr."""
        lines = [*self._stderr]
        if self._stderr_rest:
            lines.append(_text(self._stderr_rest))
        return "\n".join(line for line in lines if line.strip())

    def epitaph(self) -> str:
        """How it ended."""
        code = self.exit_code
        if code is None:
            return "closed its output"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"exited with status {code}"

    def _pipe(self, fd: int) -> asyncio.WriteTransport:
        return cast(asyncio.WriteTransport, self._any_pipe(fd))

    def _any_pipe(self, fd: int) -> asyncio.BaseTransport:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(fd)
        assert pipe is not None
        return pipe

    # --- ending

    async def stop(self) -> None:
        """Close its input, wait, ask, and in the end make it; then everything it left in its group."""
        assert self._transport is not None
        pid = self.pid
        self._pipe(0).close()
        if not await self._wait(STDIN_GRACE):
            _signal_group(pid, signal.SIGTERM)
            if not await self._wait(TERM_GRACE):
                _signal_group(pid, signal.SIGKILL)
                await self._wait(TERM_GRACE)
        self._end_group()
        self._transport.close()

    def _end_group(self) -> None:
        _signal_group(self.pid, signal.SIGKILL)
        _live.discard(self.pid)

    async def _wait(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        return self._exited.is_set()

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        _live.add(self.pid)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._read(data)
        else:
            *lines, rest = (self._stderr_rest + data).split(b"\n")
            self._stderr.extend(_text(line) for line in lines)
            self._stderr_rest = rest[-STDERR_LINE_LENGTH:]

    def _read(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            piece = data[start:end]
            start = end + 1
            if self._skipping:
                self._skipping = False
                self.on_too_long(self._head, (bytes(self._buffer) + piece)[-256:])
                self._buffer.clear()
                continue
            if self._buffer:
                self._buffer += piece
                piece = bytes(self._buffer)
                self._buffer.clear()
            if len(piece) > self._max_line:
                self.on_too_long(piece[:256], piece[-256:])
            elif piece.strip():
                self.on_line(piece)
        rest = data[start:]
        if self._skipping:
            # Only the end of a line that is too long is of interest: it may name the request.
            self._buffer += rest
            del self._buffer[:-256]
        elif rest:
            self._buffer += rest
            if len(self._buffer) > self._max_line:
                self._head = bytes(self._buffer[:256])
                del self._buffer[:-256]
                self._skipping = True

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in (0, 1):
            self._writable.set()
            self._note_lost()

    def process_exited(self) -> None:
        self._exited.set()
        # A launcher such as npx may leave the real server behind when it is killed.
        self._end_group()
        self._note_lost()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _note_lost(self) -> None:
        if not self._lost:
            self._lost = True
            self.on_lost()


def _text(line: bytes) -> str:
    return line[-STDERR_LINE_LENGTH:].decode("utf-8", "replace").rstrip()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
