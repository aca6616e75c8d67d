"""Makes the calls of one turn at the same time, and answers each with a text for the model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.agents.own_tools import ANSWER, ASK_USER, DESCRIBE, MOST_FOUND, SEARCH
from spindle.agents.results import READ_MORE, ShownResult, cut, shown_error, shown_result
from spindle.agents.usage import ModelUsage
from spindle.calls.delegation import KIND, USAGE
from spindle.domain.json_schema import JsonObject, canonical, to_json
from spindle.errors import InputRequired, Interruption, ModelError, NotFoundError, SpindleError

if TYPE_CHECKING:
    from spindle.agents.code import AgentCode
    from spindle.agents.conversation import Conversation
    from spindle.agents.definition import Job
    from spindle.agents.memory import AgentMemory
    from spindle.agents.toolbox import Toolbox
    from spindle.agents.turns import ModelCall, ModelTurn
    from spindle.agents.usage import Budget
    from spindle.calls.host import CallHost
    from spindle.calls.limits import Limit
    from spindle.domain.call import Result

NoteResult = Callable[[int, JsonObject], None]
ReadEarlier = Callable[[str], Awaitable[str | None]]

DEFAULT_FOUND = 8
MOST_SAID_OF_CUTS = 200
MOST_KEPT = 1_000_000
"""Characters of a cut result that later runs can read."""


class Calls:
    """The tool calls of one run of an agent."""

    def __init__(
        self,
        job: Job,
        host: CallHost,
        toolbox: Toolbox,
        limits: Sequence[Limit],
        read_earlier: ReadEarlier,
        budget: Budget,
        memory: AgentMemory,
        code: AgentCode | None = None,
    ) -> None:
        """`code` runs the programs of a model that calls tools by them."""
        self._job = job
        self._host = host
        self._toolbox = toolbox
        self._limits = limits
        self._read_earlier = read_earlier
        self._budget = budget
        self._memory = memory
        self._code = code
        self._handed_over: dict[int, Result] = {}
        """By call of the turn, the answers of those whom the task was handed over to."""
        self._wholes: dict[str, str] = {}
        """By reference, results: the model may read on in those that were cut, or left out later."""
        self.has_cut = False
        """True if some result was cut."""
        self._in_a_row: Counter[bytes] = Counter()
        """By call, the number of consecutive turns in which it was made."""
        self._failing: Counter[str] = Counter()
        """By tool, the number of consecutive turns in which all its calls failed."""
        self._made: dict[tuple[int, int, int], JsonObject] = {}
        """By turn, call of the turn and call of its program."""

    @property
    def made(self) -> list[JsonObject]:
        """Returns the calls of tools so far, and how they ended."""
        return [self._made[place] for place in sorted(self._made)]

    @property
    def handed_over(self) -> Result | None:
        """Returns the answer of whom the last turn handed the task over to."""
        return self._handed_over[min(self._handed_over)] if self._handed_over else None

    async def make(self, turn: ModelTurn, conversation: Conversation, note: NoteResult) -> bool:
        """Makes the calls and answers each. False: none could be made because of what the model wrote. If
        some pause, the others finish first, and none is answered."""
        calls = turn.calls
        self._handed_over.clear()
        self._count_repeats(turn)

        async def one(index: int) -> ShownResult:
            shown = await self._shown(turn, index)
            note(index, _noted(turn, index, shown))
            return shown

        # Questions last: once somebody is waited for, no further call begins.
        order = sorted(range(len(calls)), key=lambda index: calls[index].own == ASK_USER)
        ended = await asyncio.gather(*(one(index) for index in order), return_exceptions=True)
        by_index = dict(zip(order, ended, strict=True))
        shown: list[ShownResult] = []
        for index in range(len(calls)):
            outcome = by_index[index]
            if isinstance(outcome, ShownResult):
                shown.append(outcome)
        _raise_first(ended)
        taken_out = self._count_failures(calls, shown)
        for index, (call, answer) in enumerate(zip(calls, shown, strict=True)):
            told = ""
            if call.tool in taken_out:
                told = (
                    f"({call.name} failed {self._failing[call.tool]} times in a row, and is not offered "
                    "any more. Do without it, or tell the user.)"
                )
            conversation.answer_call(
                call.id, call.name, answer.text, failed=answer.failed, pictures=answer.pictures,
                is_ours=answer.is_ours, told=told,
                about=self._job.about_result(turn.step, index, call.tool or call.own),
            )  # fmt: skip
        return any(not (call.problem or call.own == ANSWER) for call in calls)

    # --- one call

    async def _shown(self, turn: ModelTurn, index: int) -> ShownResult:
        call = turn.calls[index]
        if call.problem is not None:
            return ShownResult(call.problem, call.outcome, is_ours=True)
        limit, reference = self._job.agent.limits.result, self._job.reference(turn.step, index)
        if call.own is not None:
            return self._cut(await self._own(turn, call), reference)
        assert call.tool is not None
        if self._repeats(call) > self._job.agent.limits.repeats:
            return ShownResult(
                f"You made the same call {self._repeats(call) - 1} times in a row. It was not made again: "
                "use what it returned, or do something else.",
                "repeated",
                is_ours=True,
            )
        try:
            result = await self._host.call(
                call.tool, call.arguments, limits=self._limits, approve=self._job.agent.wants_approval,
                is_clean="untrusted" not in turn.record,
            )  # fmt: skip
            self._count_inner(call.tool, result)
            shown = await shown_result(result, reference, limit)
            if not shown.failed and self._job.agent.hands_over_to(call.tool):
                self._handed_over[index] = result
        except SpindleError as error:
            if error.category == "cancelled":
                raise
            shown = shown_error(error)
        shown = self._cut(shown, reference)
        self._made[turn.step, index, 0] = {"tool": call.tool, "step": turn.step, "outcome": shown.outcome}
        return shown

    def _count_inner(self, tool: str, result: Result) -> None:
        """Counts the use of an agent that was called, also where it is answered from the record."""
        if self._toolbox.kind_of(tool) == KIND and USAGE in (result.meta or {}):
            told: JsonObject = dict((result.meta or {})[USAGE])
            self._budget.set_inner(told.pop("step"), ModelUsage(**told))

    def _cut(self, shown: ShownResult, reference: str) -> ShownResult:
        limit = self._job.agent.limits.result
        # What reads on is cut already, and says how it goes on.
        if shown.whole is None and len(shown.text) > limit + MOST_SAID_OF_CUTS:
            shown = replace(shown, text=cut(shown.text, 0, limit, reference), whole=shown.text)
        self._wholes[reference] = shown.text if shown.whole is None else shown.whole
        self.has_cut |= shown.whole is not None
        return shown

    async def _own(self, turn: ModelTurn, call: ModelCall) -> ShownResult:
        given = call.arguments
        try:
            match call.own:
                case "run_code" if self._code is not None:
                    return await self._run_code(self._code, turn, call)
                case "search_tools" | "describe_tool" if self._code is not None:
                    return await self._code.look(call.own, given)
                case "search_tools":
                    limit = int(given.get("limit", DEFAULT_FOUND))
                    return await self._search(str(given["query"]), min(limit, MOST_FOUND))
                case "describe_tool":
                    return await self._describe(str(given["name"]))
                case "ask_user":
                    return self._ask(str(given["question"]), given.get("options"))
                case "read_more":
                    limit = self._job.agent.limits.result
                    length = min(int(given.get("length", limit)), limit)
                    return await self._read_more(str(given["reference"]), int(given["start"]), length)
                case "remember" | "recall" | "forget":
                    place = f"{self._job.run}-{turn.step}-{turn.calls.index(call)}"
                    return await self._memory.use(call.own, given, self._host, place)
                case _:
                    wrong = turn.answer_problem or "give the answer once"
                    said = f"the answer does not fit: {wrong}"
                    return ShownResult(said, "invalid_arguments", is_ours=True)
        except NotFoundError as error:
            return shown_error(error)

    async def _run_code(self, code: AgentCode, turn: ModelTurn, call: ModelCall) -> ShownResult:
        index = turn.calls.index(call)
        shown, made = await code.run(turn, index, str(call.arguments["code"]))
        for number, inner in enumerate(made):
            self._made[turn.step, index, number] = {**inner.to_dict(), "step": turn.step}
        return shown

    async def _search(self, query: str, limit: int) -> ShownResult:
        found: list[JsonObject] = await self._host.remember(
            SEARCH, [query, limit], lambda _: self._toolbox.search(query, limit)
        )
        self._toolbox.load([item["tool"] for item in found])
        lines = [f"{item['name']}: {item['description']}" for item in found]
        return ShownResult("\n".join(lines) or "no tool matches; try other words")

    async def _describe(self, name: str) -> ShownResult:
        async def describe(_: Any) -> JsonObject:
            try:
                return await self._toolbox.describe(name)
            except NotFoundError as error:
                return {"missing": shown_error(error).text}

        found: JsonObject = await self._host.remember(DESCRIBE, name, describe)
        if "missing" in found:
            return ShownResult(found["missing"], "not_found")
        self._toolbox.load([found["tool"]])
        return ShownResult(to_json({key: value for key, value in found.items() if key != "tool"}).decode())

    def _ask(self, question: str, options: list[str] | None) -> ShownResult:
        schema: JsonObject = {"type": "string", **({"enum": options} if options else {})}
        reply = self._host.ask(InputRequired(question, tool=ASK_USER, details={"schema": schema}))
        if reply.refused is not None:
            reason = f": {reply.refused}" if reply.refused else ""
            return ShownResult(f"the user would not answer{reason}", "refused", is_ours=True)
        return ShownResult(str(reply.answer), is_ours=True)

    async def _read_more(self, reference: str, start: int, length: int) -> ShownResult:
        whole = self._wholes.get(reference)
        if whole is None and not reference.startswith(self._job.run[:8]):
            whole = await self._host.remember(READ_MORE, reference, lambda _: self._read_earlier(reference))
        if whole is None:
            raise NotFoundError(
                f"there is no result {reference!r} that was cut", hint="call its tool again", tool=READ_MORE
            )
        if start >= len(whole):
            return ShownResult(f"[the result has {len(whole)} characters]")
        return ShownResult(cut(whole, start, length, reference))

    # --- what goes on for too long

    def _count_repeats(self, turn: ModelTurn) -> None:
        now = {_key(call) for call in turn.calls if call.tool is not None}
        self._in_a_row = Counter({key: self._in_a_row[key] + 1 for key in now})
        longest = max(self._in_a_row.values(), default=0)
        limit = self._job.agent.limits.repeats
        if longest > 2 * limit and len(now) == len(turn.calls):
            raise ModelError(
                f"the model made the same call {longest} times in a row",
                hint="say in the instructions what to do instead, or raise the limit `repeats`",
                details={"calls": self.made},
            )

    def _repeats(self, call: ModelCall) -> int:
        return self._in_a_row[_key(call)]

    def _count_failures(self, calls: Sequence[ModelCall], shown: Sequence[ShownResult]) -> set[str]:
        """Removes tools that keep failing. A refusal by a person is not a failure."""
        failed: dict[str, bool] = {}
        for call, answer in zip(calls, shown, strict=True):
            if call.tool is not None and answer.outcome != "repeated" and not answer.was_refused:
                failed[call.tool] = failed.get(call.tool, True) and answer.failed
        for tool, has_failed in failed.items():
            self._failing[tool] = self._failing[tool] + 1 if has_failed else 0
        limit = self._job.agent.limits.failures
        taken_out = {tool for tool in failed if self._failing[tool] >= limit}
        self._toolbox.removed |= taken_out
        return taken_out


def _key(call: ModelCall) -> bytes:
    return canonical([call.tool, call.arguments])


def _noted(turn: ModelTurn, index: int, shown: ShownResult) -> JsonObject:
    call = turn.calls[index]
    whole = {"whole": shown.whole[:MOST_KEPT]} if shown.whole is not None else {}
    whole |= {"ours": True} if shown.is_ours else {}
    return {
        "kind": "result", "step": turn.step, "index": index, "id": call.id, "name": call.name,
        "tool": call.tool or call.own, "outcome": shown.outcome, "text": shown.text, **whole,
    }  # fmt: skip


def _raise_first(ended: Sequence[object]) -> None:
    """Raises a pause before anything else: the run stops for it, whatever else went wrong."""
    problems = [outcome for outcome in ended if isinstance(outcome, BaseException)]
    for problem in sorted(problems, key=lambda problem: not isinstance(problem, Interruption)):
        raise problem
