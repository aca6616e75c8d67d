"""Text in the form that PostgreSQL accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from spindle.stores.rows import storable


def storable_text(text: str) -> str:
    """Like `storable`, and without NUL characters, which PostgreSQL cannot store."""
    return storable(text).replace("\0", r"\x00")


def storable_values(values: Any) -> Any:
    """The values of a statement, by place or by name, with all texts in them made storable."""
    if isinstance(values, str):
        return storable_text(values)
    if isinstance(values, (list, tuple)):
        return [storable_values(value) for value in cast("list[Any]", values)]
    if isinstance(values, Mapping):
        named = cast("Mapping[str, Any]", values)
        return {name: storable_values(value) for name, value in named.items()}
    return values
