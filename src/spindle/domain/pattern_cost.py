"""The size of regular expressions in schemas, counted before anything compiles them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

MAX_LENGTH: Final = 10_000
"""Characters of one expression. The longest in public descriptions of APIs, which list emoji, have half."""

_MAX_REPEAT: Final = 10**9
_DIGITS: Final = frozenset("0123456789")
_CLASS: Final = {"p": 2000, "P": 2000, "w": 10, "W": 10, "d": 5, "D": 5, "s": 2, "S": 2}
"""States of an automaton for one character out of such a class of Unicode, about."""

_BACKTRACKING: Final = ("(?=", "(?!", "(?<", "(?>", "\\k", *(f"\\{digit}" for digit in range(1, 10)))
"""Signs of look-around, references back and atomic groups, which no automaton can do."""


def backtracks(pattern: str) -> bool:
    """True for an expression that may have to be tried in several ways; all others take linear time."""
    return any(sign in pattern for sign in _BACKTRACKING)


@lru_cache(1024)
def states_of(pattern: str) -> int:
    """Returns about the number of states of the automaton: `a{1000}` has a thousand, in eight characters."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    at, end = 0, len(pattern)
    while at < end:
        sign = pattern[at]
        at += 1
        if sign == "\\":
            escaped = pattern[at : at + 1]
            at += 1
            sizes.append(_CLASS.get(escaped, 1))
            if escaped in ("p", "P") and pattern.startswith("{", at):
                at = pattern.find("}", at) + 1 or end
        elif sign == "[":
            at, size = _bracket(pattern, at)
            sizes.append(size)
        elif sign == "(":
            groups.append(sizes)
            sizes = []
        elif sign == ")" and groups:
            size = sum(sizes) + 1
            sizes = groups.pop()
            sizes.append(size)
        elif sign == "{":
            at, times = _repeat(pattern, at)
            if sizes:
                sizes[-1] = min(sizes[-1] * times, _MAX_REPEAT)
        elif sign not in "*+?":
            sizes.append(1)
    return min(sum(sizes) + sum(map(sum, groups)), _MAX_REPEAT)


def _bracket(pattern: str, at: int) -> tuple[int, int]:
    """Returns where a class in brackets ends, and its size."""
    size, depth = 1, 1
    while at < len(pattern) and depth:
        sign = pattern[at]
        at += 1
        if sign == "\\":
            size += _CLASS.get(pattern[at : at + 1], 0)
            at += 1
        elif sign == "[":
            depth += 1
        elif sign == "]":
            depth -= 1
        elif not sign.isascii():
            size += 2
    return at, size


def _repeat(pattern: str, at: int) -> tuple[int, int]:
    """Returns where `{n,m}` ends, and the larger of its numbers; 1 where it is not one."""
    close = pattern.find("}", at, at + 40)
    numbers = pattern[at:close].split(",") if close > at else []
    times = [int(number) for number in numbers if number and _DIGITS.issuperset(number)]
    if close < 0 or not times or len(numbers) > 2:
        return at, 1
    return close + 1, max(1, *times) + (numbers[-1] == "")
