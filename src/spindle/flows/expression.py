"""Conditions over a node's output: `fail_when`, for services that report failures inside a success.

    ok == false                              a key of the output; true, false and null as in JSON
    status != "ok" and not retry             what is not there is null
    error                                    true unless null, false, 0 or empty
    items[0].code >= 400                     also errors[-1], headers["x-state"]
    len(items) == 0  lower(state) == "bad"   these two functions
    "denied" in message or code in [3, 4]    text in text, an item in a list, a key in an object
    value == "failed"                        the whole output, which may be plain text

Values that cannot be compared are neither less nor more than each other: no output makes it an error.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import did_you_mean
from spindle.flows.templates import MISSING, descend

MAX_LENGTH: Final = 2000
MAX_DEPTH: Final = 50
WHOLE: Final = "value"

Scope = Callable[[str], Any]
Term = Callable[[Scope], Any]


class ExpressionError(ValueError):
    """An expression that cannot be read. `column` counts from 1."""

    def __init__(self, problem: str, column: int, hint: str | None = None) -> None:
        super().__init__(f"{problem} (at column {column})")
        self.problem = problem
        self.column = column
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition that was parsed."""

    text: str
    names: Mapping[str, int]
    """The keys that it refers to, with the column of the first reference."""
    _term: Term = field(repr=False)

    def holds(self, output: Any, names: JsonObject | None = None) -> bool:
        """True if the condition is true for an output. `names` are known besides the output's own keys."""

        def scope(name: str) -> Any:
            if is_object(output) and name in output:
                return output[name]
            if names is not None and name in names:
                return names[name]
            return output if name == WHOLE else None

        return bool(self._term(scope))


def parse(text: str) -> Expression:
    """Parses a condition. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH + 1)
    parser = _Parser(_tokens(text), len(text))
    return Expression(text, parser.names, parser.whole())


# --- words


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|\.|,)
    """,
    re.VERBOSE | re.DOTALL,
)
_FOREIGN = {
    "===": "write ==",
    "!==": "write !=",
    "&&": "write `and`",
    "||": "write `or`",
    "=~": "there are no patterns; `in` finds text in text",
    "=": "write == to compare",
    "!": "write `not`",
    "${": "keys of the output are written without ${…}",
    "-": 'a key with a dash is written value["the-key"]',
}


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        foreign = next((sign for sign in ("===", "!==") if text.startswith(sign, position)), None)
        match = None if foreign else _TOKEN.match(text, position)
        if match is None:
            raise _not_understood(text, position)
        kind = str(match.lastgroup)
        if kind == "number" and found and match[0].startswith("-") and found[-1].kind in ("name", "number"):
            raise ExpressionError("there is no arithmetic", position + 1, _FOREIGN["-"])
        if kind != "space":
            found.append(_Token(kind, match[0], position + 1))
        position = match.end()
    return found


def _not_understood(text: str, position: int) -> ExpressionError:
    rest = text[position:]
    if rest[0] in "\"'":
        return ExpressionError("a quote is not closed", position + 1)
    sign = next((known for known in _FOREIGN if rest.startswith(known)), rest[0])
    return ExpressionError(f"{sign!r} is not understood", position + 1, _FOREIGN.get(sign))


# --- grammar


_CONSTANTS: Mapping[str, Any] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_RESERVED = ("and", "or", "not", "in")


