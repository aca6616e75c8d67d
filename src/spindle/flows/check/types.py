"""The types that an expression can have, and what is certainly wrong with the types in it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from spindle.domain.json_schema import JsonObject, is_object, type_of, types_of
from spindle.flows.check.lookups import Complaint, Sight, Types, article, null_if_failed
from spindle.flows.check.shapes import MAY_HAVE_FAILED, within
from spindle.flows.expressions.functions import Function
from spindle.flows.expressions.parsing import Expression
from spindle.flows.expressions.paths import written_path
from spindle.flows.expressions.terms import (
    Calculated,
    Called,
    Compared,
    Constant,
    Default,
    Each,
    Inside,
    Item,
    ListOf,
    Logical,
    Minus,
    Name,
    Negated,
    ObjectOf,
    OneOfTwo,
    PartOf,
    Term,
)

UNKNOWN: Final[Types] = frozenset()
_NUMBER: Final[Types] = frozenset({"number"})
_BOOLEAN: Final[Types] = frozenset({"boolean"})
_NEEDS_ALL: Final = frozenset({"join", "max", "min", "sort", "sum"})
"""The functions for which a null among the items is an error."""
_OF_KIND: Final = {
    "null": "null", "boolean": "boolean", "number": "number", "text": "string", "list": "array",
    "object": "object",
}  # fmt: skip


def expression_types(expression: Expression, sight: Sight) -> tuple[list[Complaint], Types]:
    """Returns the complaints about an expression, its names included, and the types of its value."""
    complaints: list[Complaint] = []
    shown = f"${{{expression.text.strip()}}}" if len(expression.reads) == 1 else None
    for read in expression.reads:
        complaints += sight.look(read, shown)
    if complaints:  # what is wrong with a name is enough to know
        return complaints, UNKNOWN
    typing = _Typing(sight, f"${{{expression.text.strip()}}}")
    types = typing.types(expression.term)
    return typing.complaints, types


def condition_types(condition: Expression, sight: Sight) -> list[Complaint]:
    """Returns the complaints about a condition, its names included."""
    complaints = [
        complaint for read in condition.reads for complaint in sight.look(read, written_path(read.path))
    ]
    typing = _Typing(sight, condition.text.strip())
    if not complaints:
        typing.types(condition.term)
    return complaints or typing.complaints


class _Typing:
    def __init__(self, sight: Sight, shown: str) -> None:
        self.complaints: list[Complaint] = []
        self._sight = sight
        self._shown = shown
        self._items: dict[str, JsonObject] = {}
        self._is_guarded = False

    def types(self, term: Term) -> Types:
        match term:
            case Constant(given):
                return frozenset({type_of(given)})
            case Name(path):
                return self._sight.look_at(path, "", True)[1]
            case Item():
                schema = self._schema(term)
                return UNKNOWN if schema is None else types_of(schema, schema)
            case Inside(whole, _):
                self.types(whole)
                return UNKNOWN
            case ListOf(items):
                self._all(items)
                return frozenset({"array"})
            case ObjectOf(pairs):
                self._all(item for _, item in pairs)
                return frozenset({"object"})
            case Negated(inner):
                self.types(inner)
                return _BOOLEAN
            case Logical(terms, _):
                self.types(terms[0])
                with self._guarded():
                    self._all(terms[1:])
                return _BOOLEAN
            case Compared():
                return self._compared(term)
            case Minus(inner):
                return self._calculated("-", _NUMBER, self.types(inner))
            case Calculated(first, rest):
                found = self.types(first)
                for sign, part in rest:
                    found = self._calculated(sign, found, self.types(part))
                return found
            case Default(terms):
                return self._default(terms)
            case OneOfTwo(condition, one, other):
                self.types(condition)
                with self._guarded():
                    return _either(self.types(one), self.types(other))
            case Called(function, arguments):
                return self._called(function, arguments)
            case Each():
                return self._each(term)
            case PartOf(whole, key):
                self._all((whole, key))
                return UNKNOWN
            case _:
                return UNKNOWN

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Marks terms that are evaluated only if something else is true, or that may be missing."""
        before, self._is_guarded = self._is_guarded, True
        yield
        self._is_guarded = before

    def _all(self, terms: Iterable[Term]) -> None:
        for term in terms:
            self.types(term)

    def _complain(self, message: str, severity: str = "error") -> None:
        is_error = severity == "error"
        self.complaints.append(Complaint("error" if is_error else "warning", f"{self._shown}: {message}"))

    # --- names

    def _schema(self, term: Term) -> JsonObject | None:
        """Returns the one schema that a place has, or None."""
        match term:
            case Name(path):
                found = self._sight.parts(path)
            case Item(path):
                schema = self._items.get(str(path[0]))
                found = [] if schema is None else self._below(schema, path)
            case _:
                return None
        return found[0] if len(found) == 1 else None

    def _below(self, schema: JsonObject, path: tuple[str | int, ...]) -> list[JsonObject]:
        part, complaint = self._sight.part(schema, path, 1, self._shown)
        if complaint is None and MAY_HAVE_FAILED in schema and len(path) > 1 and not self._is_guarded:
            complaint = null_if_failed(f"{self._shown}: {path[0]}")
        if complaint is not None:
            self.complaints.append(complaint)
        return [part] if part is not None else []

    # --- signs

    def _compared(self, term: Compared) -> Types:
        left, right = self.types(term.left), self.types(term.right)
        if not left or not right or term.sign in ("in", "not in"):
            return _BOOLEAN
        one, other = _plain(left), _plain(right)
        if term.sign in ("==", "!="):
            if not one & other:
                is_so = "never" if term.sign == "==" else "always"
                self._complain(f"{article(left)} {term.sign} {article(right)} is {is_so} true", "warning")
        elif not one & other & {"number", "string"}:
            self._complain(f"{article(left)} and {article(right)} have no order")
        return _BOOLEAN

    def _calculated(self, sign: str, left: Types, right: Types) -> Types:
        if not left or not right:
            return UNKNOWN if sign == "+" else _NUMBER
        joinable = {"number", "string", "array"} if sign == "+" else {"number"}
        found = _plain(left) & _plain(right) & joinable
        if not found:
            self._complain(f"{article(left)} {sign} {article(right)} cannot be calculated")
        whole = frozenset({"integer"})
        return whole if left == right == whole and sign != "/" else found

    def _default(self, terms: tuple[Term, ...]) -> Types:
        with self._guarded():
            found = [self.types(term) for term in terms]
        if not all(found):
            return UNKNOWN
        early = frozenset[str]().union(*found[:-1]) - {"null"}
        return early | found[-1]

    # --- calls

    def _called(self, function: Function, arguments: tuple[Term, ...]) -> Types:
        given = [self.types(argument) for argument in arguments]
        for index, types in enumerate(given):
            self._check_argument(function, index, types)
        schema = self._schema(arguments[0]) if arguments and function.name in _NEEDS_ALL else None
        items = schema.get("items") if schema is not None else None
        if is_object(items) and MAY_HAVE_FAILED in items:
            self.complaints.append(null_if_failed(f"{self._shown}: an item"))
        return self._gives(function, len(arguments))

    def _each(self, term: Each) -> Types:
        self._check_argument(term.function, 0, self.types(term.items))
        schema = self._schema(term.items)
        items = schema.get("items") if schema is not None else None
        outside = dict(self._items)
        self._items.pop(term.name, None)
        if schema is not None and is_object(items):
            self._items[term.name] = within(schema, items)
        self.types(term.body)
        self._items = outside
        return self._gives(term.function, 2)

    def _check_argument(self, function: Function, index: int, types: Types) -> None:
        kinds = function.takes[index].removesuffix("?").split("|")
        if not types or "any" in kinds or kinds == ["each"]:
            return
        wanted = frozenset(_OF_KIND[kind] for kind in kinds)
        accepted = wanted | {"null"} if index == 0 else wanted
        if not _plain(types, nulls=True) & accepted:
            self._complain(f"{function.name} needs {article(wanted - {'null'})}, not {article(types)}")

    def _gives(self, function: Function, count: int) -> Types:
        if function.gives == "items":
            return frozenset({"array"})
        kind = _OF_KIND.get(function.gives)
        if kind is None:
            return UNKNOWN
        # One whose first argument may be null may give null.
        first = function.takes[0].split("|") if function.takes else ["any"]
        is_certain = bool({"any", "list", "null"} & set(first)) or not function.takes
        return frozenset({kind}) if is_certain or count == 0 else frozenset({kind, "null"})


def _plain(types: Types, *, nulls: bool = False) -> frozenset[str]:
    """Returns types with whole numbers among the numbers."""
    found = {"number" if name == "integer" else name for name in types}
    return frozenset(found if nulls else found - {"null"} or found)


def _either(one: Types, other: Types) -> Types:
    return one | other if one and other else UNKNOWN
