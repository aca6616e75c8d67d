"""The port of checkers that look through the texts of new and changed tools, besides our own rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from spindle.domain.finding import ToolFinding
from spindle.domain.tool import Tool


class ToolChecker(Protocol):
    """A function that a package offers as an entry point of the group `spindle.checkers`."""

    def __call__(self, tool: Tool, /) -> Iterable[ToolFinding]:
        """Returns what is wrong with the texts of a tool. Called in a thread, once for each tool that a sync
        finds. If it raises, the tool is held."""
        ...
