"""A mod: a class whose objects bring several tools that share something, such as a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Mod(Protocol):
    """A class of tools that share something, such as a connection.

    It may have besides: `name`, else the class's own in snake case; `Config`, a Pydantic model of its
    settings, which come from `[mods.NAME]`; an `__init__` that takes them; `start` and `stop`, plain or
    async, called before its tools are first listed and when the source closes.
    """

    def get_tools(self) -> Iterable[Callable[..., Any]]:
        """Returns functions or methods; `@tool` marks those that need more than their signature says."""
        ...
