"""A call that is made by itself. Nearly all end without anybody being asked, and need no run; one that makes
further calls, has something to remember or asks a person becomes one there and then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.journal import Journal
from spindle.domain.call import new_id
from spindle.errors import interruption_in
from spindle.runs.places import Make, RunPlace

if TYPE_CHECKING:
    import asyncio

    from spindle.calls.options import CallOptions
    from spindle.domain.call import Reply, Result
    from spindle.domain.doubt import InDoubt
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Begun
    from spindle.errors import Interruption
    from spindle.runs.journal import RunJournal

Begin = Callable[["asyncio.AbstractEventLoop", str, "JsonObject", "CallOptions", str], "RunJournal"]
"""Makes the journal of a run of this id, which a call of this tool with these arguments has become."""


class LonePlace:
    """The place of a call that may become a run. Until then nobody knows of it, so that nothing is noted."""

    __slots__ = (
        "_arguments", "_begin", "_loop", "_options", "_place", "_tool", "journal", "policy", "run_id",
    )  # fmt: skip

    has_own_task = False

    def __init__(
        self,
        begin: Begin,
        tool: str,
        arguments: JsonObject,
        options: CallOptions,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.policy: TrustPolicy | None = None
        self.journal: RunJournal | None = None
        """That of the run that it has become."""
        self._place: RunPlace | None = None
        self.run_id = options.run_id or new_id()
        self._begin = begin
        self._tool = tool
        self._arguments = arguments
        self._options = options
        self._loop = loop

    def raise_end(self, error: BaseException) -> None:
        """Raises the question that the call ended with, or this error if it has become a run; the call is
        then to be executed as one."""
        if self._place is not None or interruption_in(error) is not None:
            self._entered().raise_end(error)

    def raise_swallowed(self) -> None:
        """Raises a question that the tool has asked and did not let out."""
        if self._place is not None:
            self._place.raise_swallowed()

    def _entered(self) -> RunPlace:
        if self._place is None:
            self.journal = self._begin(self._loop, self._tool, self._arguments, self._options, self.run_id)
            place = RunPlace(self.journal)
            self._place = place.outer(self._tool, self._arguments, self._options.principal)
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

    def recall(self, name: str, key: Any) -> Any:
        return self._entered().recall(name, key)

    def branch(self, name: str) -> Journal:
        return self._entered().branch(name)

    def give_up(self) -> None:
        self._entered().give_up()

    def ask(self, question: Interruption) -> Reply:
        return self._entered().ask(question)

    @property
    def run(self) -> str | None:
        return self.run_id if self._place is not None else None

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

    @property
    def untrusted(self) -> str | None:
        return self._place.untrusted if self._place is not None else None

    def mark_untrusted(self, origin: str = "") -> None:
        if self._place is not None:  # else it is the only call, after which there is nothing to judge
            self._place.mark_untrusted(origin)

    def reply(self) -> Reply | None:
        return None
