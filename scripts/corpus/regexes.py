"""Texts that a regular expression matches, made from its parts."""

from __future__ import annotations

import random
import re
import string
import warnings
from re import _constants as ops  # pyright: ignore[reportAttributeAccessIssue] - there is no public way
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

_ANY = string.ascii_letters + string.digits
_CLASSES = {
    ops.CATEGORY_DIGIT: string.digits,
    ops.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
    ops.CATEGORY_SPACE: " ",
    ops.CATEGORY_NOT_DIGIT: string.ascii_letters,
    ops.CATEGORY_NOT_WORD: "-.!",
    ops.CATEGORY_NOT_SPACE: _ANY,
}
_PRINTABLE = [chr(code) for code in range(32, 127)] + ["é", "漢"]


def text_for(pattern: str, source: random.Random, low: int, high: int) -> str:
    """Returns a text that the pattern matches somewhere, of a length between the two if that is found soon.
    Raises re.error for what Python cannot read."""
    written = _as_python(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = parser.parse(written)
    made = ""
    for attempt in range(50):
        made = _joined(tree, source, {}, 3 if attempt < 20 else 40)
        if low <= len(made) <= high:
            return made
        if len(made) < low and "$" not in pattern:
            return made + "".join(source.choice(_ANY) for _ in range(low - len(made)))
    return made


def _as_python(pattern: str) -> str:
    """A pattern with what JavaScript writes otherwise: categories of Unicode, and names of groups."""
    found: list[str] = []
    inside = False
    for sign in _TOKEN.findall(pattern):
        category = re.fullmatch(r"\\([pP])\{[^}]*\}", sign)
        if category and category[1] == "p":
            found.append("A-Za-z" if inside else "[A-Za-z]")
        elif category:
            found.append("-" if inside else "[^A-Za-z]")
        else:
            found.append("(?P<" if sign == "(?<" else sign)
            inside = sign == "[" or (inside and sign != "]")
    return "".join(found)


_TOKEN = re.compile(r"\\[pP]\{[^}]*\}|\\.|\(\?<(?![=!])|.", re.DOTALL)


def _joined(tree: Any, source: random.Random, groups: dict[int, str], most: int) -> str:
    return "".join(_one(op, value, source, groups, most) for op, value in tree)


def _one(op: Any, value: Any, source: random.Random, groups: dict[int, str], most: int) -> str:
    if op is ops.LITERAL:
        return chr(value)
    if op is ops.NOT_LITERAL:
        return source.choice([sign for sign in _ANY if ord(sign) != value])
    if op is ops.ANY:
        return source.choice(_ANY)
    if op is ops.IN:
        return source.choice(_members(value))
    if op is ops.BRANCH:
        return _joined(source.choice(value[1]), source, groups, most)
    if op is ops.SUBPATTERN:
        groups[value[0]] = made = _joined(value[-1], source, groups, most)
        return made
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        low, high, inner = value
        count = source.randint(low, max(low, min(int(high), low + most)))
        return "".join(_joined(inner, source, groups, most) for _ in range(count))
    if op is ops.GROUPREF:
        return groups.get(value, "")
    if op is ops.ATOMIC_GROUP:
        return _joined(value, source, groups, most)
    return (
        ""  # a look around, or the beginning or end: decides nothing here, and the text is checked afterwards
    )


def _members(items: Any) -> list[str]:
    negated = bool(items) and items[0][0] is ops.NEGATE
    found: set[str] = set()
    for op, value in items:
        if op is ops.LITERAL:
            found.add(chr(value))
        elif op is ops.RANGE:
            found |= {chr(code) for code in range(value[0], min(value[1], value[0] + 500) + 1)}
        elif op is ops.CATEGORY:
            found |= set(_CLASSES.get(value, _ANY))
    members = [sign for sign in _PRINTABLE if sign not in found] if negated else sorted(found)
    shown = [sign for sign in members if sign.isprintable()]
    return shown or members or ["a"]
