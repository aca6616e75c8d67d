"""The words of an expression."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from spindle.flows.expressions.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Token:
    """One word or sign, and its place."""

    kind: str
    text: str
    column: int


_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![\w]))
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[^\W\d](?:[\w-]*\w)?)
    |(?P<quoted>`[^`]+`)
    |(?P<sign>==|!=|<=|>=|=>|\?\?|\$\{|[-<>()\[\]{}.,:+*/%])
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
    "?": "write if(condition, one, other), or ?? for a default",
    "|": "functions are called: lower(name)",
}


def tokens(text: str) -> list[Token]:
    """Returns the words of an expression. Raises ExpressionError."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        foreign = next((sign for sign in ("===", "!==") if text.startswith(sign, position)), None)
        match = None if foreign else _TOKEN.match(text, position)
        if match is None:
            raise _not_understood(text, position)
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, match[0], position + 1))
        position = match.end()
    return found


def _not_understood(text: str, position: int) -> ExpressionError:
    rest = text[position:]
    if rest[0] in "\"'`":
        return ExpressionError("a quote is not closed", position + 1)
    if rest[0].isdigit():
        return ExpressionError("a number is not followed by letters", position + 1,
                               "a name that begins with a digit is written in backticks")  # fmt: skip
    sign = next((known for known in _FOREIGN if rest.startswith(known)), rest[0])
    return ExpressionError(f"{sign!r} is not understood", position + 1, _FOREIGN.get(sign))


def number_of(token: Token) -> int | float:
    """Returns the number that a token is."""
    if token.text.isdecimal():
        return int(token.text)
    found = float(token.text)
    if not math.isfinite(found):
        raise ExpressionError("the number is too large", token.column)
    return found


def text_of(token: Token) -> str:
    """Returns the text that a token holds in quotes."""
    text = token.text
    if text[0] == "'":
        inner = re.sub(r"\\'|\"", lambda match: "'" if match[0] == "\\'" else '\\"', text[1:-1])
        text = f'"{inner}"'
    try:
        return json.loads(text, strict=False)
    except ValueError:
        raise ExpressionError("the text in quotes is not valid JSON", token.column) from None
