"""The path of one call with the time of each part, for `spindle call --trace`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.cli.output import Output

BAR = 24
BESIDE_THE_BAR = 15
"""Characters of a line besides the words and the bar."""

# The parts by name: those of the command itself, and those that `calls/caller` passes.
WORDS = {
    "open": "open the workspace",
    "source": "open the source, list its tools",
    "read": "read the arguments",
    "start": "start the run",
    "find": "find the tool",
    "settings": "read its source's settings",
    "permission": "check permission",
    "validate": "check the arguments",
    "approval": "ask for approval",
    "doubt": "decide if it is made again",
    "credential": "get the credential",
    "cache": "look into the cache",
    "limits": "wait for a free place",
    "rate": "wait for the rate limit",
    "connect": "get a session",
    "call": "the call itself",
    "check": "check the result",
    "keep": "keep it in the cache",
    "wait": "wait before the next attempt",
    "record": "record the call",
    "pause": "paused, then continued",
    "show": "show the result",
}


class CallTrace:
    """Notes when each part of a call begins. A part lasts until the next one begins."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []
        self.was_told = False
        """True once it is part of a result."""

    def __call__(self, part: str) -> None:
        if not self._begun or self._begun[-1][0] != part:
            self._begun.append((part, time.perf_counter()))

    def to_dict(self) -> dict[str, Any]:
        """The parts until now as JSON, without the one that goes on."""
        self.was_told = True
        parts = [{"part": part, "seconds": round(seconds, 6)} for part, seconds in self._parts()]
        return {"trace": parts}

    def print(self, output: Output, tool: str) -> None:
        """Prints the parts on stderr, with bars that compare them."""
        from spindle.cli.node_progress import is_unicode

        self("")
        parts = self._parts()
        whole = sum(seconds for _, seconds in parts) or 1e-9
        width = max(len(WORDS[part]) for part, _ in parts)
        full = "█" if is_unicode(sys.stderr) else "#"
        longest = max(min(BAR, output.width - width - BESIDE_THE_BAR), 0)
        output.aside(f"trace of {tool}: {_shown(whole)}")
        for part, seconds in parts:
            bar = full * round(seconds / whole * longest)
            output.aside(f"  {WORDS[part]:<{width}}  {_shown(seconds):>9}  {bar}".rstrip())

    def _parts(self) -> list[tuple[str, float]]:
        from itertools import pairwise

        return [(part, after - begun) for (part, begun), (_, after) in pairwise(self._begun)]


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
