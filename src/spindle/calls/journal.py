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
    from spindle.domain.doubt import InDoubt
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Begun
    from spindle.errors import Interruption


class Journal(Protocol):
    """The record of a run, as seen from one place in it."""

    policy: TrustPolicy | None
    """The flow-of-trust policy of the work that this place is part of; None: there is none."""

    has_own_task: bool
    """True if the work here has a task of its own, so that others have their turn before and after it."""

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

    async def remember(
        self,
        name: str,
        key: Any,
        make: Callable[[Journal | None], Awaitable[Any]],
        *,
        in_doubt: InDoubt = "repeat",
    ) -> Any:
        """The value of a piece of work at this place: from the record if JSON could hold it, else by
        doing it. `in_doubt`: what becomes of it if a fault hit while it was done."""
        ...

    def recall(self, name: str, key: Any) -> Any:
        """Returns what `remember` would find on record; None if it would have to be made."""
        ...

    def branch(self, name: str) -> Journal:
        """A place for work beside other work: a question there stops nothing outside of it. The places of one
        name are known by their order."""
        ...

    def give_up(self) -> None:
        """The work of this branch is not needed any more: what was asked there is not asked any more."""
        ...

    @property
    def run(self) -> str | None:
        """The id of the run; None for a call that has not become one."""
        ...

    @property
    def step_id(self) -> str:
        """An id of this place, the same in every process that comes to it."""
        ...

    def begun(self) -> Begun | None:
        """The call at this place, if it was begun before and nobody knows how it ended."""
        ...

    async def begin(self, *, keyed: bool) -> None:
        """Returns once it is on record that the call at this place is being sent; at once if nobody could
        come to this place again. Raises StoreError if it cannot be recorded, and CancelledError if the run
        is no longer this process's."""
        ...

    async def confirm(self) -> None:
        """Raises CancelledError if the run is no longer this process's. Asked before a call is sent again."""
        ...

    def note(self, name: str, data: JsonObject) -> bool:
        """Adds to the run's history, once for each name at this place. Returns False if it is there
        already."""
        ...

    @property
    def untrusted(self) -> str | None:
        """The tool that brought untrusted content into the run first; None: none did."""
        ...

    def mark_untrusted(self, origin: str = "") -> None:
        """Notes with the run that untrusted content has come in: by this step, or from `origin`."""
        ...

    def reply(self) -> Reply | None:
        """The last answer to what the source itself asked for at this place."""
        ...


current_journal: ContextVar[Journal | None] = ContextVar("spindle_journal", default=None)
