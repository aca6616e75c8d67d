"""Tokens, groups and quotas that administrators made while serving, besides those in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spindle.domain.json_schema import JsonObject

AccessKind = Literal["token", "group", "quota"]


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """One of them, as the store keeps it."""

    kind: AccessKind
    name: str
    body: JsonObject
    updated_at: float = 0.0
    updated_by: str = ""
