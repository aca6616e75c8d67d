"""The parts of an expression. Each has the value that it has in a scope."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.flows.expressions.errors import ExpressionError, UnresolvedError
from spindle.flows.expressions.functions import Function
from spindle.flows.expressions.paths import MISSING, Path, descend
from spindle.flows.expressions.scope import Scope
from spindle.flows.expressions.values import can_be_ordered, contains, equal, kind_of, noun, number


class Term:
    """A part of an expression."""

    __slots__ = ()

    def value(self, scope: Scope) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """A value that is written there."""

    given: Any

    def value(self, scope: Scope) -> Any:
        return self.given


@dataclass(frozen=True, slots=True)
class Name(Term):
    """A place in the shared store."""

    path: Path

    def value(self, scope: Scope) -> Any:
        found = scope.lookup(self.path)
        return scope.missing(self.path) if found is MISSING else found


@dataclass(frozen=True, slots=True)
class Item(Term):
    """A place in the item of a list that is gone through."""

    path: Path

    def value(self, scope: Scope) -> Any:
        found = descend(scope.names[str(self.path[0])], self.path[1:])
        return scope.missing(self.path) if found is MISSING else found


@dataclass(frozen=True, slots=True)
class Inside(Term):
    """A place in a value."""

    whole: Term
    path: Path

    def value(self, scope: Scope) -> Any:
        found = descend(self.whole.value(scope), self.path)
        return scope.missing(("…", *self.path)) if found is MISSING else found


@dataclass(frozen=True, slots=True)
class PartOf(Term):
    """A key or an item of a value, by a term."""

    whole: Term
    key: Term

    def value(self, scope: Scope) -> Any:
        whole, key = self.whole.value(scope), self.key.value(scope)
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise ExpressionError(f"brackets hold a number or a name, not {noun(key)}")
        found = descend(whole, (key,))
        return scope.missing(("…", key)) if found is MISSING else found


@dataclass(frozen=True, slots=True)
class ListOf(Term):
    """A list of terms."""

    items: tuple[Term, ...]

    def value(self, scope: Scope) -> Any:
        return scope.budget.made([item.value(scope) for item in self.items])


@dataclass(frozen=True, slots=True)
class ObjectOf(Term):
    """An object of terms by key."""

    pairs: tuple[tuple[str, Term], ...]

    def value(self, scope: Scope) -> Any:
        return scope.budget.made({key: item.value(scope) for key, item in self.pairs})


@dataclass(frozen=True, slots=True)
class Negated(Term):
    """`not`."""

    term: Term

    def value(self, scope: Scope) -> bool:
        return not self.term.value(scope)


@dataclass(frozen=True, slots=True)
class Logical(Term):
    """`and` of all terms, or `or`."""

    terms: tuple[Term, ...]
    is_and: bool

    def value(self, scope: Scope) -> bool:
        if self.is_and:
            return all(term.value(scope) for term in self.terms)
        return any(term.value(scope) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Compared(Term):
    """A comparison of two terms."""

    left: Term
    sign: str
    right: Term

    def value(self, scope: Scope) -> bool:
        left, right = self.left.value(scope), self.right.value(scope)
        match self.sign:
            case "==":
                return equal(left, right, scope.budget)
            case "!=":
                return not equal(left, right, scope.budget)
            case "in":
                return contains(left, right, scope.budget)
            case "not in":
                return not contains(left, right, scope.budget)
            case sign:
                if can_be_ordered(left, right):
                    return ORDERS[sign](left, right)
                if scope.is_strict:
                    raise ExpressionError(
                        f"{noun(left)} {sign} {noun(right)}: only numbers and texts have an order",
                        hint="number(…) reads a number, and ?? gives a default for null",
                    )
                return False


ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Minus(Term):
    """A number with the other sign."""

    term: Term

    def value(self, scope: Scope) -> Any:
        return _calculated("-", 0, self.term.value(scope), scope)


@dataclass(frozen=True, slots=True)
class Calculated(Term):
    """Arithmetic from left to right."""

    first: Term
    rest: tuple[tuple[str, Term], ...]

    def value(self, scope: Scope) -> Any:
        found = self.first.value(scope)
        for sign, term in self.rest:
            found = _calculated(sign, found, term.value(scope), scope)
        return found


def _calculated(sign: str, left: Any, right: Any, scope: Scope) -> Any:
    kind, other = kind_of(left), kind_of(right)
    if sign == "+" and kind == other and kind in ("text", "list"):
        return scope.budget.made(left + right)
    if kind != "number" or other != "number":
        hint = "`?? 0` gives a default for null" if "null" in (kind, other) else None
        if "text" in (kind, other):
            hint = "number(…) reads a number, and text(…) makes text"
        raise ExpressionError(f"{noun(left)} {sign} {noun(right)} cannot be calculated", hint=hint)
    try:
        match sign:
            case "+":
                return number(left + right)
            case "-":
                return number(left - right)
            case "*":
                return number(left * right)
            case "%":
                return number(left % right)
            case _:
                is_whole = isinstance(left, int) and isinstance(right, int) and left % right == 0
                return number(left // right if is_whole else left / right)
    except ZeroDivisionError:
        raise ExpressionError("a division by zero") from None
    except OverflowError:
        raise ExpressionError("the number is too large") from None


@dataclass(frozen=True, slots=True)
class Default(Term):
    """The first of the terms that is there and is not null; or else the last."""

    terms: tuple[Term, ...]

    def value(self, scope: Scope) -> Any:
        for term in self.terms[:-1]:
            try:
                found = term.value(scope)
            except UnresolvedError:
                continue
            if found is not None:
                return found
        return self.terms[-1].value(scope)


@dataclass(frozen=True, slots=True)
class OneOfTwo(Term):
    """`if(condition, one, other)`."""

    condition: Term
    one: Term
    other: Term

    def value(self, scope: Scope) -> Any:
        return (self.one if self.condition.value(scope) else self.other).value(scope)


@dataclass(frozen=True, slots=True)
class Called(Term):
    """A call of a function."""

    function: Function
    arguments: tuple[Term, ...]

    def value(self, scope: Scope) -> Any:
        return self.function.call(scope, [argument.value(scope) for argument in self.arguments])


@dataclass(frozen=True, slots=True)
class Each(Term):
    """A function that goes through a list, with a term for each item."""

    function: Function
    items: Term
    name: str
    body: Term
    weight: int
    """The length of the body, which stands for the work of one item."""

    def value(self, scope: Scope) -> Any:
        items = self.function.list_of(self.items.value(scope))
        scope.budget.spend(len(items) * self.weight)
        outside = scope.names.get(self.name, MISSING)
        found: list[Any] = []
        try:
            for item in items:
                scope.names[self.name] = item
                found.append(self.body.value(scope))
        finally:
            if outside is MISSING:
                scope.names.pop(self.name, None)
            else:
                scope.names[self.name] = outside
        return self.function.gather(items, found, scope)
