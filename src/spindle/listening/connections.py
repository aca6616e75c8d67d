"""The open connections of a server: how long each may take, and which goes first when there are too many."""

from __future__ import annotations

import logging
import select
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from spindle.listening.addressing import network
from spindle.listening.limits import ConnectionLimits, connections_within

logger = logging.getLogger("spindle.serve")

CONNECTION = "spindle.connection"
"""The key under which a request's scope has its connection."""
LONGEST_STEP = 0.5
"""Seconds by which our clock goes on at a time. When the process stood still for longer, nobody could
be heard, and nobody is late for it."""
LINGER = 2.0
"""Seconds in which a client may read why it was refused."""
TELL_EVERY = 60.0


class OpenConnection(Protocol):
    """A connection, as those see it who decide which ones stay."""

    known: bool
    """True once a request was let in."""
    number: int
    """The smallest is that of the oldest."""
    admitted: object | None
    """The request that it was let in with, as whoever let it in remembers it."""

    @property
    def host(self) -> str: ...
    def fileno(self) -> int: ...
    def drop(self) -> None: ...
    def refuse(self, status: int, reason: str) -> None: ...
    def expire(self) -> str | None: ...


Queue = dict[OpenConnection, float]
"""Connections that we wait for, and since when; who has waited longest comes first."""


def recognise(scope: Mapping[str, Any]) -> None:
    """Marks the connection of a request as that of a client who was let in: it stays when strangers have to
    go."""
    connection: OpenConnection | None = scope.get(CONNECTION)
    if connection is not None:
        connection.known = True


class OpenConnections:
    """All connections of one server. Each is in one queue at most, by what it owes us.

    One clock for all: nothing here costs a timer or a task for each connection or request.
    """

    def __init__(self, limits: Callable[[], ConnectionLimits]) -> None:
        self._current = limits
        self.limits = limits()
        self.most = connections_within(self.limits.connections)
        self.now = 0.0
        self.heads: Queue = {}
        """Those that owe us the header of a request, or the rest of it."""
        self.bodies: Queue = {}
        self.asking: Queue = {}
        """Strangers whose request is being looked at. They wait for us, so they are never late."""
        self.kept: Queue = {}
        """Known clients between two requests."""
        self.stalled: Queue = {}
        """Those that do not read what we send."""
        self.leaving: Queue = {}
        """Those that were refused and may read why."""
        self._address: dict[OpenConnection, str] = {}
        self._count: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self._came = 0
        self._told = 0.0
        self._ticked: float | None = None

    def __len__(self) -> int:
        return len(self._address)

    # --- coming and going

    def enter(self, connection: OpenConnection) -> None:
        """Takes a new connection in. Where there are too many, one that owes us something makes room."""
        self._came += 1
        connection.number = self._came
        address = self._address[connection] = network(connection.host)
        self._count[address] += 1
        limits = self.limits
        crowded = self._count[address] > limits.per_address and not limits.trusts(connection.host)
        if crowded and not self._make_room(connection, address):
            self._refuse(connection, "too many connections from this address are at work")
        elif len(self._address) > self.most and not self._make_room(connection, None):
            self._refuse(connection, "all connections are at work")

    def leave(self, connection: OpenConnection) -> None:
        """Forgets a connection that is closed, or about to be."""
        address = self._address.pop(connection, None)
        if address is not None:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address]

    def _make_room(self, newcomer: OpenConnection, address: str | None) -> bool:
        """Drops the one that is missed least: who was refused, else the oldest of the strangers that wait,
        else who rests, else who has sent half of something, else the oldest of the strangers whose request is
        being looked at. A known client that is being answered stays."""
        half = (self.heads, self.bodies)
        for queues, known in (
            ((self.leaving,), None),
            ((*half, self.stalled), False),
            ((self.kept,), True),
            (half, True),
            ((self.asking,), False),
        ):
            found = [
                first
                for queue in queues
                if (first := self._first(queue, known, newcomer, address)) is not None
            ]
            if found:
                oldest = min(found, key=lambda one: (one[0], one[1].number))[1]
                self.dropped["to make room"] += 1
                self.leave(oldest)
                oldest.drop()
                return True
        return False

    def _first(
        self, queue: Queue, known: bool | None, newcomer: OpenConnection, address: str | None
    ) -> tuple[float, OpenConnection] | None:
        """The one of a queue that has waited longest, if it may be dropped; `known`: or any."""
        for connection, since in queue.items():
            if (
                connection is not newcomer
                and (known is None or connection.known is known)
                and (address is None or self._address.get(connection) == address)
                and not (queue is self.kept and _has_data([connection]))
            ):
                return since, connection
        return None

    def _refuse(self, connection: OpenConnection, reason: str) -> None:
        self.dropped[reason] += 1
        connection.refuse(503, reason)

    # --- time

    def tick(self, time: float) -> None:
        """Ends what took too long. `time` is that of the event loop."""
        current = self._current()
        if current is not self.limits:
            self.limits = current
            self.most = connections_within(current.connections)
        if self._ticked is not None:
            self.now += min(time - self._ticked, LONGEST_STEP)
        self._ticked = time
        self._end(self._due(self.heads, current.header_timeout))
        self._end(self._due(self.bodies, current.body_timeout))
        self._end(self._due(self.stalled, current.send_timeout))
        self._end(self._due(self.leaving, LINGER))
        resting = self._due(self.kept, current.keep_alive)
        if resting:
            # A request may be there that we have not read yet.
            asking = _has_data(resting)
            self._end([connection for connection in resting if connection not in asking])
        if self.dropped and self.now - self._told >= TELL_EVERY:
            self._tell()

    def _due(self, queue: Queue, seconds: float) -> list[OpenConnection]:
        due: list[OpenConnection] = []
        for connection, since in queue.items():
            if self.now - since < seconds:
                break
            due.append(connection)
        return due

    def _end(self, due: list[OpenConnection]) -> None:
        for connection in due:
            reason = connection.expire()
            if reason is not None:
                self.dropped[reason] += 1

    def _tell(self) -> None:
        self._told = self.now
        counted = ", ".join(f"{count} {reason}" for reason, count in self.dropped.most_common())
        logger.warning("connections were dropped: %s", counted)
        self.dropped.clear()


def _has_data(connections: list[OpenConnection]) -> set[OpenConnection]:
    """Those of which something waits to be read."""
    poll = select.poll()
    by_number = {connection.fileno(): connection for connection in connections}
    for number in by_number:
        if number >= 0:
            poll.register(number, select.POLLIN)
    return {by_number[number] for number, _ in poll.poll(0)}
