"""A pipe by which a test sees that a piece of work has begun, and that everything which did it is gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from servers.running import PATIENCE


class Witness:
    """Whoever works holds the named pipe `path` open and writes a line into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._reader = asyncio.StreamReader()
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> None:
        """Listen. Opening the pipe for writing waits for this."""
        # Not held open after this by anybody here: the end of the last writer is what is waited for.
        pipe = os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), pipe
        )

    async def begun(self) -> None:
        """Returns when somebody has written a line."""
        async with asyncio.timeout(PATIENCE):
            assert await self._reader.readline()

    async def over(self) -> None:
        """Returns when nobody holds the pipe any more."""
        async with asyncio.timeout(PATIENCE):
            assert await self._reader.read() == b""

    def close(self) -> None:
        """Stop listening."""
        if self._transport is not None:
            self._transport.close()
