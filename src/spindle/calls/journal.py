"""The interface between a call and the run that it is a step of.

A run remembers the calls that were made during it, so that it can stop for a person and go on in another
process without making them again. The runs themselves are `spindle.runs`; this is all that calls see of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spindle.domain.call import Reply, Result
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.errors import Interruption


class Journal(Protocol):
    """The record of a run, as seen from one place in it."""

    async def step(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        principal: Principal,
        make: Callable[[Journal | None], Awaitable[Result]],
    ) -> Result:
        """The outcome of a call at this place: from the record if it was made before, else by making it
        and recording how it ended."""
        ...

    def ask(self, question: Interruption) -> Reply:
        """The person's answer to this question at this place; raises the question if there is none yet."""
        ...

    async def remember(self, name: str, key: Any, make: Callable[[Journal | None], Awaitable[Any]]) -> Any:
        """The value of a piece of work at this place: from the record if JSON could hold it, else by
        doing it."""
        ...

    def note(self, name: str, data: JsonObject) -> bool:
        """Adds to the run's history, once for each name at this place. Returns False if it is there
        already."""
        ...

    def reply(self) -> Reply | None:
        """The last answer to what the source itself asked for at this place."""
        ...


current_journal: ContextVar[Journal | None] = ContextVar("spindle_journal", default=None)
