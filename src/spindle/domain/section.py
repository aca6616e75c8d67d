"""The base of all tables of settings."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of settings: unknown keys are refused, and it cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the patterns. Raises ValueError for one that is no regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return patterns
