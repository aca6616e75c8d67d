"""The loop of an agent: one turn of the model after the other, each with the calls that it asks for.

It is the work of a run, so it starts over after every pause, with the model's answers and the results of
calls taken from the record. Everything that decides how it continues is therefore taken from them, and from
nothing that may differ in another process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from spindle.agents import own_tools
from spindle.agents.calls import Calls
from spindle.agents.conversation import NOT_MADE, Conversation, read_messages
from spindle.agents.events import AgentEvent
from spindle.agents.own_tools import ANSWER
from spindle.agents.record import events_of
from spindle.calls.delegation import EndedBy, LimitReachedError
from spindle.calls.validate import problems_with
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import ModelError, SpindleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage

    from spindle.agents.definition import Job
    from spindle.agents.events import EventKind, Listener
    from spindle.agents.turns import ModelTurn, Turns
    from spindle.agents.usage import Budget
    from spindle.domain.call import Host

EMPTY = "Your answer was empty. Call a tool, or answer the user."
CUT_OFF = (
    "Your answer was cut off at the limit of tokens, and could not be used. Answer more briefly, or make "
    "fewer calls at once."
)
LAST = (
    "The limit of {by} of this work is reached: no tool can be called any more. Answer now with what you "
    "have found out, and say what is missing."
)
NOT_BY_TOOL = f"Give the answer by calling {ANSWER}, not as text."

logger = logging.getLogger("spindle.agents")


class Loop:
    """One run of an agent, from its task to its answer."""

    def __init__(
        self, job: Job, host: Host, turns: Turns, calls: Calls, budget: Budget, listener: Listener
    ) -> None:
        self._job = job
        self._host = host
        self._turns = turns
        self._calls = calls
        self._budget = budget
        self._listener = listener
        self._conversation = Conversation(read_messages(job.history), job.run)
        self._step = self._answered = 0
        self._useless = 0
        """The number of unusable answers in a row."""
        self._text = ""
        """The last text of the model."""

    async def run(self) -> Result:
        self._note("start", {"kind": "start", "task": self._job.task, "model": self._job.agent.model})
        await self._turns.make_ready()
        self._job.tell(self._conversation)
        try:
            while True:
                turn = await self._next_turn()
                answered = await self._follow(turn)
                if answered is not None:
                    return self._end("answer", *answered)
        except LimitReachedError as limit:
            text, value = await self._conclude(limit.by)
            return self._end(limit.by, text, value)

    @property
    def messages(self) -> list[ModelMessage]:
        """Returns the conversation as it stands."""
        return self._conversation.messages()

    # --- a turn

    async def _next_turn(self, ends: EndedBy | None = None) -> ModelTurn:
        self._step = self._answered + 1
        said = self._tell_piece if self._listener.hear is not None and self._listener.streams else None
        turn = await self._turns.next(self._step, self._conversation, said, ends)
        if turn.cuts:
            self._note("cut", {"kind": "cut", "step": self._step, "cuts": turn.cuts, "text": _cut(turn.cuts)})
        if "switched" in turn.record:
            switched = turn.record["switched"]
            self._note("switched", {"kind": "switched", "step": self._step, "text": switched})
        self._conversation.respond(turn.response)
        self._answered = self._step
        self._note(
            "turn",
            {
                "kind": "turn",
                "step": self._step,
                "response": turn.record["response"],
                "tools": [call.tool or call.own for call in turn.calls],
            },
            was_streamed=turn.was_streamed,
        )
        return turn

    async def _follow(self, turn: ModelTurn) -> tuple[str, Any] | None:
        """Makes the calls that the model asks for. Returns its answer, text and value, when it has given
        one."""
        response = turn.response
        text = (response.text or "").strip()
        self._text = text or self._text
        self._refuse_refusals(turn)
        if response.finish_reason == "length":
            self._answer_unmade(turn, CUT_OFF)
            self._repair(CUT_OFF, "was cut off at the limit of tokens", "raise `max_tokens` of the model")
            return None
        if turn.calls:
            return await self._follow_calls(turn)
        if not text:
            self._repair(EMPTY, "gave no answer")
            return None
        if self._job.output is not None:
            self._repair(NOT_BY_TOOL, "did not give its answer in the form that was asked for")
            return None
        return text, None

    async def _follow_calls(self, turn: ModelTurn) -> tuple[str, Any] | None:
        schema = self._job.output
        answers = [call for call in turn.calls if call.own == ANSWER]
        if answers and schema is not None and turn.answer_problem is None:
            value = own_tools.answer_in(schema, answers[0].arguments)
            return to_json(value).decode(), value
        timer = asyncio.timeout(self._budget.remaining)
        try:
            async with timer:
                useful = await self._calls.make(turn, self._conversation, self._note_result)
        except TimeoutError:
            if timer.expired():
                raise LimitReachedError("time") from None
            raise
        if (handed := self._calls.handed_over) is not None and (answer := self._taken(handed)) is not None:
            return answer
        self._turns.can_read_more |= self._calls.has_cut
        if not useful:
            self._repair(None, "made only calls that cannot be made")
        else:
            self._useless = 0
        return None

    def _taken(self, result: Result) -> tuple[str, Any] | None:
        """Returns the answer of whom the task was handed over to, if it has the form that is asked for."""
        schema, value = self._job.output, result.structured
        if schema is not None and problems_with(schema, value, "the answer"):
            return None  # the model has it as a result like any other
        text = "\n".join(block.text for block in result.content if block.text is not None)
        return text, value if schema is not None else None

    def _answer_unmade(self, turn: ModelTurn, why: str) -> None:
        for call in turn.calls:
            self._conversation.answer_call(call.id, call.name, why, failed=True, is_ours=True)

    def _refuse_refusals(self, turn: ModelTurn) -> None:
        response = turn.response
        if response.finish_reason != "content_filter":
            return
        details = response.provider_details or {}
        said = details.get("refusal") or response.text
        what = f"the model refused: {said}" if said else "the provider's filter stopped the model's answer"
        raise ModelError(what, hint="rephrase the task", details=self._so_far())

    def _repair(self, told: str | None, what: str, hint: str | None = None) -> None:
        """Tells the model why its answer cannot be used, up to the limit."""
        self._useless += 1
        if self._useless > self._job.agent.limits.repairs:
            raise ModelError(
                f"the model {what}, {self._useless} times in a row", hint=hint, details=self._so_far()
            )
        if told is not None:
            self._conversation.say(told)
            self._note("told", {"kind": "told", "step": self._step, "text": told})

    # --- telling

    def _note_result(self, index: int, data: JsonObject) -> None:
        self._note(f"result.{index}", data)

    def _note(self, name: str, data: JsonObject, *, was_streamed: bool = False) -> None:
        """Records the event with the run and sends it to the listener, unless that was done before a
        pause."""
        is_new = self._host.note(f"{self._step}.{name}", data)
        if is_new and self._listener.hear is not None:
            for event in events_of(self._job.run, data):
                if not (was_streamed and event.kind in ("text", "thought")):
                    self._listener.hear(event)

    def _tell_piece(self, kind: EventKind, text: str) -> None:
        if self._listener.hear is not None:
            self._listener.hear(AgentEvent(kind, self._job.run, self._step, text))

    # --- the end

    async def _conclude(self, by: EndedBy) -> tuple[str, Any]:
        """Returns the answer, text and value, that the model gives when it is told that a limit ended its
        work: one request more, with no tools. If that fails, what it said last has to do."""
        if not self._job.agent.limits.conclude:
            return self._text, None
        self._step = self._answered
        self._conversation.messages()  # what was not called is said before what follows from it
        told = LAST.format(by=by) + (f" {NOT_BY_TOOL}" if self._job.output is not None else "")
        self._conversation.say(told)
        self._note("limit", {"kind": "told", "step": self._step, "text": told})
        try:
            turn = await self._next_turn(by)
        except SpindleError as error:
            if error.category == "cancelled":
                raise
            logger.warning("there is no last answer at the limit of %s: %s", by, error.message)
            return self._text, None
        schema = self._job.output
        for call in turn.calls:
            if schema is not None and call.own == ANSWER and turn.answer_problem is None:
                value = own_tools.answer_in(schema, call.arguments)
                return to_json(value).decode(), value
        self._answer_unmade(turn, NOT_MADE)
        return (turn.response.text or "").strip() or self._text, None

    def _so_far(self) -> JsonObject:
        return {"text": self._text, "steps": self._step, "usage": self._budget.usage.to_dict()}

    def _end(self, by: EndedBy, text: str, value: Any) -> Result:
        result = {
            "text": text,
            "output": value,
            "ended_by": by,
            "steps": self._answered,
            "calls": self._calls.made,
            "usage": self._budget.usage.to_dict(),
        }
        self._note("end", {"kind": "end", "step": self._step, "result": result})
        return Result.of_value(result, text)


def _cut(cuts: Sequence[JsonObject]) -> str:
    last = cuts[-1]
    if last["summary"] is not None:
        return "earlier turns were summed up"
    return "earlier turns were left out" if last["turns"] else "earlier results were left out"
