"""An attack on a port, in a process of its own: `python slow_clients.py PORT HEADS BODIES`, until its input
ends.

HEADS connections send a header a byte at a time, BODIES a body, and one sends a header without end. Each
comes back a while after it was dropped. In the end it prints how many it opened, and how many were dropped.
"""

from __future__ import annotations

import heapq
import json
import random
import resource
import select
import socket
import sys
import time

AGAIN = (2.0, 8.0)
"""Seconds after which one that was dropped comes back, at least and at most."""
ALL_WITHIN = 8.0
"""Seconds in which all have come."""
EVERY = 4.0
"""Seconds between two bytes."""
BEGIN = {
    "head": b"GET /utcp HTTP/1.1\r\nHost: localhost\r\nX: ",
    "body": b"POST /tools/say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
    "endless": b"GET /utcp HTTP/1.1\r\nHost: localhost\r\nX: ",
}
Slot = tuple[str, int]


class Attack:
    def __init__(self, port: int, heads: int, bodies: int) -> None:
        self.port = port
        self.poll = select.epoll()
        self.open: dict[int, tuple[socket.socket, Slot]] = {}
        self.begun: set[int] = set()
        self.chance = random.Random(20261116)
        self.opened = self.dropped = self.refused = 0
        kinds = {"head": heads, "body": bodies, "endless": 1}
        slots: list[Slot] = [(kind, number) for kind, count in kinds.items() for number in range(count)]
        self.due: list[tuple[float, str, Slot]] = [
            (place * ALL_WITHIN / len(slots), "open", slot) for place, slot in enumerate(slots)
        ]

    def run(self) -> None:
        began = time.monotonic()
        self.poll.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            now = time.monotonic() - began
            while self.due and self.due[0][0] <= now:
                _, what, slot = heapq.heappop(self.due)
                if what == "open":
                    self.begin(now, slot)
                else:
                    self.go_on(now, slot, int(what))
            wait = min(0.5, max(0.0, self.due[0][0] - now)) if self.due else 0.5
            for number, _ in self.poll.poll(wait):
                if number == sys.stdin.fileno():
                    return
                self.heard(time.monotonic() - began, number)

    def begin(self, now: float, slot: Slot) -> None:
        made = socket.socket()
        made.setblocking(False)
        self.opened += 1
        made.connect_ex(("127.0.0.1", self.port))
        self.open[made.fileno()] = made, slot
        self.poll.register(made.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        heapq.heappush(self.due, (now + 0.2, str(made.fileno()), slot))

    def go_on(self, now: float, slot: Slot, number: int) -> None:
        made, holder = self.open.get(number, (None, None))
        if made is None or holder != slot:
            return
        kind = slot[0]
        try:
            if kind == "endless":
                made.send(BEGIN[kind] + b"y" * 65536)
            else:
                made.send(b"y" if number in self.begun else BEGIN[kind])
                self.begun.add(number)
        except BlockingIOError:
            pass
        except OSError:
            self.lost(now, number)
            return
        pause = 0.01 if kind == "endless" else EVERY
        heapq.heappush(self.due, (now + pause, str(number), slot))

    def heard(self, now: float, number: int) -> None:
        made, _ = self.open[number]
        try:
            said = made.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        self.refused += said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
        if not said:
            self.lost(now, number)

    def lost(self, now: float, number: int) -> None:
        made, slot = self.open.pop(number)
        self.poll.unregister(number)
        self.begun.discard(number)
        made.close()
        self.dropped += 1
        pause = 0.05 if slot[0] == "endless" else self.chance.uniform(*AGAIN)
        heapq.heappush(self.due, (now + pause, "open", slot))


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(*map(int, sys.argv[1:4]))
    attack.run()
    held = len(attack.open)
    print(
        json.dumps(
            {"opened": attack.opened, "dropped": attack.dropped, "refused": attack.refused, "held": held}
        )
    )
