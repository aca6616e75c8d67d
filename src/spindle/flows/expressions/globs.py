"""Patterns of `*` and `?`, which any text is compared with in one way through: no pattern makes it slow."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.values import WorkBudget

MAX_PATTERN: Final = 200
"""Characters of a pattern."""
_PER_STEP: Final = 100
"""Comparisons of characters that count as one step."""


def fits(text: str, pattern: str, budget: WorkBudget) -> bool:
    """True if the whole text fits: `*` is any text, `?` one character, and anything else is itself."""
    if len(pattern) > MAX_PATTERN:
        raise ExpressionError(f"a pattern has at most {MAX_PATTERN} characters")
    first, *rest = pattern.split("*")
    if not rest:
        return len(text) == len(first) and _at(text, first, 0)
    *between, last = rest
    position, end = len(first), len(text) - len(last)
    if end < position or not _at(text, first, 0) or not _at(text, last, end):
        return False
    for part in between:
        # The first place for each is the best: it leaves the most for those that follow.
        position = _find(text, part, position, end, budget)
        if position < 0:
            return False
        position += len(part)
    return True


def _at(text: str, part: str, position: int) -> bool:
    found = text[position : position + len(part)]
    return len(found) == len(part) and all(
        one in ("?", other) for one, other in zip(part, found, strict=True)
    )


def _find(text: str, part: str, start: int, end: int, budget: WorkBudget) -> int:
    """Returns the first place of a part without `*`, or -1."""
    if "?" not in part:
        budget.spend((end - start) // _PER_STEP + 1)
        return text.find(part, start, end)
    budget.spend((end - start) * len(part) // _PER_STEP + 1)
    found = _compiled(part).search(text, start, end)
    return -1 if found is None else found.start()


@lru_cache(256)
def _compiled(part: str) -> re.Pattern[str]:
    return re.compile(re.escape(part).replace(r"\?", "."), re.DOTALL)
