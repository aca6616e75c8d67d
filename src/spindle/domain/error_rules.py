"""Rules that give the errors of a source their category: by a pattern in their text, or by a code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field
from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from spindle.domain.section import Section

MAX_PATTERN: Final = 2000
MAX_SEARCHED: Final = 100_000
"""Characters of an error that patterns are searched in."""


@lru_cache(512)
def _compiled(pattern: str) -> SchemaValidator:
    # Rust's expressions: the time to search is linear in the text, which a server chose.
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _checked(value: Any) -> Any:
    rules = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else (value,)
    for rule in rules:
        if isinstance(rule, bool) or not isinstance(rule, (str, int)):
            raise ValueError("must be patterns (text) or codes (whole numbers)")
        if isinstance(rule, str):
            _check_pattern(rule)
    return tuple(rules)


def _check_pattern(pattern: str) -> None:
    if not pattern:
        raise ValueError("an empty pattern is in every text")
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has at most {MAX_PATTERN:,} characters")
    try:
        _compiled(pattern)
    except SchemaError as error:
        reason = str(error).strip().rpartition("error: ")[2].rpartition("SchemaError: ")[2]
        raise ValueError(
            f"{pattern!r} is not a regular expression that can be searched in linear time: {reason}"
        ) from None


Rules = Annotated[tuple[str | int, ...], BeforeValidator(_checked)]


class ErrorRules(Section):
    """Patterns and codes by the category that they mean. They are tried in the order of the fields."""

    rate_limited: Rules = Field(default=(), description="the source asks to wait")
    auth: Rules = Field(default=(), description="the credential was refused")
    permission: Rules = Field(default=(), description="the credential lacks a permission")
    not_found: Rules = Field(default=(), description="what was asked for does not exist")
    timeout: Rules = Field(default=(), description="it took too long")
    client: Rules = Field(default=(), description="the request is wrong")
    server: Rules = Field(default=(), description="the source failed")
    tool: Rules = Field(default=(), description="the tool reports an error of its own")

    def category(self, text: str, codes: Collection[int]) -> str | None:
        """Returns the category of an error with this text and these codes, if a rule fits."""
        text = text[:MAX_SEARCHED]
        for category, rules in self._rules():
            if any(rule in codes if isinstance(rule, int) else _found(rule, text) for rule in rules):
                return category
        return None

    def _rules(self) -> Iterator[tuple[str, tuple[str | int, ...]]]:
        for category in type(self).model_fields:
            yield category, getattr(self, category)


def _found(pattern: str, text: str) -> bool:
    try:
        _compiled(pattern).validate_python(text)
    except ValidationError:
        return False
    return True
