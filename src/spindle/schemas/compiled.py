"""The one door to the library that checks values against JSON Schemas, with a budget.

The library holds the interpreter while it compiles and checks, so nothing can stop it: what would take too
long is counted before, and not begun.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.schema_cost import SchemaCost, SchemaCosts
from spindle.ports.list_budget import size_of
from spindle.schemas.keywords import NEWEST
from spindle.schemas.simple import SimpleSchema

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, Validator

MAX_PROBLEMS: Final = 50
MAX_MESSAGE: Final = 500
"""Characters of a problem. The library quotes the whole value that does not fit."""

MAX_LOOKS: Final = 2_000_000
"""Looks for one value (see `domain/schema_cost`): about 50 ms."""

MAX_EXPLAINED: Final = 5_000
"""Looks for saying what is wrong with a value. The library collects all there is to say about every branch of
a union, which takes a thousand times longer than seeing that none fits."""

MAX_QUOTED: Final = 4_000_000
"""Bytes that a value has, times the looks at it: the library quotes the whole value for every branch of a
union that it does not fit. About 200 ms."""

_BACKTRACKING_STEPS: Final = 5_000
_PATTERN_BYTES: Final = 8 * 1024 * 1024


_CERTAIN: Final = re.compile(rb'"format":"(?:date-time|email|uuid|uri|ipv4|ipv6)"')
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UNCERTAIN: Final = (
    "date", "time", "duration", "hostname", "idn-hostname", "idn-email", "iri", "iri-reference",
    "json-pointer", "relative-json-pointer", "regex", "uri-reference", "uri-template",
)  # fmt: skip
"""Formats that the library knows and that are not checked."""


class TooCostlyError(ValueError):
    """A value that would take too long to check."""


class CompiledSchema:
    """A schema that values are checked against. Nothing is coerced, filled in or fetched."""

    def __init__(self, schema: JsonObject, cost: SchemaCost | None = None) -> None:
        """Raises ValueError, which says what is wrong with the schema. `cost` is its cost, where somebody
        has counted it with the definitions that it shares."""
        cost = cost or SchemaCosts().of(schema)
        if cost.problem is not None:
            raise ValueError(cost.problem)
        self._cost = cost
        self._schema = schema
        self._is_plain = cost.is_plain
        self.simple = SimpleSchema.of(schema)
        if self.simple is None:
            try:
                self._validator = _validator_for(schema)
            except ValueError as error:
                raise ValueError(shortened(str(error).split("\n", 1)[0])) from None

    @cached_property
    def _validator(self) -> Validator:
        """Made at once, but for a schema that nearly all values need no library for."""
        return _validator_for(self._schema)

    def accepts(self, value: Any) -> bool:
        """True if the value fits; raises TooCostlyError."""
        if self.simple is not None and self.simple.plainly_accepts(value):
            return True
        if not self._is_plain and self._cost.looks(value, MAX_LOOKS) > MAX_LOOKS:
            raise TooCostlyError(
                f"it would take more than {MAX_LOOKS:,} steps to check this value against its schema"
            )
        return self._validator.is_valid(value)

    def mistakes(self, value: Any) -> list[tuple[list[str | int], str]]:
        """Returns the steps to each part that does not fit, and why it does not; nothing if all fits."""
        try:
            if self.accepts(value):
                return []
        except TooCostlyError as error:
            return [([], str(error))]
        looks = self._cost.looks(value, MAX_EXPLAINED)
        if looks > MAX_EXPLAINED or looks * size_of(value) > MAX_QUOTED:
            return [([], "does not fit the schema, and is too large to say where: try with less")]
        found = itertools.islice(self._validator.iter_errors(value), MAX_PROBLEMS)
        return [(list(error.instance_path), shortened(error.message)) for error in found]

    def odd_formats(self, value: Any, whole: str) -> list[dict[str, str]]:
        """Returns what is wrong with the formats of texts in a value that fits, each with its path. Only
        formats that are certain count: everybody means the same by them."""
        validator = self.with_formats
        if validator is None or validator.is_valid(value):
            return []
        looks = self._cost.looks(value, MAX_EXPLAINED)
        if looks > MAX_EXPLAINED or looks * size_of(value) > MAX_QUOTED:
            return [{"path": whole, "problem": "a text in it does not have the format that it should have"}]
        found = itertools.islice(validator.iter_errors(value), MAX_PROBLEMS)
        return [
            {"path": _path(list(error.instance_path)) or whole, "problem": shortened(error.message)}
            for error in found
        ]

    @cached_property
    def with_formats(self) -> Validator | None:
        """The validator that also checks formats, made when it is first wanted; None if the schema names none
        that is certain."""
        if _CERTAIN.search(to_json(self._schema)) is None:
            return None
        return _validator_for(self._schema, with_formats=True)

    def problems(self, value: Any, whole: str) -> list[dict[str, str]]:
        """Returns the same as texts. `whole` is what the value is called."""
        return [{"path": _path(steps) or whole, "problem": text} for steps, text in self.mistakes(value)]


def is_pattern(pattern: str) -> bool:
    """True for a regular expression that can be compiled here, and that is one in the words of the standard:
    clients in other languages get it too."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=_pattern_limits())
    except ValueError:
        return False
    return _expression().is_valid(pattern)


def is_newest(schema: JsonObject) -> bool:
    """True for a schema that is valid in the newest draft, whichever it names."""
    return _newest_draft().is_valid(schema)


def schema_problem(schema: JsonObject) -> str | None:
    """Why a schema cannot be used, or None."""
    try:
        CompiledSchema(schema)
    except ValueError as error:
        return str(error)
    return None


def shortened(text: str) -> str:
    """Returns a text about somebody's value, cut where it gets too long to read."""
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE // 2]} … {text[-MAX_MESSAGE // 2 :]}"


def _path(steps: list[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return shortened(text.removeprefix("."))


def _validator_for(schema: JsonObject, *, with_formats: bool = False) -> Validator:
    import jsonschema_rs

    # Offline: a schema must not make us fetch an address of its author's choice. And what most formats mean
    # in detail is the source's to say: drafts differ, and a refusal here could not be argued with.
    options: Any = {
        "offline": True,
        "validate_formats": with_formats,
        "formats": _formats() if with_formats else None,
        "pattern_options": _pattern_limits(),
    }
    try:
        return jsonschema_rs.validator_for(schema, **options)
    except ValueError:
        if "$schema" not in schema:
            raise
        # It may name a dialect that nobody can know; the keywords are then taken as in the newest draft.
        plain = {key: value for key, value in schema.items() if key != "$schema"}
        return jsonschema_rs.validator_for(plain, **options)


@cache
def _formats() -> dict[str, Callable[[str], bool]]:
    # Drafts before 2019-09 do not know this one.
    return {"uuid": lambda text: _UUID.fullmatch(text) is not None, **dict.fromkeys(_UNCERTAIN, _any_text)}


def _any_text(_text: str) -> bool:
    return True


@cache
def _expression() -> Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"format": "regex"}, validate_formats=True)


@cache
def _newest_draft() -> Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"$ref": NEWEST}, offline=True, validate_formats=False)


@cache
def _pattern_limits() -> FancyRegexOptions:
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKING_STEPS, size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
    )
