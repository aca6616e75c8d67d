"""The functions of expressions, each once: how it is called, what it gives, what the reference says of it.

A function whose first argument is null gives null; one over a list takes null for an empty list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.documents import json_text
from spindle.domain.json_schema import is_array, to_json
from spindle.flows.expressions import dates, globs
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.scope import Scope
from spindle.flows.expressions.values import MAX_SIZE, NOUNS, kind_of, noun, number


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `takes` are kinds of its arguments, with `?` for one that may be left out, `any` and
    kinds in between bars; `each` is a term for each item of the list before it."""

    name: str
    takes: tuple[str, ...]
    gives: str
    """The kind of its value; `any`, or `item` for one of the list's."""
    says: str
    work: Callable[..., Any]
    """Called with the scope and the arguments; with an `each`, with the items and a value for each."""

    @property
    def at_least(self) -> int:
        return sum(not kind.endswith("?") for kind in self.takes)

    @property
    def each(self) -> int | None:
        """The place of the argument that is a term for each item."""
        return next((index for index, kind in enumerate(self.takes) if kind.startswith("each")), None)

    @property
    def signature(self) -> str:
        words = [f"[{kind[:-1]}]" if kind.endswith("?") else kind for kind in self.takes]
        return f"{self.name}({', '.join(words)})"

    def call(self, scope: Scope, arguments: list[Any]) -> Any:
        for index, value in enumerate(arguments):
            kinds = self.takes[index].removesuffix("?").split("|")
            kind = kind_of(value)
            if kind in kinds or "any" in kinds:
                continue
            if kind == "null" and index == 0:
                if "list" not in kinds:
                    return None
                arguments[0] = []
                continue
            wanted = " or ".join(NOUNS[one] for one in kinds)
            raise ExpressionError(f"{self.name}: argument {index + 1} must be {wanted}, not {noun(value)}")
        return self.work(scope, *arguments)

    def list_of(self, value: Any) -> list[Any]:
        if value is None:
            return []
        if not is_array(value):
            raise ExpressionError(f"{self.name}: argument 1 must be a list, not {noun(value)}")
        return value

    def gather(self, items: list[Any], found: list[Any], scope: Scope) -> Any:
        """Returns the value for a list, with the value of the term for each of its items."""
        return self.work(scope, items, found)


_FUNCTIONS: dict[str, Function] = {}
FUNCTIONS: Final[Mapping[str, Function]] = _FUNCTIONS
"""By name."""

Work = Callable[..., Any]


def _function(takes: str, gives: str, says: str) -> Callable[[Work], Work]:
    """Makes a function of the language, of the name that it has here."""

    def made(work: Work) -> Work:
        name = work.__name__.strip("_")
        _FUNCTIONS[name] = Function(name, tuple(takes.split()), gives, says, work)
        return work

    return made


# --- text


@_function("text|list|object|null", "number", "characters, items or keys; 0 of null")
def _len(scope: Scope, value: Any) -> int:
    return len(value) if value is not None else 0


@_function("text", "text", "in small letters")
def _lower(scope: Scope, text: str) -> str:
    return text.lower()


@_function("text", "text", "in capitals")
def _upper(scope: Scope, text: str) -> str:
    return text.upper()


@_function("text", "text", "without space at both ends")
def _trim(scope: Scope, text: str) -> str:
    return text.strip()


