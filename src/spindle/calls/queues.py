"""A line in which calls wait: bounded, in turns between clients, and for no longer than their own time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from spindle.errors import BusyError

MAX_WAITING = 10_000


class FairQueue:
    """Lets those who wait go on in turns: the first of each client before the second of any. When it is full,
    the newest of the client with most of them gives way, which may be the one that comes."""

    def __init__(self, refusal: Callable[[str], BusyError], most: int = MAX_WAITING) -> None:
        """`refusal` makes the error for one that cannot wait, of the reason."""
        self._refusal = refusal
        self._most = most
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """By client, in the order of their turns."""
        self.count = 0
        """The number of those who wait."""

    def __len__(self) -> int:
        return self.count

    async def wait(
        self, client: str, seconds: float | None, give_back: Callable[[], None], *, bounded: bool = True
    ) -> float:
        """Waits for a turn, and returns the seconds that it took. Raises BusyError after `seconds`, or if the
        line is full. `give_back` is called if the turn comes to one that was cancelled."""
        if bounded and self.count >= self._most:
            self._make_room(client)
        loop = asyncio.get_running_loop()
        began = loop.time()
        turn: asyncio.Future[None] = loop.create_future()
        self._lines.setdefault(client, deque()).append(turn)
        self.count += 1
        timer = None if seconds is None else loop.call_later(seconds, self._expire, client, turn, seconds)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                give_back()
            else:
                self._leave(client, turn)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return loop.time() - began

    def serve(self, may_go: Callable[[str], bool] | None = None) -> str | None:
        """Lets the next go on whose client may. Returns the client, or None if there is nobody."""
        while (client := self._next(may_go)) is not None:
            line = self._lines.pop(client)
            turn = line.popleft()
            self.count -= 1
            if line:
                self._lines[client] = line
            if not turn.done():
                turn.set_result(None)
                return client
        return None

    def _next(self, may_go: Callable[[str], bool] | None) -> str | None:
        return next((client for client in self._lines if may_go is None or may_go(client)), None)

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(client)
        if line is None or turn not in line:
            return
        line.remove(turn)
        self.count -= 1
        if not line:
            del self._lines[client]

    def _expire(self, client: str, turn: asyncio.Future[None], seconds: float) -> None:
        self._refuse(client, turn, f"no turn came within {seconds:.3g} s, and {self.count} calls wait")

    def _make_room(self, client: str) -> None:
        longest = max(self._lines, key=lambda each: len(self._lines[each]))
        reason = f"{self._most} calls wait already"
        if longest == client or len(self._lines[longest]) <= len(self._lines.get(client, ())) + 1:
            raise self._refusal(reason)
        self._refuse(longest, self._lines[longest][-1], reason)

    def _refuse(self, client: str, turn: asyncio.Future[None], reason: str) -> None:
        if not turn.done():
            self._leave(client, turn)
            turn.set_exception(self._refusal(reason))
