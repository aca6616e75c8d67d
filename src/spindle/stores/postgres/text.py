"""Text as PostgreSQL takes it."""

from __future__ import annotations

from typing import Any

from spindle.stores.rows import storable


def storable_text(text: str) -> str:
    """`storable`, and without NUL, which PostgreSQL has no place for."""
    return storable(text).replace("\0", r"\x00")


def storable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(storable_text(value) if isinstance(value, str) else value for value in row)
