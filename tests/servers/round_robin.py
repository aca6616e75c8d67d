"""A TCP proxy that hands every connection to the next of several servers, as plain load balancers do."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from types import TracebackType


class RoundRobin:
    """Listens on a port of its own. A server that does not take the connection is passed over."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._next = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.taken: dict[int, int] = dict.fromkeys(ports, 0)
        """Connections that each server took."""
        self.cut: list[float] = []
        """The times, of the wall clock, at which servers ended connections that clients had open."""

    async def __aenter__(self) -> RoundRobin:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            there = await self._there()
            if there is None:
                return
            ways = [
                asyncio.create_task(_pass_on(reader, there[1])),
                asyncio.create_task(_pass_on(there[0], writer)),
            ]
            try:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if ways[1] in done:
                    self.cut.append(time.time())
            finally:
                there[1].close()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            writer.close()

    async def _there(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._ports:
            port = self._ports[next(self._next) % len(self._ports)]
            with contextlib.suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", port)
                self.taken[port] += 1
                return there
        return None


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
