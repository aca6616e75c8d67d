"""The path of a call, top to bottom in one method. Every door leads here."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.calls.cache import ResultCache
from spindle.calls.clock import Clock as Clock
from spindle.calls.content import has_large, keep_large_content
from spindle.calls.deadlines import Deadline
from spindle.calls.doubt import settled, told
from spindle.calls.guards import SourceGuards
from spindle.calls.host import CallHost, PatientPeer, StepWork
from spindle.calls.journal import Journal, current_journal
from spindle.calls.known_secrets import with_known
from spindle.calls.limits import hold, in_order
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.permissions import (
    Permission,
    Visible,
    allow_all,
    approved_arguments,
    reason_for_approval,
    require,
    show_all,
)  # fmt: skip
from spindle.calls.prepared import PreparedTools
from spindle.calls.record import Recorder, ended_by, hide_secrets, secrets_in, without_secrets
from spindle.calls.remarks import Remarks
from spindle.calls.reported import error_of, problem_of, understood
from spindle.calls.retries import may_be_repeated, wait_before_retry
from spindle.calls.running import RunningCall, TracedCall
from spindle.calls.validate import LargeArgumentsError, Validation, has_many_parts
from spindle.domain.call import Call, IdempotencyKey, Result
from spindle.domain.identity import NO_CREDENTIAL, Principal
from spindle.errors import AuthError, PermissionDeniedError, RateLimitedError, ServerError, SpindleError
from spindle.ports.store import DONE
from spindle.telemetry import tracing
from spindle.threads import in_short_turn
from spindle.timers import Timers

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.questions import LocalAnswers
    from spindle.calls.taping import Taping
    from spindle.catalog.catalog import Catalog
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.file_store import FileStore
    from spindle.ports.source import Note
    from spindle.ports.store import Store


_current_call: ContextVar[str | None] = ContextVar("spindle_call", default=None)


class Caller:
    """Makes calls: every door, run, flow and agent calls its tools through this one object."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        files: FileStore,
        credentials: Credentials,
        note: Note,
        *,
        permission: Permission = allow_all,
        visible: Visible = show_all,
        clock: Clock = Clock(),  # noqa: B008 - frozen
    ) -> None:
        self._catalog, self.files, self.note = catalog, files, note
        self._credentials, self.secret = credentials, credentials.secret
        self.permission, self._visible, self._clock = permission, visible, clock
        self._validation = Validation()
        self._cache = ResultCache(store, clock.now, note)
        self.recorder = Recorder(store, note)
        self.guards = SourceGuards(clock.monotonic, clock.sleep, store)
        self._prepared = PreparedTools(self.guards, credentials)
        self._remarks = Remarks(note)
        self.timers = Timers()
        self.answers: LocalAnswers | None = None
        """Those in this process who answer what sources ask, for calls that no other program made."""
        self.taping: Taping | None = None  # records calls on a tape
        self.uses_cache = True
        self.step_work: Callable[[str], StepWork]  # by kind, what steps of runs may be besides calls
        self._running = 0
        self._idle: asyncio.Event | None = None  # of one who waits until no call runs
        tracing.follow(self)

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Coroutine[Any, Any, Result]:
        """Call a tool. Returns its result, also one that reports an error of the tool's own
        (`is_error`); raises a SpindleError when it could not be called or did not answer, and an
        Interruption when a person is wanted first. Made during a run, it is a step of that run."""
        given, journal = dict(arguments or {}), current_journal.get()
        if journal is None:
            return self.make(name, given, options, None)
        return journal.step(
            name, given, options.principal, lambda place: self.make(name, given, options, place)
        )

    async def find(self, name: str, principal: Principal) -> Tool:
        """The tool that a call of this principal would reach."""
        return await self._catalog.find(name, principal, partial(self._visible, principal))

    async def check(self, name: str, arguments: JsonObject) -> None:
        """Raises what is wrong with these arguments for this tool."""
        self._validation.check_arguments(await self._catalog.find(name), arguments)

    async def check_result(self, name: str, value: Any) -> None:
        """Raises InvalidArgumentsError for a value that this tool cannot have returned."""
        tool = await self._catalog.find(name)
        if self._catalog.sources.config(tool.source).check_results is True:
            self._validation.check_told(tool, told(value))

    def config(self, source: str) -> SourceConfig:
        """The settings of a source."""
        return self._catalog.sources.config(source)

    def lets_approve(self, source: str, principal: Principal, caller: Principal) -> bool:
        """True if the settings of a source let this principal approve a call of the caller's."""
        sources = self._catalog.sources
        return source in sources and sources.config(source).lets_approve(principal, caller)

    async def make(
        self, name: str, given: JsonObject, options: CallOptions, journal: Journal | None
    ) -> Result:
        """The same at a place that is known, which `journal` is: None where nothing is remembered."""
        running = RunningCall() if options.on_stage is None else TracedCall(options.on_stage)
        running.started_at, running.parent = self._clock.now(), _current_call.get()
        token = _current_call.set(running.key)
        outcome, problem, result = "ok", None, None
        self._running += 1
        try:
            running.stage, principal = "find", options.principal
            if self.recorder.unsaved.records:
                await self.recorder.unsaved.wait_for_space()
            tool = self._catalog.at_hand(name)
            if tool is None or (self._visible is not show_all and not self._visible(principal, tool.name)):
                tool = await self.find(name, principal)
            running.tool, running.stage = tool, "settings"
            prepared = running.prepared = self._prepared.of(tool, self._catalog.sources)
            config, running.secrets = prepared.config, with_known(prepared.guards.secrets)
            running.stage = "permission"
            if self.permission is not allow_all:
                require(self.permission, options.principal, tool)
            running.stage, key = "validate", None
            if prepared.key_place is not None:
                step = journal.step_id if journal is not None else running.key
                key = IdempotencyKey(*prepared.key_place, step)
                if key.place == "parameter":
                    given = {key.name: key.value, **given}
            if not self._validation.fits(tool, given, prepared.check_formats):
                await self._validation.prepare(tool)
                try:
                    self._validate(tool, given, config, running)
                except LargeArgumentsError:
                    running.is_large = True
                    await in_short_turn(self._validate, tool, given, config, running)
            why = None
            if (journal is not None and journal.policy) or options.approve or prepared.has_approvals:
                why = reason_for_approval(prepared, options, given, journal)
            if why is not None:
                running.stage = "approval"
                allowed = approved_arguments(tool, given, journal, why)
                running.has_changed, running.is_large, given = allowed != given, True, allowed
                self._validate(tool, given, config, running)
            if journal is not None and (begun := journal.begun()) is not None:
                running.stage = "doubt"
                shown = self.recorder.masked(tool, given, running.secrets)
                result = settled(tool, config, begun, shown, journal, keyed=key is not None)
                if result is not None:
                    return result
            running.stage = "credential"
            if (credential := prepared.credential) is None:
                credential = await self._credentials.for_call(tool.source, config, options.principal)
            if credential is not NO_CREDENTIAL:
                running.secrets |= credential.secrets
            host, peer, answers = CallHost(self, options.principal, journal), options.peer, self.answers
            if answers is not None and (prepared.asks_model or answers.on_question is not None):
                peer = answers.peer(tool.source, tool.name, config, host, peer)
            running.timeout = prepared.timeout if options.timeout is None else options.timeout
            running.peer = None if peer is None else PatientPeer(peer, running.timeout)
            call = running.call = Call(
                tool.name, given, options.principal, credential, options.on_progress, running.key,
                running.parent, self.files, host, journal.reply() if journal is not None else None,
                running.peer, options.answers, key, meta=options.meta,
            )  # fmt: skip
            running.stage = "cache"
            ttl = options.cache_ttl if prepared.cache_ttl is None else prepared.cache_ttl
            if ttl is not None and options.use_cache and self.uses_cache:
                result = await self._cache.get(prepared, call, ttl)
            if result is not None:
                outcome = "cached"
            else:
                limit, outer = prepared.guards.limit, options.limits
                running.limits = in_order(outer, limit) if outer else (limit,)
                running.journal = journal if prepared.leaves_doubt else None
                while result is None:
                    taping, make = self.taping, self._attempt
                    attempt = taping.attempt(running, make) if taping is not None else make(running)
                    if tracing.active is not None:
                        attempt = tracing.attempt(running, attempt)
                    try:
                        result = await attempt
                    except SpindleError as error:
                        if not await self._may_go_again(running, error):
                            raise
                    else:
                        if result.meaning is not None:
                            result = await self._last_or_none(running, result)
                if ttl is not None:
                    running.stage = "keep"
                    await self._cache.put(prepared, call, ttl, result)
            if result.is_error:
                named = secrets_in(given, tool.input_schema)
                result = without_secrets(result, running.secrets, named)
                running.secrets |= named
                outcome, problem = result.category or "tool", problem_of(result)
                if options.raise_tool_errors:
                    raise error_of(tool, result)
            elif running.secrets and (options.for_model or (journal is not None and journal.policy)):
                result = without_secrets(result, running.secrets, ())
            if running.has_changed:
                return replace(result, changed=self.recorder.masked(tool, given, running.secrets))
            return result
        except BaseException as error:
            if isinstance(error, SpindleError) and running.tool is not None:
                error.about(source=running.tool.source, tool=running.tool.name)
                hidden = partial(secrets_in, given, running.tool.input_schema)
                running.secrets |= await in_short_turn(hidden) if running.is_large else hidden()
                hide_secrets(error, running.secrets)
            outcome, problem = ended_by(error)
            self.recorder.missed(running.tool, options.principal.id, name)
            raise
        finally:
            try:
                _current_call.reset(token)
                running.stage = "record"
                if running.tool is not None:
                    if journal is not None:
                        running.mark(journal, result)
                    mask, tool, known = self.recorder.masked, running.tool, running.secrets
                    aside = in_short_turn(mask, tool, given, known) if running.is_large else None
                    shown = mask(tool, given, known) if aside is None else await aside
                    record = running.record(shown, given, options, outcome, problem, result, journal)
                    if (saving := self.recorder.save(record, together=self._running > 1)) is not DONE:
                        await saving
                    if options.on_record is not None:
                        options.on_record(record)
            finally:
                self._running -= 1
                if not self._running and self._idle is not None:
                    self._idle.set()

    async def settle(self, seconds: float) -> None:
        """Wait until the calls that run now are recorded, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running:
                    self._idle = asyncio.Event()
                    await self._idle.wait()
        await self.recorder.unsaved.close()

    async def _last_or_none(self, running: RunningCall, result: Result) -> Result | None:
        """The result that reports an error, with what it means; None once the call may be sent again."""
        reported = error_of(running.prepared.tool, result)
        if await self._may_go_again(running, reported):
            return None
        return replace(result, meaning=reported.meaning)

    async def _may_go_again(self, running: RunningCall, error: SpindleError) -> bool:
        """Waits until the call may be sent again. Returns False if it must not be."""
        prepared, call = running.prepared, running.call
        fresh = None if running.has_renewed else await self._fresh_credential(running, error)
        if fresh is not None:
            # A source that refuses a credential has not looked at the request: sending it again is safe.
            running.has_renewed = True
            running.secrets |= fresh.secrets
            running.call = replace(call, credential=fresh)
            return True
        error.retryable = may_be_repeated(error, prepared.tool, prepared.config, keyed=call.is_keyed)
        # A try that was refused has used up none of its time, so that the wait counts into it.
        is_refused = isinstance(error, RateLimitedError)
        left = running.timeout - running.waited if is_refused else math.inf
        wait = wait_before_retry(error, running.attempts, prepared.config.retry, left)
        if wait is None:
            return False
        running.stage = "wait"
        running.waited = running.waited + wait if is_refused else 0.0
        # No limit is held and the breaker is free while waiting.
        await self._clock.sleep(wait)
        journal = current_journal.get()
        if journal is not None:
            await journal.confirm()
        return True

    async def _fresh_credential(self, running: RunningCall, error: SpindleError) -> Credential | None:
        # What a server reports about the work behind it says nothing about the credential that it was shown.
        if error.answered or not isinstance(error, (AuthError, PermissionDeniedError)):
            return None
        prepared, call = running.prepared, running.call
        return await self._credentials.after_refusal(
            prepared.tool.source, prepared.config, call.principal, call.credential, error
        )

    async def _attempt(self, running: RunningCall) -> Result:
        """Sends the call once: within the limits, past the breaker, on a session, in its time."""
        prepared, call = running.prepared, running.call
        tool, source, guards = prepared.tool, prepared.source, prepared.guards
        holder, credential = source.holder_of(call.principal, running.peer), call.credential.key
        if holder:
            credential = f"{credential} {holder}"
        running.stage = "limits"
        left = running.timeout - running.waited
        held = hold(running.limits, call.principal.id, left)
        if not held.at_once():
            guards.breakers.check(prepared.server, credential)  # nobody waits for a source that has failed
            await held.wait()
        if running.peer is not None:
            running.peer.held = held
        try:
            left -= held.waited
            if guards.rate is not None:
                running.stage = "rate"
                guards.breakers.check(prepared.server, credential)
                left -= await guards.rate.acquire(call.principal.id, left)
            # Now that it has its place: the source may have failed while the call waited.
            admission = guards.breakers.enter(prepared.server, credential)
            running.attempts += 1
            try:
                running.stage = "connect"
                use = self._catalog.connections.session(
                    tool.source, source, prepared.config, call.credential, holder,
                    alone=source.runs_alone(call), seconds=left,
                )  # fmt: skip
                session = use.at_once() or await use.opened()
                try:
                    if running.journal is not None and running.journal.run is not None:
                        await running.journal.begin(keyed=call.is_keyed)
                    running.stage = "call"
                    seconds = left - use.waited
                    deadline = Deadline(self.timers, use.task, seconds)
                    if running.peer is not None:
                        running.peer.deadline = deadline
                    try:
                        with deadline:
                            asking: Awaitable[Result] = session.invoke(tool, call)
                            if tracing.active is not None:
                                asking = tracing.source(tool, asking)
                            result = await asking
                    except Exception as error:  # noqa: BLE001 - a source is anybody's code
                        running.fail(error, seconds if deadline.expired else None)
                except BaseException as error:
                    use.leave(error)
                    raise
                use.leave(None)
            except BaseException as error:
                guards.breakers.failed(error, admission)
                raise
            guards.breakers.succeeded(admission)
        finally:
            if held.leave() is not None:
                await held.reclaim()
        running.stage = "check"
        if result.is_error:
            result = understood(result, prepared.config)
        # After the breaker: a tool that breaks its own promise must not close the way to its neighbours.
        elif prepared.checks_results and result.asked is None:
            await self._check(running, result)
        return await keep_large_content(result, self.files, self.note) if has_large(result) else result

    def _validate(self, tool: Tool, given: JsonObject, config: SourceConfig, running: RunningCall) -> None:
        odd = self._validation.check_arguments(tool, given, config.check_formats, aside=running.is_large)
        if odd is not None:
            secrets = running.secrets | secrets_in(given, tool.input_schema)
            running.remark = self._remarks.of(odd, tool, secrets)

    async def _check(self, running: RunningCall, result: Result) -> None:
        tool, config = running.prepared.tool, running.prepared.config
        check = partial(self._validation.check_structured, tool, result, config.check_formats)
        try:
            odd = await in_short_turn(check) if has_many_parts(result.structured) else check()
        except ServerError as error:
            if config.check_results != "note":
                raise
            odd = error
        if odd is not None:
            running.remark = self._remarks.of(odd, tool, running.secrets)