class _Parser:
    def __init__(self, tokens: list[_Token], length: int) -> None:
        self.names: dict[str, int] = {}
        self._tokens = tokens
        self._end = length + 1
        self._next = 0
        self._depth = 0

    def whole(self) -> Term:
        if not self._tokens:
            raise ExpressionError("there is no condition", 1)
        term = self._either()
        if (rest := self._peek()) is not None:
            raise ExpressionError(
                f"{rest.text!r} is not expected here", rest.column, "join conditions with `and` or `or`"
            )
        return term

    def _either(self) -> Term:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deeply", self._column())
        terms = [self._all()]
        while self._take("or"):
            terms.append(self._all())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else lambda scope: any(term(scope) for term in terms)

    def _all(self) -> Term:
        terms = [self._negated()]
        while self._take("and"):
            terms.append(self._negated())
        return terms[0] if len(terms) == 1 else lambda scope: all(term(scope) for term in terms)

    def _negated(self) -> Term:
        negations = 0
        while self._take("not"):
            negations += 1
        term = self._comparison()
        if not negations:
            return term
        return lambda scope: bool(term(scope)) == (negations % 2 == 0)

    def _comparison(self) -> Term:
        left = self._operand()
        token = self._peek()
        if token is None or (token.text not in _COMPARISONS and token.text not in ("in", "not")):
            return left
        negated = self._take("not")
        if negated and (following := self._peek()) is not None and following.text != "in":
            raise ExpressionError(f"{following.text!r} is not expected here", following.column)
        compare = _COMPARISONS.get(self._advance("`in`").text, _contains)
        right = self._operand()
        chained = self._peek()
        if chained is not None and chained.text in _COMPARISONS:
            raise ExpressionError(
                "one comparison at a time", chained.column, "join comparisons with `and` or `or`"
            )
        return lambda scope: compare(left(scope), right(scope)) != negated

    def _operand(self) -> Term:
        token = self._advance("a key or a value")
        match token.kind, token.text:
            case "number", text:
                return _constant(_number(text))
            case "string", text:
                return self._steps(_constant(_string(token)))
            case "sign", "(":
                term = self._either()
                self._expect(")", token)
                return self._steps(term)
            case "sign", "[":
                return self._list(token)
            case "name", name if name in _CONSTANTS:
                return _constant(_CONSTANTS[name])
            case "name", name if name not in _RESERVED:
                return self._call(token) if self._take("(") else self._steps(self._name(token))
            case _:
                raise ExpressionError(f"{token.text!r} is not expected here", token.column)

    def _name(self, token: _Token) -> Term:
        name = token.text
        self.names.setdefault(name, token.column)
        return lambda scope: scope(name)

    def _call(self, token: _Token) -> Term:
        function = _FUNCTIONS.get(token.text)
        if function is None:
            raise ExpressionError(
                f"there is no function {token.text!r}",
                token.column,
                did_you_mean(token.text, _FUNCTIONS, "there are " + " and ".join(_FUNCTIONS)),
            )
        argument = self._either()
        self._expect(")", token)
        return lambda scope: function(argument(scope))

    def _list(self, opening: _Token) -> Term:
        items: list[Term] = []
        while not self._take("]"):
            if items:
                self._expect(",", opening)
            items.append(self._either())
        return lambda scope: [item(scope) for item in items]

    def _steps(self, term: Term) -> Term:
        path: list[str | int] = []
        while True:
            if self._take("."):
                token = self._advance("a name")
                if token.kind != "name":
                    raise ExpressionError("a name is missing after the dot", token.column)
                path.append(token.text)
            elif (opening := self._peek()) is not None and opening.text == "[":
                self._next += 1
                token = self._advance("a number or a quoted name")
                step = _string(token) if token.kind == "string" else _number(token.text)
                if token.kind not in ("string", "number") or isinstance(step, float):
                    raise ExpressionError("brackets hold a number or a quoted name", token.column)
                path.append(step)
                self._expect("]", opening)
            elif path:
                steps = tuple(path)
                return lambda scope: None if (found := descend(term(scope), steps)) is MISSING else found
            else:
                return term

    # --- tokens

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _column(self) -> int:
        token = self._peek()
        return token.column if token is not None else self._end

    def _advance(self, wanted: str) -> _Token:
        token = self._peek()
        if token is None:
            raise ExpressionError(f"{wanted} is missing", self._end)
        self._next += 1
        return token

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text or token.kind == "string":
            return False
        self._next += 1
        return True

    def _expect(self, text: str, opening: _Token) -> None:
        if not self._take(text):
            raise ExpressionError(f"{text!r} is missing for {opening.text!r}", self._column())


# --- values


def _constant(value: Any) -> Term:
    return lambda scope: value


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:  # not a number at all; whoever asked looks at the token
        return 0.5


def _string(token: _Token) -> str:
    text = token.text
    if text[0] == "'":
        inner = re.sub(r"\\'|\"", lambda match: "'" if match[0] == "\\'" else '\\"', text[1:-1])
        text = f'"{inner}"'
    try:
        return json.loads(text, strict=False)
    except ValueError:
        raise ExpressionError("the text in quotes is not valid JSON", token.column) from None


def _equal(left: Any, right: Any) -> bool:
    """True if both are equal as JSON: true is not 1, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(_equal, left, right))
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return left == right


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
        if numbers or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        return False

    return compared


def _contains(needle: Any, haystack: Any) -> bool:
    if isinstance(haystack, str):
        return isinstance(needle, str) and needle in haystack
    if is_array(haystack):
        return any(_equal(needle, item) for item in haystack)
    return is_object(haystack) and isinstance(needle, str) and needle in haystack


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}

_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "len": lambda value: len(value) if isinstance(value, str) or is_array(value) or is_object(value) else 0,
    "lower": lambda value: value.lower() if isinstance(value, str) else value,
}
