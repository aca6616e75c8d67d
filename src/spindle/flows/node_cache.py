"""Caches results of pure nodes written by hand, where a flow asks for it.

The call path caches tools' results itself; this does the same for nodes that are not tools.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.code_marks import code_of
from spindle.domain.call import Result
from spindle.domain.json_schema import canonical, from_json, survives_json

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.identity import Principal
    from spindle.flows.definition import CacheRule
    from spindle.flows.node import BaseNode
    from spindle.ports.store import CacheStore

C = TypeVar("C")

MARK = "__spindle_flow_safe__"


def flow_safe(target: C) -> C:
    """Marks a node, or a function that is a tool, as pure: the same inputs give the same result, and
    nothing else happens. Its results may be cached where a flow asks for it."""
    setattr(target, MARK, True)
    return target


def is_flow_safe(target: object) -> bool:
    """True if the class or function was marked with `flow_safe`."""
    return getattr(target, MARK, False) is True


class PureNodes:
    """The cache of results of pure nodes."""

    def __init__(self, store: CacheStore, now: Callable[[], float], root: Path) -> None:
        self._store = store
        self._now = now
        self._root = root

    def key(self, node: BaseNode, given: Any, principal: Principal) -> str | None:
        """Returns the cache key, or None if the node is not pure or its input is not JSON."""
        if not is_flow_safe(type(node)):
            return None
        try:
            kind = type(node)
            code = [inspect.getsource(kind), code_of(inspect.getfile(kind), self._root)]
            parts = [kind.__qualname__, *code, node.params, given, principal.id]
            text = canonical(parts)
            if from_json(text)[-2] != given:
                return None
        except (TypeError, ValueError, OSError, RecursionError):
            return None
        return hashlib.sha256(b"node " + text).hexdigest()

    async def value(
        self, key: str, rule: CacheRule, make: Callable[[], Awaitable[Any]], *, use_cache: bool
    ) -> tuple[Any, bool]:
        """Returns the value, and whether it was cached."""
        found = await self._store.cached(key, self._now(), rule.ttl) if use_cache else None
        if found is not None:
            return found.structured, True
        value = await make()
        if survives_json(value):
            now = self._now()
            await self._store.cache(key, Result(structured=value, has_structured=True), now + rule.ttl, now)
        return value, False
