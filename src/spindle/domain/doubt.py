"""The settings for calls that may have been done: what becomes of them, and the key that tells them apart."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spindle.domain.call import KeyPlace
from spindle.domain.section import Section, check_patterns
from spindle.domain.tool import ToolSpec

InDoubt = Literal["ask", "repeat", "fail"]
"""The decision about a call in a run that was begun before a fault and may have been done."""


def table_of(value: Any) -> Any:
    """Returns the table by patterns of tools for which one word stands."""
    if not isinstance(value, str):
        return value
    if value not in ("ask", "repeat", "fail"):
        raise ValueError('must be "ask", "repeat" or "fail", or a table of patterns of tools')
    return {".*": value}


class KeyConfig(Section):
    """The place in which the source looks for an idempotency key. Whoever sets it says that the source
    honours the key: it does not do the same call twice."""

    header: str | None = Field(default=None, description="the name of an HTTP header")
    meta: str | None = Field(default=None, description="a field of `_meta` in requests of MCP")
    parameter: str | None = Field(default=None, description="a parameter of the tools")
    tools: tuple[str, ...] = Field(default=(".*",), description="patterns of the tools that honour it")

    @field_validator("tools")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return check_patterns(patterns)

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if sum(bool(name) for name in (self.header, self.meta, self.parameter)) != 1:
            raise ValueError("give one of `header`, `meta` and `parameter`")
        return self

    @property
    def place(self) -> tuple[KeyPlace, str]:
        """The kind of place, and the name there."""
        if self.header:
            return "header", self.header
        return ("meta", self.meta) if self.meta else ("parameter", self.parameter or "")

    def place_for(self, tool: str, spec: ToolSpec) -> tuple[KeyPlace, str] | None:
        """Returns the place for a call of this tool, if it honours the key."""
        if not any(re.fullmatch(pattern, tool) for pattern in self.tools):
            return None
        place, name = self.place
        is_taken = place != "parameter" or name in spec.input_schema.get("properties", {})
        return (place, name) if is_taken else None
