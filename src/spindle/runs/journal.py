"""The record of one run while it executes: which steps are done, what people answered, what is asked now.

A step is known by its place: the step during which it is made, the tool, the arguments and principal, and
how many such calls were made there before. So parallel calls may come in any order, and a program that
changed its arguments since never gets the result of another call.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.calls.journal import Journal, current_journal
from spindle.domain.call import Reply, Result
from spindle.domain.json_schema import JsonObject, from_json, survives_json, to_json
from spindle.domain.run import Pause, Run, RunEvent
from spindle.errors import (
    AuthError,
    CancelledCallError,
    InputRequired,
    Interruption,
    SpindleError,
    StoreError,
    interruption_in,
)
from spindle.runs.outcomes import open_content, read, written

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.identity import Principal
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore

T = TypeVar("T")
Make = Callable[[Journal | None], Awaitable[Result]]


class RunJournal:
    """One execution of a run, from its start or resumption to its end or next pause."""

    def __init__(
        self,
        run: Run,
        given: JsonObject,
        store: RunStore,
        sealer: Sealer,
        now: Callable[[], float],
        note: Note,
        *,
        history: Sequence[RunEvent] = (),
        pauses: Sequence[Pause] = (),
        is_stored: bool = False,
    ) -> None:
        self.run = run
        self.given = given
        self.is_stored = is_stored
        """True once others can know of the run. One that makes no steps and does not pause is never
        stored."""
        self.asked: dict[str, Pause] = {}
        """By place, the pauses that this execution has come to."""
        self.replaced: list[Pause] = []
        """Pauses that must not be answered any more, because the same is asked anew."""
        self.tasks: set[asyncio.Task[Result]] = set()
        self.has_ended = False
        self.is_suspended = False
        self._store = store
        self._sealer = sealer
        self._now = now
        self._note = note
        self._outcomes = {event.path: event.sealed for event in history if event.kind == "step"}
        self._noted = {event.path for event in history if event.kind == "note"}
        self._waiting = {pause.path: pause for pause in pauses if pause.state == "waiting"}
        self._answered = {pause.path: pause for pause in pauses if pause.answer is not None}
        self._first: Interruption | None = None
        self._stopped: list[tuple[str, Interruption]] = []
        """Places at which something was asked, or not begun because of that."""
        self._unsaved: list[RunEvent] = []
        self._saving = asyncio.Lock()

    @property
    def root(self) -> Journal:
        """The place of the run itself, above all its steps."""
        return _RunPlace(self, "")

    # --- steps

    def outcome(self, path: str) -> JsonObject | None:
        """Returns the recorded outcome of the step at this place, or None."""
        sealed = self._outcomes.get(path)
        return None if sealed is None else self._sealer.open(sealed, f"run:{self.run.id}:{path}")

    async def record(self, path: str, outcome: Result | SpindleError) -> None:
        """Returns when the outcome would survive the death of this process."""
        sealed = self._sealer.seal(written(outcome), f"run:{self.run.id}:{path}")
        self._unsaved.append(RunEvent(self.run.id, "step", self._now(), path, sealed))
        try:
            await self.save()
        except StoreError as error:
            # The step has done its work. What could not be written goes with the next that can.
            self._note(f"a step of run {self.run.id} could not be recorded: {error.message}")

    async def save(self, run: Run | None = None, pauses: Sequence[Pause] = ()) -> None:
        """Writes what is not written yet; with `run`, also how the run stands now."""
        async with self._saving:
            events, self._unsaved = self._unsaved, []
            try:
                if run is None and self.is_stored:
                    await self._store.save_events(events)
                    return
                started: list[RunEvent] = []
                if not self.is_stored:
                    sealed = self._sealer.seal(self.given, f"run:{self.run.id}:started")
                    started = [RunEvent(self.run.id, "started", self.run.created_at, sealed=sealed)]
                await self._store.save_run(run or self.run, [*started, *events], pauses)
                self.is_stored = True
            except BaseException:
                self._unsaved = [*events, *self._unsaved]
                raise

    def note(self, path: str, data: JsonObject) -> bool:
        """Adds a note, to be written with the next `save`. One that is lost with this process is made
        again when the run passes the same place."""
        if path in self._noted or self.has_ended:
            return False
        self._noted.add(path)
        sealed = self._sealer.seal(data, f"run:{self.run.id}:{path}")
        self.add_event(RunEvent(self.run.id, "note", self._now(), path, sealed))
        return True

    def add_event(self, event: RunEvent) -> None:
        """Adds an event, to be written with the next `save`."""
        self._unsaved.append(event)

    async def check_lease(self) -> None:
        """Raises CancelledCallError if another process took the run over while this one slept."""
        lease = self.run.lease_until
        if not self.is_stored or lease is None or self._now() < lease:
            return
        stored = await self._store.run(self.run.id)
        if stored is not None and stored.owner != self.run.owner:
            raise CancelledCallError(f"another process went on with run {self.run.id}", sent=False)

    def step_ended(self, task: asyncio.Task[Result]) -> None:
        """Forgets the task of a step that has ended."""
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever made the call may have been given up; it is recorded all the same

    # --- stopping

    @property
    def is_stopping(self) -> bool:
        """True once the run is about to pause."""
        return self._first is not None

    def suspend(self) -> None:
        """Lets no new step begin, because the run is to rest although it asks for nothing."""
        self.is_suspended = True
        self._first = self._first or InputRequired(f"run {self.run.id} was suspended")

    def refuse_when_stopping(self, path: str) -> None:
        """Raises once the run is about to pause: no new step begins, since what follows an answer must wait
        for it."""
        if self._first is not None:
            self._stopped.append((path, self._first))
            raise self._first

    def stops_below(self, path: str) -> list[Interruption]:
        """Returns the pauses because of which a step at this place has not really ended, whatever it
        returned."""
        return [why for stop, why in self._stopped if stop.startswith((f"{path}/", f"{path}?"))]

    def reply(self, path: str) -> Reply | None:
        """Returns the answer to the question that was asked at this place, or None."""
        pause = self._answered.get(path)
        if pause is None or pause.answer is None:
            return None
        given = self._sealer.open(pause.answer, f"answer:{pause.token}")
        return Reply(given.get("answer"), given.get("refused"), self._content(pause)["state"])

    def asked_before(self, path: str) -> Interruption | None:
        """Returns the source's unanswered question at this place, so that the source need not ask again."""
        pause = self._waiting.get(path)
        if pause is None or self._has_expired(pause):
            return None
        content = self._content(pause)
        return InputRequired(
            content["message"], source=pause.source, tool=pause.tool, expires_at=pause.expires_at,
            details=content["details"], state=content["state"],
        )  # fmt: skip

    def ask(self, question: Interruption, path: str, principal: Principal | None) -> Interruption:
        """Notes that this is asked here, under the token that it had when it was asked before."""
        content = {
            "message": question.message,
            "details": question.details,
            "state": question.state,
            "expires_at": question.expires_at,
        }
        pause = self._waiting.get(path)
        if pause is not None and self._is_stale(pause, question):
            self.replaced.append(pause)
            pause = None
        if pause is None:
            token = secrets.token_hex(16)
            pause = Pause(
                token, self.run.id, path, question.kind, _in_general(question),
                principal or self.run.principal, self._now(), question.source, question.tool,
                _expiry(question),
                sealed=self._sealer.seal(content, f"pause:{token}"),
            )  # fmt: skip
            self._waiting[path] = pause
        self.asked[path] = pause
        self._stopped.append((path, question))
        self._first = self._first or question
        return question

    def _is_stale(self, pause: Pause, question: Interruption) -> bool:
        if self._has_expired(pause):
            return True
        return self._content(pause)["details"] != from_json(to_json(question.details, default=str))

    def _has_expired(self, pause: Pause) -> bool:
        return pause.expires_at is not None and pause.expires_at <= self._now()

    def _content(self, pause: Pause) -> JsonObject:
        return open_content(self._sealer, pause)


