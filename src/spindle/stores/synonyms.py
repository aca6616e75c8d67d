"""Words that people use for one another when they ask for a tool, from `synonyms.txt`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from spindle.stores.stem import stem

FILE = Path(__file__).with_name("synonyms.txt")
_NONE: dict[str, float] = {}


def synonyms(stemmed: str) -> dict[str, float]:
    """The synonyms of a word, and how far each can be trusted to mean the same, all as stems."""
    return _read().get(stemmed, _NONE)


@cache
def _read() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    trust = 0.0
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("= "):
            trust = float(line[2:])
        elif not line.startswith("#"):
            stems = list(dict.fromkeys(map(stem, line.split())))
            for one in stems:
                known = found.setdefault(one, {})
                for other in stems:
                    if other != one:
                        known[other] = max(trust, known.get(other, 0.0))
    return found
