"""The path of a call, top to bottom in one method. Every door leads here."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.calls.cache import ResultCache
from spindle.calls.clock import Clock as Clock
from spindle.calls.content import has_large, keep_large_content
from spindle.calls.doubt import settled, told
from spindle.calls.guards import SourceGuards
from spindle.calls.host import CallHost, PatientPeer
from spindle.calls.journal import Journal, current_journal
from spindle.calls.limits import hold, in_order
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.permissions import (
    Permission,
    Visible,
    allow_all,
    approved_arguments,
    require,
    show_all,
    wants_approval,
)
from spindle.calls.prepared import PreparedTools
from spindle.calls.ready import ReadyCall, RunningCall, unheard
from spindle.calls.record import (
    Recorder,
    ended_by,
    fit_to_store,
    hide_secrets,
    kept_result,
    secrets_in,
    without_secrets,
)
from spindle.calls.remarks import Remarks
from spindle.calls.reported import error_of, problem_of, refined, understood
from spindle.calls.retries import may_be_repeated, wait_before_retry
from spindle.calls.validate import LargeArgumentsError, Validation, has_many_parts
from spindle.domain.call import Call, CallRecord, IdempotencyKey, Result
from spindle.domain.identity import NO_CREDENTIAL, Principal
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    PermissionDeniedError,
    RateLimitedError,
    ServerError,
    SpindleError,
)
from spindle.threads import in_short_turn

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.questions import LocalAnswers
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
        self._catalog = catalog
        self._files = files
        self._credentials = credentials
        self._note = note
        self._permission = permission
        self._visible = visible
        self._clock = clock
        self._validation = Validation()
        self._cache = ResultCache(store, clock.now, note)
        self.recorder = Recorder(store, note)
        self.guards = SourceGuards(clock.monotonic, clock.sleep)
        self._prepared = PreparedTools(self.guards, credentials)
        self._remarks = Remarks(note)
        self.answers: LocalAnswers | None = None
        """Those in this process who answer what sources ask, for calls that no other program made."""
        self._running = 0
        self._idle = asyncio.Event()

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Result:
        """Call a tool. Returns its result, also one that reports an error of the tool's own
        (`is_error`); raises a SpindleError when it could not be called or did not answer, and an
        Interruption when a person is wanted first. Made during a run, it is a step of that run."""
        given, journal = dict(arguments or {}), current_journal.get()
        if journal is None:
            return await self.make(name, given, options, None)
        return await journal.step(
            name, given, options.principal, lambda place: self.make(name, given, options, place)
        )

    async def make(
        self, name: str, given: JsonObject, options: CallOptions, journal: Journal | None
    ) -> Result:
        """The same at a place that is known, which `journal` is: None where nothing is remembered."""
        self._running += 1
        try:
            return await self._call(name, given, options, journal)
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()

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

    def lets_approve(self, source: str, principal: Principal, caller: Principal) -> bool:
        """True if the settings of a source let this principal approve a call of the caller's."""
        sources = self._catalog.sources
        return source in sources and sources.config(source).lets_approve(principal, caller)

    async def _call(
        self, name: str, given: JsonObject, options: CallOptions, journal: Journal | None
    ) -> Result:
        running = RunningCall(at=options.on_stage or unheard)
        at = running.at
        started_at, began = self._clock.now(), time.perf_counter()
        parent, token = _current_call.get(), _current_call.set(running.key)
        outcome, problem, result = "ok", None, None
        try:
            at("find")
            if self.recorder.unsaved:
                await self.recorder.unsaved.wait_for_space()
            tool = running.tool = await self.find(name, options.principal)
            at("settings")
            prepared = self._prepared.of(tool, self._catalog.sources)
            config, running.secrets = prepared.config, prepared.guards.secrets
            at("permission")
            require(self._permission, options.principal, tool)
            at("validate")
            key = None
            if prepared.key_place is not None:
                step = journal.step_id if journal is not None else running.key
                key = IdempotencyKey(*prepared.key_place, step)
                if key.place == "parameter":
                    given = {key.name: key.value, **given}
            if not self._validation.is_ready(tool):
                await self._validation.prepare(tool)
            try:
                self._validate(tool, given, config, running)
            except LargeArgumentsError:
                running.is_large = True
                await in_short_turn(self._validate, tool, given, config, running)
            if wants_approval(tool, config, options):
                at("approval")
                allowed = approved_arguments(tool, given, journal)
                running.has_changed, running.is_large = allowed != given, True
                given = allowed
                self._validate(tool, given, config, running)
            if journal is not None and (begun := journal.begun()) is not None:
                at("doubt")
                shown = self.recorder.masked(tool, given, running.secrets)
                result = settled(tool, config, begun, shown, journal, keyed=key is not None)
                if result is not None:
                    return result
            at("credential")
            credential = prepared.credential
            if credential is None:
                credential = await self._credentials.for_call(tool.source, config, options.principal)
            if credential is not NO_CREDENTIAL:
                running.secrets |= credential.secrets
            host, peer = CallHost(self, options.principal, journal), options.peer
            if self.answers is not None:
                peer = self.answers.peer(tool.source, tool.name, config, host, peer)
            timeout = config.timeout if options.timeout is None else options.timeout
            patient = None if peer is None else PatientPeer(peer, timeout)
            call = Call(
                tool.name, given, options.principal, credential, options.on_progress, running.key, parent,
                self._files, host, journal.reply() if journal is not None else None,
                patient, options.answers, key, meta=options.meta,
            )  # fmt: skip
            at("cache")
            ttl = config.cache.ttl if config.cache is not None else options.cache_ttl
            if ttl is not None and options.use_cache:
                result = await self._cache.get(prepared, call, ttl)
            if result is None:
                limits = in_order(options.limits, prepared.guards.limit)
                noted_in = journal if prepared.leaves_doubt else None
                ready = ReadyCall(prepared, call, limits, timeout, noted_in, patient)
                result = await self._attempt_until_done(ready, running)
                if ttl is not None:
                    at("keep")
                    await self._cache.put(prepared, call, ttl, result)
            else:
                outcome = "cached"
            if result.is_error:
                named = secrets_in(given, tool.input_schema)
                result = without_secrets(result, running.secrets, named)
                running.secrets |= named
                outcome, problem = result.category or "tool", problem_of(result)
                if options.raise_tool_errors:
                    raise error_of(tool, result)
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
            if running.tool is None and self.recorder.on_unknown is not None:
                self.recorder.on_unknown(options.principal.id, name)
            raise
        finally:
            _current_call.reset(token)
            at("record")
            if running.tool is not None:
                shown = partial(self.recorder.masked, running.tool, given, running.secrets)
                record = CallRecord(
                    key=running.key, tool=running.tool.name, source=running.tool.source,
                    principal=options.principal.id,
                    arguments=await in_short_turn(shown) if running.is_large else shown(),
                    outcome=outcome, started_at=started_at,
                    duration=time.perf_counter() - began, attempts=running.attempts,
                    error=fit_to_store(problem or running.remark, running.secrets),
                    parent=parent,
                    result=kept_result(result, running.tool, given, running.secrets)
                    if result is not None and options.keep_result
                    else None,
                )  # fmt: skip
                await self.recorder.save(record, together=self._running > 1)
                if options.on_record is not None:
                    options.on_record(record)

    async def settle(self, seconds: float) -> None:
        """Wait until the calls that run now are recorded, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
        await self.recorder.unsaved.close()

    async def _attempt_until_done(self, ready: ReadyCall, running: RunningCall) -> Result:
        while True:
            try:
                result = await self._attempt(ready, running)
            except SpindleError as error:
                again = await self._again(ready, running, error)
                if again is None:
                    raise
            else:
                if result.meaning is None:
                    return result
                reported = error_of(ready.tool, result)
                again = await self._again(ready, running, reported)
                if again is None:
                    return replace(result, meaning=reported.meaning)
            ready = again

    async def _again(self, ready: ReadyCall, running: RunningCall, error: SpindleError) -> ReadyCall | None:
        """Waits until the call may be sent again, and returns it as it is then; None if it must not be."""
        fresh = None if running.has_renewed else await self._fresh_credential(ready, error)
        if fresh is not None:
            # A source that refuses a credential has not looked at the request: sending it again is safe.
            running.has_renewed = True
            running.secrets |= fresh.secrets
            return replace(ready, call=replace(ready.call, credential=fresh))
        error.retryable = may_be_repeated(error, ready.tool, ready.config, keyed=ready.call.is_keyed)
        # A try that was refused has used up none of its time, so that the wait counts into it.
        is_refused = isinstance(error, RateLimitedError)
        left = ready.timeout - running.waited if is_refused else math.inf
        wait = wait_before_retry(error, running.attempts, ready.config.retry, left)
        if wait is None:
            return None
        running.at("wait")
        running.waited = running.waited + wait if is_refused else 0.0
        # No limit is held and the breaker is free while waiting.
        await self._clock.sleep(wait)
        journal = current_journal.get()
        if journal is not None:
            await journal.confirm()
        return ready

    async def _fresh_credential(self, ready: ReadyCall, error: SpindleError) -> Credential | None:
        # What a server reports about the work behind it says nothing about the credential that it was shown.
        if error.answered or not isinstance(error, (AuthError, PermissionDeniedError)):
            return None
        call = ready.call
        return await self._credentials.after_refusal(
            ready.tool.source, ready.config, call.principal, call.credential, error
        )

    async def _attempt(self, ready: ReadyCall, running: RunningCall) -> Result:
        guards, call = ready.prepared.guards, ready.call
        running.at("limits")
        place = (ready.prepared.server, call.credential.key)
        guards.breakers.check(*place)
        left = ready.timeout - running.waited
        async with hold(ready.limits, call.principal.id, left) as held:
            left -= held.waited
            if guards.rate is not None:
                running.at("rate")
                left -= await guards.rate.acquire(call.principal.id, left)
            # Once more, now that it has its place: the source may have failed while the call waited.
            with guards.breakers.enter(*place):
                running.attempts += 1
                running.at("connect")
                result = await self._send(ready, running, left)
        running.at("check")
        # After the breaker: a tool that breaks its own promise must not close the way to its neighbours.
        promised = ready.tool.output_schema is not None and ready.config.check_results
        if promised and not result.is_error and result.asked is None:
            await self._check(ready, running, result)
        return await keep_large_content(result, self._files, self._note) if has_large(result) else result

    def _validate(self, tool: Tool, given: JsonObject, config: SourceConfig, running: RunningCall) -> None:
        odd = self._validation.check_arguments(tool, given, config.check_formats, aside=running.is_large)
        if odd is not None:
            secrets = running.secrets | secrets_in(given, tool.input_schema)
            running.remark = self._remarks.of(odd, tool, secrets)

    async def _check(self, ready: ReadyCall, running: RunningCall, result: Result) -> None:
        check = partial(self._validation.check_structured, ready.tool, result, ready.config.check_formats)
        try:
            odd = await in_short_turn(check) if has_many_parts(result.structured) else check()
        except ServerError as error:
            if ready.config.check_results != "note":
                raise
            odd = error
        if odd is not None:
            running.remark = self._remarks.of(odd, ready.tool, running.secrets)

    async def _send(self, ready: ReadyCall, running: RunningCall, seconds: float) -> Result:
        prepared, tool, call = ready.prepared, ready.tool, ready.call
        use = self._catalog.connections.session(
            tool.source, prepared.source, prepared.config, call.credential, seconds=seconds
        )
        async with use as session:
            if ready.journal is not None:
                await ready.journal.begin(keyed=call.is_keyed)
            running.at("call")
            seconds -= use.waited
            timer = asyncio.timeout(seconds)
            if ready.peer is not None:
                ready.peer.timer = timer
            try:
                async with timer:
                    result = await session.invoke(tool, call)
                return understood(result, ready.config) if result.is_error else result
            except SpindleError as error:
                raise refined(error, tool, ready.config) from error.__cause__
            except Exception as error:
                if isinstance(error, TimeoutError) and timer.expired():
                    waited = ready.timeout - seconds
                    said = f"{ready.timeout:.6g} s"
                    if waited > 0.05:
                        said = f"{seconds:.6g} s, having waited {waited:.3g} s for its turn"
                    raise CallTimeoutError(
                        f"{tool.name} did not answer within {said}",
                        hint=f"raise sources.{tool.source}.timeout, or the call's own, if it needs longer",
                    ) from None
                # A source is anybody's code; what it should have mapped itself is mapped here.
                raise ServerError(
                    f"the source of {tool.name} failed: {type(error).__name__}: {error}",
                    hint="tell the author of the source",
                ) from error