class _RunPlace:
    """One place in a run: the run itself, or one of its steps."""

    def __init__(self, journal: RunJournal, path: str, principal: Principal | None = None) -> None:
        self._journal = journal
        self._path = path
        self._principal = principal
        self._made: Counter[str] = Counter()

    async def step(self, tool: str, arguments: Mapping[str, Any], principal: Principal, make: Make) -> Result:
        journal = self._journal
        if journal.has_ended:
            return await make(None)  # something that the run left behind, and lives on its own
        path = self._next(f"/{tool}:{_digest(arguments, principal.id)}")
        recorded = journal.outcome(path)
        if recorded is not None:
            return read(recorded)
        journal.refuse_when_stopping(path)
        await journal.check_lease()
        place = _RunPlace(journal, path, principal)
        if not self._path:
            return await place._in_force(make)
        # A task of its own: when one of several calls pauses, a program gives up the others, but what they
        # have begun is worth keeping.
        task = asyncio.create_task(place._recorded(make), name=f"step {tool}")
        journal.tasks.add(task)
        task.add_done_callback(journal.step_ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not journal.is_stopping:
                task.cancel()
                await asyncio.wait([task])
            raise

    async def remember(self, name: str, key: Any, make: Callable[[Journal | None], Awaitable[Any]]) -> Any:
        journal = self._journal
        if journal.has_ended:
            return await make(None)
        path = self._next(f"/{name}:{_digest(key)}")
        recorded = journal.outcome(path)
        if recorded is not None:
            return read(recorded).structured
        journal.refuse_when_stopping(path)
        await journal.check_lease()
        value = await _RunPlace(journal, path, self._principal)._in_force(make)
        if survives_json(value):
            await journal.record(path, Result(structured=value, has_structured=True))
        return value

    def note(self, name: str, data: JsonObject) -> bool:
        return self._journal.note(f"{self._path}#{name}", data)

    def ask(self, question: Interruption) -> Reply:
        path = self._next(f"?{question.kind}:{_digest([question.message, question.details])}")
        reply = self._journal.reply(path)
        if reply is None:
            raise self._journal.ask(question, path, self._principal)
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
        self._made[key] += 1
        return f"{self._path}{key}:{self._made[key] - 1}"

    async def _recorded(self, make: Make) -> Result:
        try:
            result = await self._in_force(make)
        except SpindleError as error:
            # What the program was told is part of its history, except that it was given up.
            if error.category != "cancelled":
                await self._journal.record(self._path, error)
            raise
        await self._journal.record(self._path, result)
        return result

    async def _in_force(self, make: Callable[[Journal | None], Awaitable[T]]) -> T:
        token = current_journal.set(self)
        try:
            self._refuse_without_consent()
            asked = self._journal.asked_before(f"{self._path}?input:{len(self._replies())}")
            if asked is not None:
                raise asked
            result = await make(self)
        except BaseException as error:
            question = interruption_in(error)
            if question is None:
                if isinstance(error, Exception):
                    self._raise_swallowed()
                raise
            if all(question is not known for known in self._journal.stops_below(self._path)):
                # Raised on the way or by the source, not asked for through us. Others may be told the same:
                # calls that need one consent share the request for it.
                count = f":{len(self._replies())}" if question.kind == "input" else ""
                self._journal.ask(question, f"{self._path}?{question.kind}{count}", self._principal)
            raise question from None
        finally:
            current_journal.reset(token)
        self._raise_swallowed()
        return result

    def _raise_swallowed(self) -> None:
        """A program that catches everything must not go on as if a person had answered."""
        for swallowed in self._journal.stops_below(self._path):
            raise swallowed

    def _refuse_without_consent(self) -> None:
        reply = self._journal.reply(f"{self._path}?consent")
        if reply is not None and reply.refused is not None:
            reason = f": {reply.refused}" if reply.refused else ""
            raise AuthError(
                f"consent was not given{reason}", hint="run it again to be asked again", sent=False
            )


def closed(run: Run, status: Any, now: float, error: JsonObject | None = None) -> Run:
    """Returns the run as it stands when nobody executes it any more."""
    return replace(run, status=status, updated_at=now, error=error, owner=None, lease_until=None)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(to_json(parts, sort_keys=True, default=repr)).hexdigest()[:16]


def _in_general(question: Interruption) -> str:
    """Returns a message for anybody who reads the store: the question itself may hold the user's own
    words."""
    what = {"consent": "consent", "approval": "approval", "input": "an answer"}[question.kind]
    return f"{question.tool or question.source or 'a tool'} waits for {what}"


def _expiry(question: Interruption) -> float | None:
    # A link that has expired is replaced by a new one when the run goes on, so the pause itself has no end.
    return None if question.kind == "consent" else question.expires_at
