"""Starts runs, stops them when a person is needed, and resumes them, in this process or another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.caller import DEFAULT_OPTIONS, CallOptions, Clock
from spindle.domain.call import Progress, Result, new_id
from spindle.domain.identity import names_approver
from spindle.domain.run import Pause, Run, RunEvent
from spindle.errors import (
    ClientError,
    NotFoundError,
    PermissionDeniedError,
    SpindleError,
    suggest,
)
from spindle.remedies import Remedy
from spindle.runs.answered import Answered, answer_of, unanswerable
from spindle.runs.answers import checked_answer, is_refusal
from spindle.runs.connecting import KIND as CONNECT
from spindle.runs.executions import Executions, Work
from spindle.runs.once import CallsOnce
from spindle.runs.outcomes import Continuing, Finished, OpenPause, Outcome, open_content, opened, outcome_of
from spindle.runs.record import kept
from spindle.runs.submissions import Submissions
from spindle.runs.tasks import KIND as TASK
from spindle.runs.tasks import Tasks
from spindle.runs.tasks import work as task_work
from spindle.runs.waits import DueRuns

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import Caller
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.engine import Engine
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.journal import RunJournal

AT_ONCE = 8
"""Runs that one consent sets going at the same time."""


class Runner:
    """Starts and resumes runs, and lists the pauses in which they wait."""

    def __init__(
        self,
        caller: Caller,
        store: RunStore,
        sealer: Sealer,
        note: Note,
        clock: Clock = Clock(),  # noqa: B008 - frozen
        works: Mapping[str, Work] | None = None,
        engine: Callable[[], Engine] | None = None,
    ) -> None:
        self._caller = caller
        self._store = store
        self._sealer = sealer
        self._note = note
        self._clock = clock
        known = {**(works or {}), TASK: task_work}
        self._executions = Executions(caller, store, sealer, note, clock, known)
        self.submissions = Submissions(self._executions, store, sealer, clock, self, note, engine)
        self.tasks = Tasks(self, self.submissions, store, note)
        self.due = DueRuns(self, store, clock.now, note)
        self._once = CallsOnce(self, self._executions, store)
        self.owner = self._executions.owner
        """The name of this process as the holder of runs."""

    # --- what a user does

    def run(
        self, tool: str, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Awaitable[Outcome]:
        """Calls a tool that may stop for a person and continue later."""
        if options.run_id is not None:
            return self._once.call(tool, dict(arguments or {}), options)
        return self._executions.call(tool, dict(arguments or {}), options)

    async def start(
        self,
        kind: str,
        name: str,
        given: JsonObject,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        id: str | None = None,
        work: Work | None = None,
    ) -> Outcome:
        """Starts a run of any kind of work. `given` is all that another process needs to continue it. `work`
        does it here, for a caller that has already prepared what would else be made of `given`. `id` is for a
        caller that must know the run's id before it ends."""
        run = self._executions.new_run(kind, name, options, id or new_id())
        journal = self._executions.journal(run, kept(given, options))
        return await self._executions.execute(journal, options, work)

    async def begin(
        self,
        kind: str,
        name: str,
        given: JsonObject,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        id: str | None = None,
        work: Work | None = None,
    ) -> tuple[str, Coroutine[Any, Any, Outcome]]:
        """The same in two parts, for a caller that must know that the run is stored before it ends: returns
        its id, and what executes it. Raises StoreError if it cannot be stored."""
        run = self._executions.new_run(kind, name, options, id or new_id())
        journal = self._executions.journal(run, kept(given, options))
        await journal.save()
        return journal.run.id, self._executions.execute(journal, options, work)

    async def connect(self, source: str, options: CallOptions = DEFAULT_OPTIONS) -> Outcome:
        """Connects a user to a source, as the settings of the source say, and lists its tools. One run for
        each user and source waits for the consent, however often it is asked for."""
        waiting = await self._store.runs(
            limit=1, status="paused", principal=options.principal.id, kind=CONNECT, name=source
        )
        for run in waiting:
            with contextlib.suppress(ClientError):  # another process has just taken it
                return await self.resume(run.id, on_progress=options.on_progress)
        return await self.start(CONNECT, source, {"source": source}, options)

    async def resume(
        self,
        token: str,
        answer: Any = None,
        *,
        refused: str | None = None,
        principal: Principal | None = None,
        on_progress: Progress | None = None,
    ) -> Outcome:
        """Answers a pause and resumes its run. With the id of a run: resumes it where its process died, or
        answers the only pause that it has."""
        pause = await self._store.pause(token)
        if pause is None:
            return await self._resume_run(token, answer, refused, principal, on_progress)
        reply = await self._reply(pause, answer, refused, principal)
        return await self._answer([pause], reply, on_progress)

    async def accept(
        self, pause: OpenPause, answer: Any = None, *, refused: str | None = None, principal: Principal | None
    ) -> Coroutine[Any, Any, Outcome] | None:
        """Takes the answer to a pause, as `resume` does, and returns what continues its run; None if the
        process that executes the run goes on with it."""
        found = await self._store.pause(pause.token)
        if found is None:
            raise NotFoundError(f"there is no pause {pause.token!r}")
        reply = await self._reply(found, answer, refused, principal)
        return self._continue(found.run, None) if await self._claimed([found], reply) else None

    async def _reply(
        self, pause: Pause, answer: Any, refused: str | None, principal: Principal | None
    ) -> JsonObject | None:
        """Returns an answer in the form in which it is kept, having checked it and who gives it."""
        self._check_answerer(principal, pause, refuses=is_refusal(answer, refused))
        await self._check_waiting(pause)
        content = open_content(self._sealer, pause)
        reply = await checked_answer(pause, content["details"], answer, refused, self._caller)
        if reply is None:
            return None
        return {**reply, "at": self._clock.now()} | ({"by": principal.id} if principal is not None else {})

    async def cancel(self, run: Run, why: str) -> None:
        """Ends a run that does not execute here. Who executes it learns of it at its next write or lease."""
        await self.submissions.cancel(run, why)

    def may_approve(self, pause: Pause | OpenPause, principal: Principal) -> bool:
        """True if a principal may answer a request for approval. One that a tool makes itself is a question
        to its caller; one that settings or a flow make is answered by those that they name."""
        if pause.source is None:
            details = pause.details if isinstance(pause, OpenPause) else self.details(pause).details
            if "approvers" in details:
                return names_approver(details["approvers"], principal, pause.principal)
            return principal.id == pause.principal.id
        return self._caller.lets_approve(pause.source, principal, pause.principal)

    def _check_answerer(self, given: Principal | None, pause: Pause, *, refuses: bool) -> None:
        """Raises PermissionDeniedError for a principal who may not answer. Without one it is the owner, who
        answers from outside of all calls."""
        if given is None or (given.id == pause.principal.id and (refuses or pause.kind != "approval")):
            return
        if pause.kind != "approval":
            raise PermissionDeniedError(f"{given.id!r} may not answer for another user")
        if not self.may_approve(pause, given):
            raise PermissionDeniedError(
                f"{given.id!r} may not approve this call", remedy=Remedy("ask_approver", pause.token)
            )

    async def decisions(self, run: str) -> list[JsonObject]:
        """Returns what people have decided about the calls of a run: the `tool`, if it was `approved` or said
        to be `done`, and `by` whom."""
        found: list[JsonObject] = []
        for pause in await self._store.pauses(run=run, waiting=False):
            said = self.answer_of(pause)
            if pause.kind == "approval" and said is not None:
                is_done = said.decision == "done"
                decision = {"done": True} if is_done else {"approved": said.decision != "refused"}
                found.append({"tool": pause.tool, **decision, "by": said.by})
        return found

    async def resume_consent(
        self, source: str, principal: Principal, denied: str | None = None
    ) -> list[Outcome | SpindleError]:
        """Resumes every run that waited for this consent, or tells it that the user refused."""
        waiting: dict[str, list[Pause]] = {}
        for pause in await self._store.pauses(source=source, principal=principal.id):
            if pause.kind == "consent":
                waiting.setdefault(pause.run, []).append(pause)
        reply = {"refused": denied} if denied is not None else None
        places = asyncio.Semaphore(AT_ONCE)

        async def one(pauses: list[Pause]) -> Outcome | SpindleError:
            async with places:
                try:
                    return await self._answer(pauses, reply, None)
                except SpindleError as error:
                    self._note(f"run {pauses[0].run} went on after a consent and failed: {error.message}")
                    return error

        return list(await asyncio.gather(*(one(pauses) for pauses in waiting.values())))

    async def pauses(
        self,
        *,
        principal: Principal | None = None,
        run: str | None = None,
        approver: Principal | None = None,
        source: str | None = None,
    ) -> list[OpenPause]:
        """Returns the pauses that can be answered, the oldest first. `approver`: only those of others that
        this principal may approve."""
        found = await self._store.pauses(run=run, principal=principal and principal.id, source=source)
        if approver is not None:
            approvals = [pause for pause in found if pause.kind == "approval"]
            found = [pause for pause in approvals if self.may_approve(pause, approver)]
        return [self.details(pause) for pause in found if not self._has_expired(pause)]

    async def asked(self, run: str) -> int:
        """Returns how many pauses a run has had."""
        return len(await self._store.pauses(run=run, waiting=False))

    def details(self, pause: Pause) -> OpenPause:
        """Returns the pause with all that its person needs to see."""
        return opened(self._sealer, pause)

    def answer_of(self, pause: Pause) -> Answered | None:
        """Returns what a pause was answered; None if it was not."""
        return answer_of(self._sealer, pause)

    async def keep_newest(self, principal: Principal, most: int) -> None:
        """Gives up the oldest calls of a principal that wait for people, so that no more than `most` do."""
        waiting = await self._store.runs(limit=-1, status="paused", principal=principal.id, kind="call")
        for run in waiting[most:]:
            await self._executions.give_up(run.id, f"more than {most} calls of {principal.id!r} were waiting")

    def suspend(self, run: str) -> bool:
        """Lets a run that executes here come to rest: steps in flight end, all else is done again when it is
        resumed by its id. Callers that wait for its outcome get `Paused`. False: it does not execute here."""
        return self._executions.suspend(run)

    def executes(self, run: str) -> bool:
        """True if a run executes in this process."""
        return run in self._executions.running

    def let_go(self, run: str) -> None:
        """Ends the work on a run in this process without a word of it: another goes on with it once its lease
        has run out, and judges what was begun."""
        self._executions.let_go(run)

    async def close(self) -> None:
        """Ends the work of tasks, stops renewing the leases of runs, and closes the engine."""
        await self.tasks.close()
        await self._executions.close()
        await self.submissions.close()

    # --- resuming

    async def _answer(
        self, pauses: list[Pause], reply: JsonObject | None, on_progress: Progress | None
    ) -> Outcome:
        """Answers pauses of one run, and resumes it unless another process executes it."""
        run_id = pauses[0].run
        if await self._claimed(pauses, reply):
            return await self._continue(run_id, on_progress)
        return await self._executed_elsewhere(run_id)

    async def _claimed(self, pauses: list[Pause], reply: JsonObject | None) -> bool:
        """Keeps the answer to pauses of one run. True: the run is now this process's to continue."""
        is_ours = False
        for pause in pauses:
            sealed = self._sealer.seal(reply, f"answer:{pause.token}") if reply is not None else None
            now = self._clock.now()
            lease = self._executions.leases.seconds
            claim = await self._store.claim(pause.token, sealed, self.owner, lease, now)
            is_ours |= claim == "claimed"
            if claim not in ("claimed", "noted") and len(pauses) == 1:
                raise await self._unanswerable(claim, await self._store.pause(pause.token) or pause)
        return is_ours

    async def _executed_elsewhere(self, run_id: str) -> Outcome:
        here = self._executions.running.get(run_id)
        return Continuing(run_id) if here is None else await asyncio.shield(here)

    async def _continue(self, run_id: str, on_progress: Progress | None) -> Outcome:
        """Continues a run that this process has taken over: here, or where it was submitted to."""
        journal = await self._executions.load(run_id)
        while run_id in self._executions.running:
            # It was taken twice here, while this process stood still; or it was about to rest when answered.
            if (outcome := await self._executions.rest(run_id)) is not None:
                return outcome
            journal = await self._executions.load(run_id)
        if await self.submissions.hand_over(journal):
            return Continuing(run_id)
        journal.add_event(RunEvent(run_id, "resumed", self._clock.now()))
        return await self.go_on(journal, on_progress)

    async def go_on(self, journal: RunJournal, on_progress: Progress | None = None) -> Outcome:
        """Executes a run that this process has taken over, from its record."""
        run, given = journal.run, journal.given
        options = CallOptions(
            run.principal,
            given["timeout"],
            on_progress,
            use_cache=given["use_cache"],
            raise_tool_errors=given["raise_tool_errors"],
            for_model=given.get("for_model", False),
        )
        return await self._executions.execute(journal, options)

    async def _resume_run(
        self,
        id: str,
        answer: Any,
        refused: str | None,
        principal: Principal | None,
        on_progress: Progress | None,
    ) -> Outcome:
        run = await self._store.run(id) if id else None
        if run is None:
            known = [pause.token for pause in await self._store.pauses()]
            meant = suggest(id, known)
            hint = f"did you mean {meant}?" if meant else None
            remedy = None if meant else Remedy("list_pauses")
            raise NotFoundError(f"there is no pause and no run {id!r}", hint=hint, remedy=remedy)
        _check_principal(principal, run.principal)
        if answer is not None or refused is not None:
            waiting = [pause for pause in await self.pauses(run=run.id) if pause.kind != "wait"]
            if len(waiting) != 1:
                tokens = ", ".join(pause.token for pause in waiting)
                raise ClientError(
                    f"run {run.id} has {len(waiting)} pauses that can be answered",
                    hint=f"say which: {tokens}" if waiting else "resume it without an answer",
                )
            token = waiting[0].token
            return await self.resume(
                token, answer, refused=refused, principal=principal, on_progress=on_progress
            )
        if run.status in ("done", "failed"):
            return Finished(run.id, await self.outcome(run))
        if run.id in self._executions.running or run.status == "queued":
            return await self._executed_elsewhere(run.id)
        lease = self._executions.leases.seconds
        if not await self._store.take_run(run.id, self.owner, lease, self._clock.now()):
            raise ClientError(
                f"another process executes run {run.id}",
                hint=f"if that process has died, try again in {lease:g} s",
            )
        return await self._continue(run.id, on_progress)

    async def outcome(self, run: Run) -> Result:
        """Returns the result of a run that has ended; raises the error if it failed."""
        return await outcome_of(self._store, self._sealer, run.id)

    async def _check_waiting(self, pause: Pause) -> None:
        if pause.state != "waiting":
            raise await self._unanswerable("used", pause)
        if self._has_expired(pause):
            raise await self._unanswerable("expired", pause)

    async def _unanswerable(self, claim: str, pause: Pause) -> SpindleError:
        said = self.answer_of(pause) if claim == "used" else None
        return unanswerable(claim, pause, await self._store.run(pause.run), said)

    def _has_expired(self, pause: Pause) -> bool:
        return pause.expires_at is not None and pause.expires_at <= self._clock.now()


def _check_principal(given: Principal | None, wanted: Principal) -> None:
    if given is not None and given.id != wanted.id:
        raise PermissionDeniedError(f"{given.id!r} may not answer for another user")
