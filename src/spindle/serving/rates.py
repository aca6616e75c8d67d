"""How often one client may ask."""

from __future__ import annotations

import heapq
import ipaddress
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.domain.source import RateLimit

MAX_CLIENTS = 10_000


class Rates:
    """Each client may use up its calls at once, and gets them back evenly. Only clients that have used
    some are remembered, each as one number: when it will have them all back."""

    def __init__(
        self, limit: RateLimit, now: Callable[[], float] = time.monotonic, max_clients: int = MAX_CLIENTS
    ) -> None:
        self.limit = limit
        self._each = limit.seconds / limit.calls
        self._room = max(limit.seconds - self._each, 0.0)
        self._now = now
        self._max = max_clients
        self._whole_at: dict[str, float] = {}

    def take(self, client: str) -> float | None:
        """Take one. None: it was there; else the seconds until one is."""
        now = self._now()
        whole_at = max(self._whole_at.get(client, now), now)
        # A hair more, because sums of fractions are not exact.
        if whole_at - now > self._room + self._each * 1e-6:
            return whole_at - now - self._room
        if client not in self._whole_at and len(self._whole_at) >= self._max:
            self._make_room(now)
        self._whole_at[client] = whole_at + self._each
        return None

    def __len__(self) -> int:
        return len(self._whole_at)

    def _make_room(self, now: float) -> None:
        kept = {client: when for client, when in self._whole_at.items() if when > now}
        if len(kept) >= self._max:
            # Those who asked most are remembered longest.
            kept = dict(heapq.nlargest(self._max // 2, kept.items(), key=lambda item: item[1]))
        self._whole_at = kept


def network(address: str) -> str:
    """What one client may call its own: an address, of version 6 a network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
