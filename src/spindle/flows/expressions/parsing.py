"""Reads an expression. The grammar, from the loosest to the tightest:

or · and · not · == != < <= > >= in · + - · * / % · - · ?? · a.b a["b"] a[0] f(…) (…) […] {…}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from spindle.domain.json_schema import is_object
from spindle.errors import did_you_mean
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.functions import FUNCTIONS, Function
from spindle.flows.expressions.paths import MISSING, Lookup, Path, Step, descend
from spindle.flows.expressions.scope import Scope
from spindle.flows.expressions.terms import (
    ORDERS,
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
from spindle.flows.expressions.tokens import Token, number_of, text_of, tokens
from spindle.flows.expressions.values import kind_of

MAX_LENGTH: Final = 4000
MAX_DEPTH: Final = 25
WHOLE: Final = "value"
ITEM: Final = "item"

began: ContextVar[float | None] = ContextVar("spindle_run_began", default=None)
"""The time at which the run began that this is a part of, as it was recorded."""


def _now() -> float:
    found = began.get()
    return time.time() if found is None else found


def _nothing(_path: Path) -> Any:
    return MISSING


@dataclass(frozen=True, slots=True)
class Read:
    """A place of the shared store that an expression reads."""

    path: Path
    offset: int
    """The place of its name in the text."""
    has_default: bool = False
    """True if it may be missing."""
    is_default: bool = False
    """True if it stands for another that is missing, where text would be in quotes."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was parsed."""

    text: str
    term: Term = field(repr=False)
    reads: tuple[Read, ...] = ()
    uses_now: bool = False

    def value(self, lookup: Lookup) -> Any:
        """Returns its value. Raises ExpressionError; UnresolvedError where a name has no value."""
        return self._value(Scope(lookup, _now, is_strict=True))

    def holds(self, output: Any, besides: Lookup = _nothing) -> bool:
        """True if the condition is true for an output, of whose keys it speaks: what is not there is null,
        and values without an order are neither less nor more than each other. `besides` finds what is no key
        of it. Raises ExpressionError."""

        def lookup(path: Path) -> Any:
            name = path[0]
            if is_object(output) and name in output:
                return descend(output, path)
            return descend(output, path[1:]) if name == WHOLE else besides(path)

        return bool(self._value(Scope(lookup, _now, is_strict=False)))

    def _value(self, scope: Scope) -> Any:
        try:
            return self.term.value(scope)
        except RecursionError:  # not by its own depth, but by that of the program around it
            raise ExpressionError("nested too deeply") from None


