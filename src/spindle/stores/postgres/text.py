"""Text in the form that PostgreSQL accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.stores.rows import storable


def storable_text(text: str) -> str:
    """Like `storable`, and without NUL characters, which PostgreSQL cannot store."""
    return storable(text).replace("\0", r"\x00")


def storable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with all its texts made storable."""
    return tuple(storable_text(value) if isinstance(value, str) else value for value in row)


def storable_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with all their texts made storable."""
    return dict(zip(values, storable_row(tuple(values.values())), strict=True))
