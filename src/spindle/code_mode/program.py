"""One program: its calls are steps of a run, and its pauses are the run's.

When a call needs a person, the others that are under way end first. Then the program, dumped where it waits,
is kept with the run, sealed like all of a run's record; whoever resumes the run goes on with it there, and
makes the calls again that it waits for: those that ended are answered from the record. Without a dump that
can be loaded, because a process died in between or the library is another one, the program is executed from
its beginning, in the same way: it sees the same time and the same random numbers, and its calls are known by
tool, arguments and how many such calls it made before, in whatever order they come.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.reported import error_of
from spindle.code_mode.limits import MOST_PRINTED, MOST_RETURNED, CodeResult, MadeCall, failed
from spindle.code_mode.values import MOST_PARTS, arguments_in, value_of
from spindle.domain.json_schema import JsonObject, canonical
from spindle.errors import Interruption, SpindleError

if TYPE_CHECKING:
    from spindle.calls.host import CallHost
    from spindle.code_mode.library import ToolLibrary
    from spindle.code_mode.limits import CodeLimits
    from spindle.code_mode.sandbox import AskedCall, Modules, Sandbox, SandboxTurn
    from spindle.domain.call import Host, Result

MOST_KEPT: Final = 8_000_000
"""Bytes of a dump that is kept. A larger program is executed again."""
_LIMITS: Final = {
    "seconds": "computed for longer than {0.seconds:g} s, and was stopped",
    "memory": "needed more than {0.memory} MB, and was stopped",
    "calls": "wanted to make more than {0.calls} calls, and was stopped",
    "value": f"has too large a value: over {MOST_RETURNED:,} characters or {MOST_PARTS:,} parts",
}
_CUT: Final = f"\n… what it printed after {MOST_PRINTED:,} characters is left out"
_RAISED: Final = {
    "invalid_arguments": "ValueError",
    "not_found": "LookupError",
    "timeout": "TimeoutError",
}
"""By category, the exception that a program sees; others are RuntimeError."""
MakeCall = Callable[["CallHost", str, JsonObject, bool], Awaitable["Result"]]
"""Calls a tool at a place of the run. True: nothing that another call returned is in its arguments."""


class Program:
    """The execution of one program, at a place of a run that is its own."""

    def __init__(
        self, sandbox: Sandbox, library: ToolLibrary, place: CallHost, make: MakeCall, limits: CodeLimits
    ) -> None:
        self._sandbox = sandbox
        self._library = library
        self._place = place
        self._client = place.principal.id
        self._make = make
        self._limits = limits
        self.calls: list[MadeCall] = []
        """All calls, in the order in which they were asked for."""
        self._printed = ""
        self._seconds = 0.0
        self._counts: Counter[str] = Counter()
        self._pending: dict[int, JsonObject] = {}
        """By id, the calls whose results the sandbox does not have."""
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._has_results = False
        self._kept = 0

    async def run(self, code: str) -> CodeResult:
        """Returns the end of a program. Raises ProgramError, InvalidArgumentsError, or the Interruption for
        which it waits."""
        begun: JsonObject = await self._place.remember("begun", code, _begun)
        modules = await self._library.modules_for(code)
        try:
            turn = await self._restored() or await self._sandbox.start(
                code, modules, self._limits, self._client, begun["at"], self._place.step_id or ""
            )
            while True:
                self._take(turn)
                if turn.dump is None:
                    return await self._ended(turn)
                turn = await self._next(turn.dump, modules)
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())

    # --- a turn

    def _take(self, turn: SandboxTurn) -> None:
        """Takes note of what the program did, and begins the calls that it asks for."""
        if len(self._printed) <= MOST_PRINTED:
            self._printed += "".join(turn.printed)
            if len(self._printed) > MOST_PRINTED:
                self._printed = self._printed[:MOST_PRINTED] + _CUT
        self._seconds += turn.seconds
        for asked in turn.asked:
            self._begin(asked)
        if turn.dump is not None and self._seconds > self._limits.seconds:
            turn.dump, turn.limit = None, "seconds"

    def _begin(self, asked: AskedCall) -> None:
        number = len(self.calls)
        call = MadeCall(asked.function)
        self.calls.append(call)
        pending: JsonObject = {
            "number": number, "function": asked.function, "given": asked.given, "problem": asked.problem,
            "is_first": not self._has_results,
        }  # fmt: skip
        # Counted now, in the order in which the program asks, not when the call has its turn.
        key = _digest(asked.function, pending["given"])
        pending["place"] = f"{key}.{self._counts[key]}"
        self._counts[key] += 1
        self._start(asked.id, pending)

    def _start(self, id: int, pending: JsonObject) -> None:
        self._pending[id] = pending
        self._tasks[id] = asyncio.create_task(self._made(pending), name=pending["function"])

    async def _next(self, dump: bytes, modules: Modules) -> SandboxTurn:
        """Goes on with the program as soon as it has a result."""
        await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        if any(isinstance(_problem(task), Interruption) for task in self._tasks.values()):
            await self._pause(dump)
        settled: dict[int, Any] = {}
        for id, task in list(self._tasks.items()):
            if task.done():
                settled[id] = task.result()
                del self._tasks[id], self._pending[id]
        self._has_results = True
        left = self._limits.calls - len(self.calls)
        return await self._sandbox.go_on(dump, settled, modules, self._client, left)

    async def _pause(self, dump: bytes | None) -> None:
        """Raises the question for which the program waits, having kept the program. What else is under way
        ends first: it is on record then."""
        await asyncio.wait(self._tasks.values())
        problems = [_problem(task) for task in self._tasks.values()]
        question = next(one for one in problems if isinstance(one, Interruption))
        if dump is not None and len(dump) <= MOST_KEPT:
            state: JsonObject = {
                "dump": base64.b64encode(dump).decode(),
                "pending": [[id, pending] for id, pending in self._pending.items()],
                "counts": dict(self._counts),
                "calls": [call.to_dict() for call in self.calls],
                "printed": self._printed,
                "seconds": self._seconds,
            }

            async def kept(_: Host) -> JsonObject:
                return state

            await self._place.remember("dump", self._kept, kept)
        raise question

    async def _restored(self) -> SandboxTurn | None:
        """Returns the program where it waited last, with the calls begun that it waits for."""
        from spindle.code_mode.sandbox import SandboxTurn

        state: JsonObject | None = None
        while (found := self._place.recall("dump", self._kept)) is not None:
            state, self._kept = found, self._kept + 1
        if state is None:
            return None
        dump = base64.b64decode(state["dump"])
        if not await self._sandbox.can_load(dump, self._client):
            return None
        self._counts = Counter(state["counts"])
        self.calls = [MadeCall(**call) for call in state["calls"]]
        self._printed, self._seconds = state["printed"], state["seconds"]
        self._has_results = True  # nothing that it asks for later is taken for clean
        for id, pending in state["pending"]:
            self._start(id, pending)
        return SandboxTurn(dump=dump)

    # --- a call

    async def _made(self, pending: JsonObject) -> JsonObject:
        """Makes a call. Returns its result as the sandbox takes it, also where it failed."""
        call: MadeCall = self.calls[int(pending["number"])]
        try:
            function = self._library.at(pending["function"])
            call.tool = function.tool
            if pending["problem"] is not None:
                raise TypeError(pending["problem"])
            tool = await self._library.tool(function)
            arguments = arguments_in(tool, pending["given"])
            place = self._place.branch(pending["place"])
            result = await self._make(place, function.tool, arguments, pending["is_first"])
            if result.is_error:
                raise error_of(tool, result)
            value = value_of(await place.kept(result), tool, place.parses(tool))
        except SpindleError as error:
            if error.category == "cancelled":
                raise
            call.outcome = error.category
            return {"exc_type": _RAISED.get(error.category, "RuntimeError"), "message": _said(error)}
        except (TypeError, ValueError) as error:
            call.outcome = "invalid_arguments"
            return {"exc_type": "TypeError", "message": str(error)}
        call.outcome = "ok"
        return {"return_value": value}

    # --- the end

    async def _ended(self, turn: SandboxTurn) -> CodeResult:
        if self._tasks:
            # Calls that nobody awaits are made all the same, and how they ended is part of the story.
            await asyncio.wait(self._tasks.values())
            if any(isinstance(_problem(task), Interruption) for task in self._tasks.values()):
                await self._pause(None)
            for task in self._tasks.values():
                task.result()
            self._tasks.clear()
        if turn.limit is not None:
            hint = "return only what is needed" if turn.limit == "value" else "do less in one program"
            told = f"the program {_LIMITS[turn.limit].format(self._limits)}"
            raise failed(told, self.calls, self._printed, hint=hint)
        if turn.failure is not None:
            raise failed(f"the program failed:\n{turn.failure}", self.calls, self._printed)
        return CodeResult(turn.value, self._printed, self.calls)


async def _begun(_: Host) -> JsonObject:
    return {"at": time.time()}


def _problem(task: asyncio.Task[Any]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _said(error: SpindleError) -> str:
    hint = error.hint_for("model")
    return error.message if hint is None else f"{error.message} (hint: {hint})"


def _digest(function: str, given: JsonObject) -> str:
    return hashlib.sha256(function.encode() + b"\0" + canonical(given)).hexdigest()[:16]
