"""Time and number of connections, by a clock that the test turns."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator

import pytest

from spindle.listening.connections import TELL_EVERY, OpenConnections, Queue
from spindle.listening.limits import BACKLOG, KEPT_DESCRIPTORS, ConnectionLimits, connections_within

LIMITS = ConnectionLimits(connections=4, per_address=3, trusted_proxies=("10.0.0.0/24",))


class Connection:
    """A connection over a real socket, which notes what becomes of it."""

    def __init__(self, door: OpenConnections, host: str, known: bool) -> None:
        self.door = door
        self.host = host
        self.known = known
        self.number = 0
        self.ours, self.theirs = socket.socketpair()
        self.end = ""

    def fileno(self) -> int:
        return self.ours.fileno()

    def drop(self) -> None:
        self._ended("dropped")

    def refuse(self, status: int, reason: str) -> None:
        self._ended(f"{status} {reason}")

    def expire(self) -> str | None:
        self._ended("expired")
        return "were late"

    def _ended(self, how: str) -> None:
        self.end = how
        door = self.door
        for queue in (door.heads, door.bodies, door.asking, door.kept, door.stalled, door.leaving):
            queue.pop(self, None)

    def wait_in(self, queue: Queue) -> Connection:
        queue[self] = self.door.now
        return self

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


Come = Callable[..., Connection]


@pytest.fixture
def door() -> OpenConnections:
    return OpenConnections(lambda: LIMITS)


@pytest.fixture
def come(door: OpenConnections) -> Iterator[Come]:
    made: list[Connection] = []

    def came(queue: Queue | None = None, host: str = "", *, known: bool = False) -> Connection:
        connection = Connection(door, host or f"192.0.2.{len(made)}", known)
        made.append(connection)
        if queue is not None:
            connection.wait_in(queue)
        door.enter(connection)
        return connection

    yield came
    for connection in made:
        connection.close()


def run(door: OpenConnections, seconds: float, *, since: float = 0.0) -> float:
    """Lets the time pass as it does in a server that is not held up."""
    steps = round(seconds * 10)
    for step in range(steps + 1):
        door.tick(since + step / 10)
    return since + steps / 10


def test_each_has_its_own_time(door: OpenConnections, come: Come) -> None:
    head, body, kept, reader = (
        come(queue, known=True) for queue in (door.heads, door.bodies, door.kept, door.stalled)
    )
    now = run(door, 9.9)
    assert not head.end
    now = run(door, 0.2, since=now)
    assert (head.end, body.end) == ("expired", "")
    now = run(door, 20.0, since=now)
    assert (body.end, reader.end, kept.end) == ("expired", "expired", "")
    run(door, 31.0, since=now)
    assert kept.end == "expired"


def test_nobody_is_late_for_the_time_in_which_we_stood_still(door: OpenConnections, come: Come) -> None:
    four = [come(queue, known=True) for queue in (door.heads, door.bodies, door.kept, door.stalled)]
    now = run(door, 5.0)
    door.tick(now + 3600)  # stopped for an hour, or a clock that jumped
    door.tick(now + 3600.1)
    assert [connection.end for connection in four] == [""] * 4
    run(door, 6.0, since=now + 3600.2)
    assert four[0].end == "expired"


def test_a_kept_connection_with_a_request_that_waits_to_be_read_stays(
    door: OpenConnections, come: Come
) -> None:
    asking, silent = come(door.kept, known=True), come(door.kept, known=True)
    asking.theirs.send(b"GET / HTTP/1.1\r\n")
    run(door, 61.0)
    assert (asking.end, silent.end) == ("", "expired")


def test_strangers_make_room_the_oldest_first(door: OpenConnections, come: Come) -> None:
    kept, at_work = come(door.kept, known=True), come(known=True)
    first, second = come(door.bodies), come(door.heads)
    come(door.heads)
    assert [one.end for one in (kept, at_work, first, second)] == ["", "", "dropped", ""]
    come(door.heads)
    assert [one.end for one in (kept, at_work, second)] == ["", "", "dropped"]


def test_who_rests_makes_room_where_there_are_no_strangers(door: OpenConnections, come: Come) -> None:
    sending, asking, kept, at_work = (
        come(queue, known=True) for queue in (door.bodies, door.kept, door.kept, None)
    )
    asking.theirs.send(b"GET / HTTP/1.1\r\n")
    come(known=True)
    assert [one.end for one in (sending, asking, kept, at_work)] == ["", "", "dropped", ""]
    assert come(known=True).end == ""
    assert sending.end == "dropped"
    assert "503" in come(known=True).end
    assert (asking.end, at_work.end) == ("", "")


def test_a_stranger_that_is_looked_at_makes_room_before_anybody_is_refused(
    door: OpenConnections, come: Come
) -> None:
    reading = come(door.stalled, known=True)
    asking = [come(door.asking) for _ in range(3)]
    asking[0].known = True  # let in meanwhile
    assert come(known=True).end == ""
    assert [one.end for one in (reading, *asking)] == ["", "", "dropped", ""]
    assert come(known=True).end == ""
    assert "503" in come(known=True).end
    assert [one.end for one in (reading, *asking)] == ["", "", "dropped", "dropped"]


def test_an_address_makes_room_for_itself_only(door: OpenConnections, come: Come) -> None:
    other = come(door.heads, "192.0.2.1")
    own = [come(door.heads, "2001:db8::1"), *(come(host=f"2001:db8::{number}") for number in (2, 3))]
    assert come(host="2001:db8::4").end == ""
    assert [one.end for one in (other, *own)] == ["", "dropped", "", ""]
    assert "this address" in come(host="2001:db8::5").end


def test_a_proxy_is_not_counted(come: Come) -> None:
    assert [come(host="10.0.0.7").end for _ in range(4)] == [""] * 4


def test_who_left_is_forgotten(door: OpenConnections, come: Come) -> None:
    for _ in range(20):
        connection = come(host="192.0.2.1")
        assert connection.end == ""
        door.leave(connection)
        door.leave(connection)
    assert len(door) == 0


def test_what_was_dropped_is_told_now_and_then(
    door: OpenConnections, come: Come, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        come(door.heads)
    run(door, TELL_EVERY + 1)
    assert [record.message for record in caplog.records] == ["connections were dropped: 3 were late"]


def test_limits_that_change_are_taken_over(come: Come) -> None:
    current = LIMITS
    door = OpenConnections(lambda: current)
    current = dataclasses.replace(LIMITS, connections=7)
    door.tick(1.0)
    assert (door.limits, door.most) == (current, 7)


def test_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((1 << 20, 1000), (1024, 1024 - BACKLOG - KEPT_DESCRIPTORS), (64, 16), (1, 1)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert connections_within(1000) == most
