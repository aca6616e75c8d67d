"""Serving over this process's own stdin and stdout: lines, read and written on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import stat
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.mcp_server.lines import LineServer
from spindle.sources.mcp.link import LineReader

if TYPE_CHECKING:
    from spindle.mcp_server.server import CatalogServer

CHUNK = 64 * 1024
LAST_GRACE = 2.0
"""Seconds for a client to read the last answers."""


async def serve_stdio(catalog: CatalogServer, stdin: int = 0, stdout: int = 1) -> None:
    """Serves until the client closes our input or this task is cancelled, then lets running calls end
    within the limit. No other code may use the file descriptors `stdin` and `stdout`."""
    pipes = Pipes(lambda: catalog.config.max_body_size)
    await pipes.open(stdin, stdout)
    principal = catalog.access.principal(None)
    server = LineServer(catalog, pipes.write, principal)
    pipes.listen(server)
    try:
        await pipes.ended.wait()
        await server.finish(catalog.config.shutdown_timeout)
    except asyncio.CancelledError:
        pipes.stop_reading()
        await server.finish(catalog.config.shutdown_timeout)
        raise
    finally:
        server.close()
        await pipes.close()


def take_stdin() -> int:
    """Returns a descriptor with the client's messages. Other readers of stdin find it empty from now on."""
    taken = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return taken


class Pipes:
    """The two ends of the connection. Nothing is queued without limit: while the client does not read,
    writers wait."""

    def __init__(self, max_line: Callable[[], int]) -> None:
        self.ended = asyncio.Event()
        self._max_line = max_line
        self._lines: LineReader | None = None
        self._early: list[bytes] = []
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._file: int | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = False
        self._closed = asyncio.Event()

    async def open(self, stdin: int, stdout: int) -> None:
        """Both are ours from now on, and closed in the end."""
        loop = asyncio.get_running_loop()
        # The event loop cannot wait for regular files and some devices, which need it only when read.
        if _is_file(stdout):
            self._file = stdout
        else:
            opened = os.fdopen(stdout, "wb", 0)
            self._writing, _ = await loop.connect_write_pipe(lambda: _StandardOutput(self), opened)
        reading = os.fdopen(stdin if _can_be_watched(stdin) else _pumped(stdin), "rb", 0)
        self._reading, _ = await loop.connect_read_pipe(lambda: _Input(self), reading)

    def listen(self, server: LineServer) -> None:
        self._lines = LineReader(self._max_line(), server.line, server.too_long)
        for data in self._early:
            self._lines.feed(data)
        self._early.clear()

    async def write(self, line: bytes) -> None:
        """Raises ConnectionError once the client is gone."""
        if self._file is not None:
            os.write(self._file, line)
            return
        if not self._writable.is_set():
            await self._writable.wait()
        if self._gone or self._writing is None:
            raise ConnectionResetError("the client no longer reads")
        self._writing.write(line)

    def stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()

    async def close(self) -> None:
        """Sends what was written before closing, unless the client does not read it."""
        self.stop_reading()
        if self._file is not None:
            os.close(self._file)
        if self._writing is not None:
            self._writing.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_GRACE):
                    await self._closed.wait()

    # --- asyncio's side

    def received(self, data: bytes) -> None:
        if self._lines is None:
            self._early.append(data)
        else:
            self._lines.limit = self._max_line()
            self._lines.feed(data)

    def input_ended(self) -> None:
        self.ended.set()

    def output_paused(self, paused: bool) -> None:
        if paused:
            self._writable.clear()
        else:
            self._writable.set()

    def output_ended(self) -> None:
        self._gone = True
        self._closed.set()
        self._writable.set()
        self.ended.set()


class _Input(asyncio.Protocol):
    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def data_received(self, data: bytes) -> None:
        self._pipes.received(data)

    def eof_received(self) -> bool:
        self._pipes.input_ended()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipes.input_ended()


class _StandardOutput(asyncio.Protocol):
    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def pause_writing(self) -> None:
        self._pipes.output_paused(True)

    def resume_writing(self) -> None:
        self._pipes.output_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipes.output_ended()


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _can_be_watched(descriptor: int) -> bool:
    """True if the event loop can watch the descriptor, which regular files and some devices, such as
    `/dev/null`, do not allow: only trying tells."""
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(descriptor, selectors.EVENT_READ)
        except (OSError, ValueError):
            return False
    return True


def _pumped(source: int) -> int:
    """A pipe with what a file or device holds."""
    reading, writing = os.pipe()

    def pump() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(source, CHUNK):
                while data:
                    data = data[os.write(writing, data) :]
        os.close(writing)
        os.close(source)

    threading.Thread(target=pump, name="spindle-stdin", daemon=True).start()
    return reading