@_function("text text text", "text", "each of the second text replaced by the third")
def _replace(scope: Scope, text: str, old: str, new: str) -> str:
    if not old:
        raise ExpressionError("replace: the text to be replaced must not be empty")
    scope.budget.hold(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


@_function("text text?", "list", "the parts between a text; without one, the words")
def _split(scope: Scope, text: str, separator: str | None = None) -> list[str]:
    if separator == "":
        raise ExpressionError("split: the text between the parts must not be empty")
    return scope.budget.made(text.split(separator))


@_function("list text?", "text", "one text of all items, with a text between them")
def _join(scope: Scope, items: list[Any], between: str = "") -> str:
    parts = [_plain_text(item) for item in items]
    scope.budget.hold(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _plain_text(item: Any) -> str:
    if kind_of(item) in ("list", "object", "null"):
        raise ExpressionError(f"join: {noun(item)} among the items", hint="map(…) makes texts of them")
    return item if isinstance(item, str) else to_json(item).decode()


@_function("text text", "boolean", "true if the second text is its beginning")
def _starts_with(scope: Scope, text: str, part: str) -> bool:
    return text.startswith(part)


@_function("text text", "boolean", "true if the second text is its end")
def _ends_with(scope: Scope, text: str, part: str) -> bool:
    return text.endswith(part)


@_function("text text", "boolean", "true if it fits a pattern: `*` is any text, `?` one character")
def _matches(scope: Scope, text: str, pattern: str) -> bool:
    return globs.fits(text, pattern, scope.budget)


@_function("any", "text", "text as it is, anything else as JSON")
def _text(scope: Scope, value: Any) -> str:
    return value if isinstance(value, str) else _to_json(scope, value)


# --- numbers


_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?\s*")


@_function("text|number", "number", "the number that a text is")
def _number(scope: Scope, value: str | float) -> int | float:
    if not isinstance(value, str):
        return value
    if not _NUMBER.fullmatch(value):
        raise ExpressionError(f"number: {value[:40]!r} is not a number")
    return number(int(value) if value.strip().lstrip("+-").isdecimal() else float(value))


@_function("number number?", "number", "rounded, to so many digits")
def _round(scope: Scope, value: float, digits: float = 0) -> int | float:
    if not isinstance(digits, int) or not 0 <= digits <= 15:
        raise ExpressionError("round: the number of digits is 0 to 15")
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError("round: this is not a number")
    return number(round(value, digits) if digits else round(value))


@_function("list each?", "number", "all items added up, or a term for each")
def _sum(scope: Scope, items: list[Any], found: list[Any] | None = None) -> int | float:
    total: int | float = 0
    for item in items if found is None else found:
        if kind_of(item) != "number":
            raise ExpressionError(f"sum: {noun(item)} among the items", hint="filter(…) leaves it out")
        try:
            total = number(total + item)
        except OverflowError:
            raise ExpressionError("the number is too large") from None
    return total


@_function("list each?", "item", "the least item, maybe by a term; null if there is none")
def _min(scope: Scope, items: list[Any], found: list[Any] | None = None) -> Any:
    keys = _ordered("min", items if found is None else found)
    return items[min(range(len(items)), key=keys.__getitem__)] if items else None


@_function("list each?", "item", "the greatest item, maybe by a term; null if there is none")
def _max(scope: Scope, items: list[Any], found: list[Any] | None = None) -> Any:
    keys = _ordered("max", items if found is None else found)
    return items[max(range(len(items)), key=keys.__getitem__)] if items else None


# --- lists and objects


@_function("list each", "list", "a term for each item")
def _map(scope: Scope, items: list[Any], found: list[Any]) -> list[Any]:
    return scope.budget.made(found)


@_function("list each", "items", "the items for which a term is true")
def _filter(scope: Scope, items: list[Any], found: list[Any]) -> list[Any]:
    return [item for item, is_in in zip(items, found, strict=True) if is_in]


@_function("list each", "boolean", "true if a term is true for some item")
def _any(scope: Scope, items: list[Any], found: list[Any]) -> bool:
    return any(found)


@_function("list each", "boolean", "true if a term is true for every item")
def _all(scope: Scope, items: list[Any], found: list[Any]) -> bool:
    return all(found)


@_function("list each?", "items", "the least first, maybe by a term")
def _sort(scope: Scope, items: list[Any], found: list[Any] | None = None) -> list[Any]:
    keys = _ordered("sort", items if found is None else found)
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


def _ordered(name: str, keys: list[Any]) -> list[Any]:
    kinds = {kind_of(key) for key in keys}
    if len(kinds) > 1 or not kinds <= {"number", "text"}:
        listed = " and ".join(NOUNS[kind] for kind in sorted(kinds))
        raise ExpressionError(
            f"{name}: {listed} have no order", hint=f"such as {name}(items, item.price), or ?? for null"
        )
    return keys


@_function("list", "items", "the last first")
def _reverse(scope: Scope, items: list[Any]) -> list[Any]:
    return items[::-1]


@_function("list", "items", "each item once")
def _unique(scope: Scope, items: list[Any]) -> list[Any]:
    seen: set[Any] = set()
    found: list[Any] = []
    for item in items:
        kind = kind_of(item)
        key = (kind, _to_json(scope, item) if kind in ("list", "object") else item)
        if key not in seen:
            seen.add(key)
            found.append(item)
    return found


@_function("list|text number?", "item", "the first item, or so many items or characters")
def _first(scope: Scope, items: Any, count: float | None = None) -> Any:
    if count is None:
        return items[0] if items else None
    return items[: _count("first", count)]


@_function("list|text number?", "item", "the last item, or so many items or characters")
def _last(scope: Scope, items: Any, count: float | None = None) -> Any:
    if count is None:
        return items[-1] if items else None
    return items[max(len(items) - _count("last", count), 0) :]


def _count(name: str, count: float) -> int:
    if not isinstance(count, int) or count < 0:
        raise ExpressionError(f"{name}: the number of items is 0 or more")
    return count


@_function("object", "list", "its keys")
def _keys(scope: Scope, given: dict[str, Any]) -> list[str]:
    return list(given)


@_function("object", "list", "the values of its keys")
def _values(scope: Scope, given: dict[str, Any]) -> list[Any]:
    return list(given.values())


@_function("object object", "object", "the keys of both; the second counts where they differ")
def _merge(scope: Scope, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return scope.budget.made({**one, **other})


@_function("any any any", "any", "the second if the first is true, else the third")
def _if(scope: Scope, condition: Any, one: Any, other: Any) -> Any:
    return one if condition else other  # the parser makes a term of it that evaluates one of both


# --- JSON and dates


@_function("text", "any", "the value that a text is as JSON")
def _parse_json(scope: Scope, text: str) -> Any:
    if len(text) > MAX_SIZE:
        raise ExpressionError(f"parse_json: the text has more than {MAX_SIZE} characters")
    try:
        return scope.budget.made(json_text.loads(text, unique=False))
    except ExpressionError:
        raise
    except ValueError as error:
        raise ExpressionError(f"parse_json: this is not JSON: {error}") from None


@_function("any", "text", "a value as JSON")
def _to_json(scope: Scope, value: Any) -> str:
    scope.budget.made(value)
    try:
        return scope.budget.made(to_json(value).decode())
    except ExpressionError:
        raise
    except (TypeError, ValueError, RecursionError):
        raise ExpressionError("to_json: there is something that is not JSON") from None


@_function("text text|null? text?", "number", "the time that a text names, in seconds since 1970")
def _parse_date(
    scope: Scope, text: str, format: str | None = None, zone: str = dates.UTC_NAME
) -> int | float:
    return dates.parse_date(text, format, zone)


@_function("number text|null? text?", "text", "a time as text, in UTC or in a zone")
def _format_date(scope: Scope, seconds: float, format: str | None = None, zone: str = dates.UTC_NAME) -> str:
    return dates.format_date(seconds, format, zone)


@_function("", "number", "the time at which the run began, however often it is resumed")
def _now(scope: Scope) -> float:
    return scope.now()
