"""The headers of a request, read as often as every request needs some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

HEADERS = "spindle.headers"
"""The key under which a request's scope has its headers, once they were read."""


def headers_of(scope: Mapping[str, Any]) -> RequestHeaders:
    """The headers of a request."""
    found = scope.get(HEADERS)
    return found if isinstance(found, RequestHeaders) else RequestHeaders(scope)


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

    def raw(self, name: bytes) -> bytes:
        """Returns the value of a header as it came, of several the last; nothing if there is none."""
        return self._last.get(name, b"")

    def all(self, name: bytes) -> list[str]:
        """Returns the values of a header that may be there more than once."""
        if name not in self._last:
            return []
        return [value.decode("latin-1") for known, value in self._all if known == name]

    def __contains__(self, name: bytes) -> bool:
        return name in self._last

    def shown(self, names: Iterable[bytes]) -> bytes | None:
        """Returns the values of these headers as one text that no others have; None if any header is there
        more than once."""
        last = self._last
        if len(last) != len(self._all):
            return None
        # No value holds a line break.
        return b"\n".join([last.get(name, b"\r") for name in names])

    def texts(self) -> dict[str, str]:
        """Returns all of them as texts, of several of one name the last."""
        return {name.decode("latin-1"): self.get(name) for name in self._last}
