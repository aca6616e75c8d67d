"""A model's programs: what it reads of the functions that it may call, and the execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.agents.own_tools import MOST_FOUND, SEARCH
from spindle.agents.results import ShownResult, shown_error
from spindle.code_mode.program import Program
from spindle.code_mode.reading import RUN_CODE, about, shown, signatures
from spindle.domain.json_schema import JsonObject
from spindle.errors import NotFoundError, SpindleError

if TYPE_CHECKING:
    from spindle.agents.definition import Job
    from spindle.agents.toolbox import Toolbox
    from spindle.agents.turns import ModelTurn
    from spindle.calls.host import CallHost
    from spindle.calls.limits import Limit
    from spindle.code_mode.limits import MadeCall
    from spindle.code_mode.sandbox import Sandbox
    from spindle.domain.call import Host, Result

DEFAULT_FOUND = 5


class AgentCode:
    """The programs of one run of an agent."""

    def __init__(
        self, job: Job, host: CallHost, toolbox: Toolbox, limits: Sequence[Limit], sandbox: Sandbox
    ) -> None:
        self._job = job
        self._host = host
        self._toolbox = toolbox
        self._limits = limits
        self._sandbox = sandbox

    async def look(self, name: str, given: JsonObject) -> ShownResult:
        """Searches for functions, or describes one."""

        async def make(_: Host) -> JsonObject:
            library = await self._toolbox.library()
            if name == SEARCH:
                limit = min(int(given.get("limit", DEFAULT_FOUND)), MOST_FOUND)
                found = await self._toolbox.search(str(given["query"]), limit)
                text = await signatures(library, [item["tool"] for item in found])
                return {"text": text or "no function matches; try other words"}
            try:
                return {"text": await about(library, str(given["name"]))}
            except NotFoundError as error:
                return {"text": shown_error(error).text, "outcome": error.category}

        found: JsonObject = await self._host.remember(f"code {name}", given, make)
        return ShownResult(found["text"], found.get("outcome", "ok"))

    async def run(self, turn: ModelTurn, index: int, code: str) -> tuple[ShownResult, Sequence[MadeCall]]:
        """Executes a program. Returns what the model is told, and the calls that it made."""
        is_clean = "untrusted" not in turn.record

        async def call(place: CallHost, tool: str, arguments: JsonObject, is_first: bool) -> Result:
            return await place.call(
                tool, arguments, limits=self._limits, approve=self._job.agent.wants_approval,
                is_clean=is_clean and is_first,
            )  # fmt: skip

        place = self._host.branch(f"{RUN_CODE} {turn.step}.{index}")
        library = await self._toolbox.library()
        program = Program(self._sandbox, library, place, call, self._job.agent.limits.of_code)
        try:
            return ShownResult(shown(await program.run(code))), program.calls
        except SpindleError as error:
            if error.category == "cancelled":
                raise
            return shown_error(error), program.calls
