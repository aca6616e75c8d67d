"""The difference of two definitions of a tool, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from spindle.catalog.diff import changed_fields
from spindle.console.call_lines import shown_json

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

MAX_LINES: Final = 300
"""Of each side; a longer definition is compared as far as this."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of both sides. None: that side has no such line."""

    old: str | None
    new: str | None

    @property
    def same(self) -> bool:
        """True if both sides have it."""
        return self.old == self.new


GAP: Final = Pair("⋯", "⋯")
"""Stands for lines that both sides have and that are left out."""


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A tool whose new definition waits until a person accepts it."""

    name: str
    is_new: bool
    fields: Sequence[str]
    """The paths in the definition that differ."""
    pairs: Sequence[Pair]
    why: Sequence[str] = ()
    """The findings in its texts, where these hold it back."""


def held_change(name: str, current: Tool | None, held: Tool, why: Sequence[str] = ()) -> HeldChange:
    """Returns the difference of a held definition from the one in use."""
    old = _lines(current.spec.whole_definition()) if current is not None else []
    return HeldChange(
        name,
        current is None,
        changed_fields(current, held),
        side_by_side(old, _lines(held.spec.whole_definition())),
        why,
    )


def side_by_side(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Returns both texts line by line, with two lines of what is the same around each change, and `GAP`
    where there was more between them."""
    pairs: list[Pair] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pairs += [Pair(line, line) for line in old[a:b]]
            continue
        left, right = list(old[a:b]), list(new[c:d])
        for at in range(max(len(left), len(right))):
            pairs.append(Pair(left[at] if at < len(left) else None, right[at] if at < len(right) else None))
    near = {at + step for at, pair in enumerate(pairs) if not pair.same for step in range(-2, 3)}
    kept = [at for at in range(len(pairs)) if at in near]
    shown: list[Pair] = []
    for before, at in zip([-1, *kept], kept, strict=False):
        if at - before > 1:
            shown.append(GAP)
        shown.append(pairs[at])
    return shown


def _lines(definition: Any) -> list[str]:
    return [line[:500] for line in shown_json(definition).splitlines()[:MAX_LINES]]
