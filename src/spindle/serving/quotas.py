"""The shares of clients in all that a server can hold open: sessions, streams, suspended calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from spindle.errors import RateLimitedError

T = TypeVar("T", bound=Hashable)


class Shares(Generic[T]):
    """Things that clients hold open on a server, each client at most its share: who would have more loses the
    oldest of its own, and never anybody else's."""

    def __init__(self, what: str, total: int) -> None:
        """`what` they are, in the words of an error; `total` is the number for all clients together."""
        self._what = what
        self._total = total
        self._held: dict[str, dict[T, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, client: str) -> list[T]:
        """The items that a client holds, the oldest first."""
        return list(self._held.get(client, ()))

    def add(self, client: str, item: T, share: int, can_end: Callable[[T], bool] | None = None) -> T | None:
        """Takes an item in, and returns the one of the same client that has to end for it, if any. Raises
        RateLimitedError if there is none that can."""
        own = self._held.get(client, {})
        displaced = None
        if len(own) >= share or self._count >= self._total:
            displaced = next((held for held in own if can_end is None or can_end(held)), None)
            if displaced is None:
                raise self._full(len(own) >= share, share)
            self.remove(client, displaced)
        self._held.setdefault(client, {})[item] = None
        self._count += 1
        return displaced

    def used(self, client: str, item: T) -> None:
        """Counts an item as the newest of its client, if it is there."""
        own = self._held.get(client)
        if own is not None and item in own:
            del own[item]
            own[item] = None

    def remove(self, client: str, item: T) -> None:
        """Forgets an item, if it is there."""
        own = self._held.get(client)
        if own is None or item not in own:
            return
        del own[item]
        self._count -= 1
        if not own:
            del self._held[client]

    def _full(self, is_own: bool, share: int) -> RateLimitedError:
        whose = (
            f"this client has {share} {self._what}"
            if is_own
            else f"all clients have {self._total} {self._what}"
        )
        hint = "end some of them; see serve.quotas" if is_own else "try again later"
        return RateLimitedError(
            f"{whose}, and there is no room for more", hint=hint, retry_after=1.0, sent=False
        )
