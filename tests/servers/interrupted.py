"""A TCP proxy that stands between a browser and a server: it cuts what is open, answers as proxies do while
the server is away, and holds back the rest of an answer."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Literal

AWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class InterruptedWay:
    """The way to one server, on a port of its own."""

    def __init__(self, server: str) -> None:
        self.server = server
        """The address of the server, which may be another one later."""
        self.url = ""
        self.holds_after: bytes | None = None
        """Of what a server sends, all that comes after the first of these bytes waits for `go_on`."""
        self.held = asyncio.Event()
        self._may_go = asyncio.Event()
        self._away: Literal["", "refuses", "answers"] = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> InterruptedWay:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, then: Literal["refuses", "answers"] = "refuses") -> None:
        """Cuts all that is open. Who comes then is cut off as well, or told that nobody is there."""
        self._away = then
        for writer in self._writers:
            writer.transport.abort()

    def mend(self, server: str | None = None) -> None:
        """Lets everybody through again, to another server if one is named."""
        self.server = server or self.server
        self._away = ""

    def go_on(self) -> None:
        """Lets what was held back go on."""
        self.holds_after = None
        self._may_go.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            if self._away == "answers":
                await reader.readuntil(b"\r\n\r\n")
                writer.write(AWAY)
            elif not self._away:
                port = int(self.server.rpartition(":")[2])
                await self._pass_both_ways(reader, writer, port)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two has hung up
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pass_both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        answers, asks = await asyncio.open_connection("127.0.0.1", port)
        asking = asyncio.create_task(self._pass_asked(reader, asks))
        try:
            await self._pass_answers(answers, writer)
        finally:
            asks.close()
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await asking

    async def _pass_asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = b""
        while data := await reader.read(65536):
            end = self._end_of_first(passed, data)
            writer.write(data[:end])
            await writer.drain()
            if end < len(data):
                self.held.set()
                await self._may_go.wait()
                writer.write(data[end:])
                await writer.drain()
            passed = (passed + data)[-100:]

    def _end_of_first(self, passed: bytes, data: bytes) -> int:
        """The number of bytes that may go on; what is looked for may have begun in those before."""
        if self.holds_after is None:
            return len(data)
        before = passed[-len(self.holds_after) + 1 :]
        found = (before + data).find(self.holds_after)
        return len(data) if found < 0 else found + len(self.holds_after) - len(before)