@lru_cache(maxsize=2048)
def parse(text: str) -> Expression:
    """Parses an expression. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH + 1)
    parser = _Parser(tokens(text), len(text))
    try:
        term = parser.whole()
    except RecursionError:
        raise ExpressionError("nested too deeply") from None
    return Expression(text, term, tuple(parser.reads), parser.uses_now)


# --- grammar


CONSTANTS: Mapping[str, Any] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_RESERVED = ("and", "or", "not", "in")
_COMPARISONS = frozenset({"==", "!=", *ORDERS})


class _Parser:
    def __init__(self, tokens: list[Token], length: int) -> None:
        self.reads: list[Read] = []
        self.uses_now = False
        self._tokens = tokens
        self._end = length + 1
        self._next = 0
        self._depth = 0
        self._items: list[str] = []
        """The names of the items that are gone through here."""

    def whole(self) -> Term:
        if not self._tokens:
            raise ExpressionError("an expression is missing", 1)
        term = self._either()
        if (rest := self._peek()) is not None:
            hint = "join conditions with `and` or `or`"
            if rest.kind == "name" and rest.text not in _RESERVED:
                hint = "text stands in quotes; conditions are joined with `and` or `or`"
            raise ExpressionError(f"{rest.text!r} is not expected here", rest.column, hint)
        return term

    def _either(self) -> Term:
        self._deeper()
        term = self._joined("or", lambda: self._joined("and", self._negated))
        self._depth -= 1
        return term

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deeply", self._column())

    def _joined(self, word: str, part: Callable[[], Term]) -> Term:
        terms = [part()]
        while self._take(word):
            terms.append(part())
        return terms[0] if len(terms) == 1 else Logical(tuple(terms), word == "and")

    def _negated(self) -> Term:
        negations = 0
        while self._take("not"):
            negations += 1
        term = self._comparison()
        if not negations:
            return term
        return Negated(term) if negations % 2 else Negated(Negated(term))

    def _comparison(self) -> Term:
        left = self._sum()
        token = self._peek()
        if token is None or (token.text not in _COMPARISONS and token.text not in ("in", "not")):
            return left
        negated = self._take("not")
        if negated and (following := self._peek()) is not None and following.text != "in":
            raise ExpressionError(f"{following.text!r} is not expected here", following.column)
        sign = self._advance("`in`").text
        right = self._sum()
        chained = self._peek()
        if chained is not None and (chained.text in _COMPARISONS or chained.text == "in"):
            raise ExpressionError(
                "one comparison at a time", chained.column, "join comparisons with `and` or `or`"
            )
        return Compared(left, f"not {sign}" if negated else sign, right)

    def _sum(self) -> Term:
        return self._calculated(("+", "-"), lambda: self._calculated(("*", "/", "%"), self._signed))

    def _calculated(self, signs: tuple[str, ...], part: Callable[[], Term]) -> Term:
        first = part()
        rest: list[tuple[str, Term]] = []
        while (sign := next((sign for sign in signs if self._take(sign)), None)) is not None:
            rest.append((sign, part()))
        return Calculated(first, tuple(rest)) if rest else first

    def _signed(self) -> Term:
        is_negative = False
        while self._take("-"):
            is_negative = not is_negative
        if not is_negative:
            return self._defaulted()
        term = self._defaulted()
        if isinstance(term, Constant) and kind_of(term.given) == "number":
            return Constant(-term.given)
        return Minus(term)

    def _defaulted(self) -> Term:
        before = len(self.reads)
        terms = [self._operand()]
        while self._take("??"):
            self.reads[before:] = [replace(read, has_default=True) for read in self.reads[before:]]
            before = len(self.reads)
            is_negative = self._take("-")
            operand = self._operand()
            self.reads[before:] = [replace(read, is_default=True) for read in self.reads[before:]]
            terms.append(Minus(operand) if is_negative else operand)
        return terms[0] if len(terms) == 1 else Default(tuple(terms))

    def _operand(self) -> Term:
        token = self._advance("a name or a value")
        match token.kind, token.text:
            case "number", _:
                return Constant(number_of(token))
            case "string", _:
                return self._steps(Constant(text_of(token)))
            case "sign", "(" | "${":
                term = self._either()
                self._expect(")" if token.text == "(" else "}", token)
                return self._steps(term)
            case "sign", "[":
                return self._steps(ListOf(tuple(self._listed("]", token, self._either))))
            case "sign", "{":
                return self._steps(ObjectOf(tuple(self._listed("}", token, self._pair))))
            case "quoted", text:
                return self._name(token, text[1:-1])
            case "name", name if self._is_next("("):
                return self._steps(self._call(token, name))
            case "name", name if name in CONSTANTS:
                return Constant(CONSTANTS[name])
            case "name", name if name not in _RESERVED:
                return self._name(token, name)
            case _:
                raise ExpressionError(f"{token.text!r} is not expected here", token.column)

    def _name(self, token: Token, name: str) -> Term:
        path: list[Step] = [name]
        while (step := self._plain_step()) is not None:
            path.append(step)
        if name in self._items:
            return self._steps(Item(tuple(path)))
        self.reads.append(Read(tuple(path), token.column - 1))
        return self._steps(Name(tuple(path)))

    def _pair(self) -> tuple[str, Term]:
        token = self._advance("a key")
        if token.kind not in ("name", "string"):
            raise ExpressionError("a key is a name or text in quotes", token.column)
        self._expect(":", token)
        return (token.text if token.kind == "name" else text_of(token)), self._either()

    def _listed(self, closing: str, opening: Token, part: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while not self._take(closing):
            if found:
                self._expect(",", opening)
            found.append(part())
        return found

    # --- calls

    def _call(self, token: Token, name: str) -> Term:
        self._next += 1
        function = FUNCTIONS.get(name)
        if function is None:
            known = f"there are {', '.join(FUNCTIONS)}"
            raise ExpressionError(
                f"there is no function {name!r}", token.column, did_you_mean(name, FUNCTIONS, known)
            )
        self.uses_now |= name == "now"
        arguments: list[Term] = []
        each: tuple[str, Term, int] | None = None
        while not self._take(")"):
            if arguments:
                self._expect(",", token)
            if len(arguments) == function.each:
                each = self._for_each()
                arguments.append(each[1])
            else:
                arguments.append(self._either())
        self._check_count(function, len(arguments), token)
        if name == "if":
            return OneOfTwo(*arguments)
        if each is not None:
            return Each(function, arguments[0], *each)
        return Called(function, tuple(arguments))

    def _check_count(self, function: Function, count: int, token: Token) -> None:
        if not function.at_least <= count <= len(function.takes):
            raise ExpressionError(
                f"{function.name} is given {count} arguments", token.column, f"write {function.signature}"
            )

    def _for_each(self) -> tuple[str, Term, int]:
        """Returns the name of an item, the term for it, and its length."""
        name, begin = ITEM, self._next
        token = self._peek()
        if token is not None and token.kind == "name" and self._is_next("=>", 1):
            name, self._next = token.text, self._next + 2
        self._items.append(name)
        body = self._either()
        self._items.pop()
        return name, body, self._next - begin

    # --- keys and items of a value

    def _plain_step(self) -> Step | None:
        """Returns a step that is known here, or None if what follows is none."""
        if self._take("."):
            token = self._advance("a name")
            if token.kind != "name" and not token.text.isdecimal():
                raise ExpressionError("a name is missing after the dot", token.column)
            return token.text
        following = self._tokens[self._next : self._next + 4]
        words = [token.text if token.kind == "sign" else token.kind for token in following]
        if words[:3] in (["[", "string", "]"], ["[", "number", "]"]):
            self._next += 3
        elif words == ["[", "-", "number", "]"]:
            self._next += 4
        else:
            return None
        token = following[-2] if len(words) == 4 and words[1] == "-" else following[1]
        if token.kind == "string":
            return text_of(token)
        step = number_of(token)
        if isinstance(step, float):
            raise ExpressionError("brackets hold a whole number or a name", token.column)
        return -step if words[1] == "-" else step

    def _steps(self, term: Term) -> Term:
        outside = self._depth
        while True:
            self._deeper()
            path: list[Step] = []
            while (step := self._plain_step()) is not None:
                path.append(step)
            if path:
                term = Inside(term, tuple(path))
            opening = self._peek()
            if opening is None or opening.text != "[":
                break
            self._next += 1
            term = PartOf(term, self._either())
            self._expect("]", opening)
        self._depth = outside
        return term

    # --- tokens

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _is_next(self, text: str, ahead: int = 0) -> bool:
        place = self._next + ahead
        return place < len(self._tokens) and self._tokens[place].text == text

    def _column(self) -> int:
        token = self._peek()
        return token.column if token is not None else self._end

    def _advance(self, wanted: str) -> Token:
        token = self._peek()
        if token is None:
            raise ExpressionError(f"{wanted} is missing", self._end)
        self._next += 1
        return token

    def _take(self, text: str) -> bool:
        if not self._is_next(text):
            return False
        self._next += 1
        return True

    def _expect(self, text: str, opening: Token) -> None:
        if not self._take(text):
            raise ExpressionError(f"{text!r} is missing for {opening.text!r}", self._column())
