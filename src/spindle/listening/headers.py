"""The headers of a request, read as often as every request needs some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RequestHeaders:
    """The headers in a request's scope, by names in lower case."""

    __slots__ = ("_all", "_last")

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._all: list[tuple[bytes, bytes]] = scope["headers"]
        self._last = dict(self._all)

    def get(self, name: bytes, default: str = "") -> str:
        """Returns the value of a header, of several the last."""
        found = self._last.get(name)
        return default if found is None else found.decode("latin-1").strip(" \t")

    def all(self, name: bytes) -> list[str]:
        """Returns the values of a header that may be there more than once."""
        if name not in self._last:
            return []
        return [value.decode("latin-1") for known, value in self._all if known == name]

    def __contains__(self, name: bytes) -> bool:
        return name in self._last

    def texts(self) -> dict[str, str]:
        """Returns all of them as texts, of several of one name the last."""
        return {name.decode("latin-1"): self.get(name) for name in self._last}
