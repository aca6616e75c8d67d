"""JSON values as expressions see them: their kinds, when they are equal, their order, their size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object
from spindle.flows.expressions.errors import ExpressionError

MAX_STEPS: Final = 1_000_000
"""Parts of expressions that one evaluation may look at."""
MAX_SIZE: Final = 4 * 1024 * 1024
"""Characters and items that one evaluation may make."""
MAX_VALUE_DEPTH: Final = 100
"""Levels of a value that an expression makes."""
MAX_NUMBER: Final = 2**63
"""Whole numbers stay below it, so that every reader of JSON has them exactly as they are."""

NOUNS: Final[Mapping[str, str]] = {
    "null": "null",
    "boolean": "true or false",
    "number": "a number",
    "text": "text",
    "list": "a list",
    "object": "an object",
}


def kind_of(value: Any) -> str:
    """Returns the kind of a value, one of NOUNS. Raises ExpressionError if it is no JSON value."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if value is None:
        return "null"
    if is_array(value):
        return "list"
    if is_object(value):
        return "object"
    raise ExpressionError(f"a {type(value).__name__} is not a JSON value, which an expression needs")


def noun(value: Any) -> str:
    """Returns the kind of a value as messages call it."""
    return NOUNS[kind_of(value)]


class WorkBudget:
    """The work that one evaluation may still do, and what it may still make."""

    __slots__ = ("room", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.room = MAX_SIZE

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise ExpressionError("it takes too many steps", hint="a tool or a node in Python can do more")

    def hold(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise ExpressionError(
                f"it makes more than {MAX_SIZE} characters and items",
                hint="a tool or a node in Python can do more",
            )

    def made(self, value: Any) -> Any:
        """Returns a value that an expression has made, if there is room for all that it holds: the same part
        counts as often as it is there. Raises ExpressionError."""
        level: list[Any] = [value]
        for _ in range(MAX_VALUE_DEPTH):
            below: list[Any] = []
            for item in level:
                if isinstance(item, str):
                    self.hold(len(item))
                elif is_array(item):
                    self.hold(len(item))
                    below += item
                elif is_object(item):
                    self.hold(len(item) + sum(map(len, item)))
                    below += item.values()
            if not below:
                return value
            self.spend(len(below))
            level = below
        raise ExpressionError(f"it makes a value of more than {MAX_VALUE_DEPTH} levels")


def number(value: float) -> int | float:
    """Returns the result of arithmetic. Raises ExpressionError if it is no JSON number."""
    if isinstance(value, int):
        if not -MAX_NUMBER < value < MAX_NUMBER:
            raise ExpressionError("the number is too large")
    elif not math.isfinite(value):
        raise ExpressionError("the number is too large")
    return value


def equal(left: Any, right: Any, budget: WorkBudget) -> bool:
    """True if both are equal as JSON: true is not 1, at any depth."""
    waiting = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        kind = kind_of(one)
        if kind != kind_of(other):
            return False
        if kind == "list":
            if len(one) != len(other):
                return False
            budget.spend(len(one))
            waiting += zip(one, other, strict=True)
        elif kind == "object":
            if one.keys() != other.keys():
                return False
            budget.spend(len(one))
            waiting += [(item, other[key]) for key, item in one.items()]
        elif one != other:
            return False
    return True


def contains(needle: Any, haystack: Any, budget: WorkBudget) -> bool:
    """True for a text in a text, an item in a list, a key in an object."""
    kind = kind_of(haystack)
    if kind == "text":
        return isinstance(needle, str) and needle in haystack
    if kind == "list":
        budget.spend(len(haystack))
        return any(equal(needle, item, budget) for item in haystack)
    return kind == "object" and isinstance(needle, str) and needle in haystack


def can_be_ordered(left: Any, right: Any) -> bool:
    """True for two numbers and for two texts."""
    kind = kind_of(left)
    return kind in ("number", "text") and kind == kind_of(right)
