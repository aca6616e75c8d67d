"""Maps that live as long as a process, and therefore have a limit."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

MANY = 1000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(dict[K, V]):
    """Holds at most `limit` entries: the one that was set or used longest ago makes room for a new one. An
    entry counts as used when it is set, or found by `use`."""

    def __init__(self, limit: int = MANY) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            del self[key]
        elif len(self) >= self.limit:
            self.pop(next(iter(self)), None)  # another thread may have been faster
        super().__setitem__(key, value)

    def use(self, key: K) -> V | None:
        """Returns the entry of this key, which now counts as the newest; None if there is none."""
        found = self.get(key)
        if found is not None:
            self[key] = found
        return found

    def setdefault(self, key: K, default: V) -> V:  # type: ignore[override]
        """Returns the entry of this key, which is `default` if there was none."""
        if key not in self:
            self[key] = default
        return self[key]
