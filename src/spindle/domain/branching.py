"""Work beside other work: the part of a tool's host that keeps both apart."""

from __future__ import annotations

from typing import Any, Protocol, Self


class Branching(Protocol):
    """Places for work that is done at the same time, and whose steps come in any order."""

    def recall(self, name: str, key: Any) -> Any:
        """Returns what `remember` would find on record; None if it would have to be made."""
        ...

    def branch(self, name: str) -> Self:
        """Returns a host for work beside other work: a question there stops nothing outside of it. Those of
        one name are known by the order in which they are made here."""
        ...

    def give_up(self) -> None:
        """Says that the work of this branch is not needed any more, nor an answer to what it asked."""
        ...
