"""Idempotency keys, and the places in which sources look for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KeyPlace = Literal["header", "meta", "parameter"]


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key by which a source knows that it is sent the same call once more, and where it looks for it."""

    place: KeyPlace
    name: str
    value: str
