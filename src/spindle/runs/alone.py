"""A call that is made by itself. Nearly all end without anybody being asked, and need no run; one that makes
further calls, has something to remember or asks a person becomes one there and then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.journal import Journal, current_journal
from spindle.domain.call import new_id
from spindle.errors import interruption_in
from spindle.runs.places import Make, RunPlace

if TYPE_CHECKING:
    from spindle.domain.call import Reply, Result
    from spindle.domain.doubt import InDoubt
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Begun
    from spindle.errors import Interruption
    from spindle.runs.journal import RunJournal


class LonePlace:
    """The place of a call that may become a run. Until then nobody knows of it, so that nothing is noted."""

    def __init__(
        self,
        begin: Callable[[str], RunJournal],
        tool: str,
        arguments: Mapping[str, Any],
        principal: Principal,
    ) -> None:
        """`begin` makes the journal of a run of this id."""
        self.run_id = new_id()
        self.journal: RunJournal | None = None
        """That of the run that it has become."""
        self._begin = begin
        self._tool = tool
        self._arguments = arguments
        self._principal = principal
        self._place: RunPlace | None = None

    async def made(self, make: Make) -> Result:
        """Makes the call. Raises its question if it asks something, having become a run."""
        token = current_journal.set(self)
        try:
            result = await make(self)
        except BaseException as error:
            if self._place is not None or interruption_in(error) is not None:
                self._entered().raise_end(error)
            raise
        finally:
            current_journal.reset(token)
        if self._place is not None:
            self._place.raise_swallowed()
        return result

    def _entered(self) -> RunPlace:
        if self._place is None:
            self.journal = self._begin(self.run_id)
            self._place = RunPlace(self.journal).outer(self._tool, self._arguments, self._principal)
        return self._place

    # --- as the call sees it

    async def step(self, tool: str, arguments: Mapping[str, Any], principal: Principal, make: Make) -> Result:
        return await self._entered().step(tool, arguments, principal, make)

    async def remember(
        self,
        name: str,
        key: Any,
        make: Callable[[Journal | None], Awaitable[Any]],
        *,
        in_doubt: InDoubt = "repeat",
    ) -> Any:
        return await self._entered().remember(name, key, make, in_doubt=in_doubt)

    def ask(self, question: Interruption) -> Reply:
        return self._entered().ask(question)

    @property
    def step_id(self) -> str:
        return self._entered().step_id

    def note(self, name: str, data: JsonObject) -> bool:
        return self._entered().note(name, data)

    def begun(self) -> Begun | None:
        return None

    async def begin(self, *, keyed: bool) -> None:
        if self._place is not None:
            await self._place.begin(keyed=keyed)

    async def confirm(self) -> None:
        if self._place is not None:
            await self._place.confirm()

    def reply(self) -> Reply | None:
        return None
