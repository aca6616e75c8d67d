"""The steps of a run: made once, recorded, and answered from the record when the run is executed again.

A step is known by its place: the step during which it is made, the tool, the arguments and principal, and
how many such calls were made there before. So parallel calls may come in any order, and a program that
changed its arguments since never gets the result of another call.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.calls.doubt import decided
from spindle.calls.journal import Journal, current_journal
from spindle.calls.known_secrets import identified
from spindle.domain.call import Reply, Result
from spindle.domain.json_schema import JsonObject, survives_json, to_json
from spindle.errors import AuthError, Interruption, SpindleError, StoreAwayError, interruption_in
from spindle.runs.outcomes import read
from spindle.runs.record import mark_of, origin_in
from spindle.runs.waits import OVER

if TYPE_CHECKING:
    from spindle.domain.doubt import InDoubt
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.identity import Principal
    from spindle.domain.run import Begun
    from spindle.runs.journal import RunJournal
    from spindle.runs.stops import Branches

T = TypeVar("T")
WORK = "runs"
"""Stands for the source of work that is no tool's."""
Make = Callable[[Journal | None], Awaitable[Result]]


class RunPlace:
    """One place in a run: the run itself, or one of its steps."""

    def __init__(
        self,
        journal: RunJournal,
        path: str = "",
        principal: Principal | None = None,
        branches: Branches = (),
        policy: TrustPolicy | None = None,
    ) -> None:
        self.policy = policy
        self._journal = journal
        self._path = path
        self._principal = principal
        self._branches = branches
        self._is_outer = self.has_own_task = False
        """True for the one step that is the work of the whole run."""
        self._is_begun = False
        self._made: dict[str, int] = {}
        """By kind of step, how many were made here."""

    async def step(self, tool: str, arguments: Mapping[str, Any], principal: Principal, make: Make) -> Result:
        journal = self._journal
        journal.refuse_when_lost()
        if journal.has_ended:
            return await make(None)  # something that the run left behind, and lives on its own
        place = self._place_of(tool, arguments, principal)
        recorded = journal.outcome(place._path)
        if recorded is not None:
            return read(recorded)
        journal.stops.refuse(place._path, self._branches)
        await journal.check_lease()
        if place._is_outer:
            return await place._in_force(make)
        place.has_own_task = True
        # A task of its own: when one of several calls pauses, a program gives up the others, but what they
        # have begun is worth keeping.
        ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(place._recorded(make, ended), name=f"step {tool}")
        journal.tasks.add(task)
        task.add_done_callback(partial(journal.step_ended, ended))
        try:
            return await ended
        except asyncio.CancelledError:
            if journal.stops.reason(self._branches) is None:
                task.cancel()
                await asyncio.wait([task])
            raise

    def outer(self, tool: str, arguments: Mapping[str, Any], principal: Principal) -> RunPlace:
        """Returns the place of the one call that is the whole run, which began before there was a run."""
        return self._place_of(tool, arguments, principal)

    def _place_of(self, tool: str, arguments: Mapping[str, Any], principal: Principal) -> RunPlace:
        path = self._next(f"/{tool}:{_digest(identified(arguments), principal.id)}")
        place = RunPlace(self._journal, path, principal, self._branches, self.policy)
        place._is_outer = not self._path
        return place

    async def remember(
        self,
        name: str,
        key: Any,
        make: Callable[[Journal | None], Awaitable[Any]],
        *,
        in_doubt: InDoubt = "repeat",
    ) -> Any:
        journal = self._journal
        journal.refuse_when_lost()
        if journal.has_ended:
            return await make(None)
        path = self._next(f"/{name}:{_digest(identified(key))}")
        recorded = journal.outcome(path)
        if recorded is not None:
            return read(recorded).structured
        journal.stops.refuse(path, self._branches)
        await journal.check_lease()
        place = RunPlace(journal, path, self._principal, self._branches, self.policy)

        async def judged(_: Journal | None) -> Any:
            begun = place.begun()
            if begun is not None:
                # Nobody's settings say who may decide about it: its owner does.
                said = decided(name, in_doubt, begun, {"work": name}, place, source=WORK, tool=name)
                if said is not None:
                    return said.get("result")
            if in_doubt != "repeat":
                await place.begin(keyed=False)
            return await make(place)

        value = await place._in_force(judged)
        if survives_json(value):
            await journal.record(path, Result(structured=value, has_structured=True))
        elif place._is_begun:
            journal.stopped(path)  # it is known that it was done, and that it is done again
        return value

    def recall(self, name: str, key: Any) -> Any:
        made = f"/{name}:{_digest(key)}"
        recorded = self._journal.outcome(f"{self._path}{made}:{self._made.get(made, 0)}")
        return None if recorded is None else read(recorded).structured

    def branch(self, name: str) -> RunPlace:
        path = self._next(f"/{name}")
        return RunPlace(self._journal, path, self._principal, (*self._branches, path), self.policy)

    def give_up(self) -> None:
        self._journal.withdraw(self._path)

    @property
    def run(self) -> str:
        return self._journal.run.id

    @property
    def step_id(self) -> str:
        return _digest(self._journal.run.id, self._path)

    def begun(self) -> Begun | None:
        return self._journal.begun(self._path)

    async def begin(self, *, keyed: bool) -> None:
        journal = self._journal
        # Nobody else knows yet of a run that has made no step and has not paused.
        is_known = journal.is_stored or not self._is_outer
        if is_known and not self._is_begun and not journal.is_program(self._path):
            await journal.begin(self._path, keyed=keyed)
            self._is_begun = True

    async def confirm(self) -> None:
        await self._journal.check_lease()

    def note(self, name: str, data: JsonObject) -> bool:
        return self._journal.note(f"{self._path}#{name}", data)

    @property
    def untrusted(self) -> str | None:
        known = self._journal.known
        return None if self._path in known.before else known.untrusted

    def mark_untrusted(self, origin: str = "") -> None:
        known, path = self._journal.known, mark_of(self._path, origin)
        # Written in one go with the outcome of the step, and before those of later ones.
        if known.untrusted is None and self._journal.note(path, {"kind": "untrusted"}):
            known.untrusted = origin_in(path)

    def ask(self, question: Interruption) -> Reply:
        asked = [question.about, question.details]
        path = self._next(f"?{question.kind}:{_digest(identified(asked))}")
        reply = self._journal.reply(path)
        if reply is None and self._journal.is_over(question, path):
            return Reply(state=OVER)
        if reply is None:
            raise self._journal.ask(question, path, self._principal, self._branches)
        return reply

    def reply(self) -> Reply | None:
        replies = self._replies()
        return replies[-1] if replies else None

    def _replies(self) -> list[Reply]:
        """To what the source itself asked at this place, one round after the other."""
        found: list[Reply] = []
        while (reply := self._journal.reply(f"{self._path}?input:{len(found)}")) is not None:
            found.append(reply)
        return found

    def _next(self, key: str) -> str:
        number = self._made.get(key, 0)
        self._made[key] = number + 1
        return f"{self._path}{key}:{number}"

    async def _recorded(self, make: Make, ended: asyncio.Future[Result]) -> None:
        try:
            result = await self._in_force(make)
        except SpindleError as error:
            # What the program was told is part of its history, except that it was given up.
            if error.category != "cancelled":
                await self._journal.record(self._path, error)
            raise
        await self._journal.record(self._path, result)
        if not ended.done():
            ended.set_result(result)

    async def _in_force(self, make: Callable[[Journal | None], Awaitable[T]]) -> T:
        token = current_journal.set(self)
        try:
            if self._journal.has_paused:
                self._refuse_without_consent()
                asked = self._journal.asked_before(f"{self._path}?input:{len(self._replies())}")
                if asked is not None:
                    raise asked
            result = await make(self)
        except BaseException as error:
            self.raise_end(error)
            raise
        finally:
            current_journal.reset(token)
        self.raise_swallowed()
        return result

    def raise_end(self, error: BaseException) -> None:
        """Raises the question because of which the work at this place ends, if there is one, having noted it.
        `error` is what the work raised."""
        question = interruption_in(error)
        if question is None:
            if isinstance(error, StoreAwayError) and self._journal.run.queue is not None:
                # Nobody waits for it here: a worker goes on with it when the store is back.
                self._journal.lose()
                self._journal.refuse_when_lost()
            if isinstance(error, Exception):
                self.raise_swallowed()
            return
        if all(question is not known for known in self._journal.stops.inside(self._path)):
            # Raised on the way or by the source, not asked for through us. Others may be told the same:
            # calls that need one consent share the request for it.
            count = f":{len(self._replies())}" if question.kind == "input" else ""
            path = f"{self._path}?{question.kind}{count}"
            self._journal.ask(question, path, self._principal, self._branches)
        if self._is_begun:
            self._journal.stopped(self._path)
        raise question from None

    def raise_swallowed(self) -> None:
        """A program that catches everything must not go on as if a person had answered."""
        for swallowed in self._journal.stops.inside(self._path):
            raise swallowed

    def _refuse_without_consent(self) -> None:
        reply = self._journal.reply(f"{self._path}?consent")
        if reply is not None and reply.refused is not None:
            reason = f": {reply.refused}" if reply.refused else ""
            raise AuthError(
                f"consent was not given{reason}", hint="run it again to be asked again", sent=False
            )


def _digest(*parts: Any) -> str:
    return hashlib.sha256(to_json(parts, sort_keys=True, default=repr)).hexdigest()[:16]
