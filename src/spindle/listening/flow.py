"""The pace of a connection: when to read on, and when what was written is on its way."""

from __future__ import annotations

import asyncio


class FlowControl:
    """Knows whether a connection is read at the moment, and whether it takes more to send."""

    __slots__ = ("_reads", "_transport", "_writable", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._reads = True
        self._writable: asyncio.Event | None = None
        """Set when the client has read enough of what we sent; None while it does not keep us waiting."""
        self.write_paused = False

    async def drain(self) -> None:
        """Waits until more can be sent."""
        if self._writable is not None:
            await self._writable.wait()

    def pause_reading(self) -> None:
        if self._reads:
            self._reads = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable, self.write_paused = asyncio.Event(), True

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable, self.write_paused = None, False
