"""Hints about a tool from the method of its HTTP request."""

from __future__ import annotations

from spindle.domain.tool import Hints

_READING = Hints(read_only=True, idempotent=True, destructive=False, open_world=True)
METHOD_HINTS = {
    "get": _READING, "head": _READING, "options": _READING, "trace": _READING, "query": _READING,
    "put": Hints(read_only=False, idempotent=True, open_world=True),
    "delete": Hints(read_only=False, idempotent=True, destructive=True, open_world=True),
    "post": Hints(read_only=False, open_world=True),
    "patch": Hints(read_only=False, open_world=True),
}  # fmt: skip
