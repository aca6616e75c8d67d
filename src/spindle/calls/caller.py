"""The path of a call, top to bottom in one method. Every door leads here."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.calls.cache import ResultCache
from spindle.calls.content import keep_large_content
from spindle.calls.guards import Guards, SourceGuards
from spindle.calls.host import CallHost, PatientPeer
from spindle.calls.journal import Journal, current_journal
from spindle.calls.limits import Limit, hold, in_order
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
from spindle.calls.record import (
    Recorder,
    ended_by,
    fit_to_store,
    hide_secrets,
    kept_result,
    secrets_in,
    tool_error,
    tool_problem,
    without_secrets,
)
from spindle.calls.retries import wait_before_retry
from spindle.calls.validate import Validation
from spindle.domain.call import Call, CallRecord, Result, new_id
from spindle.domain.identity import Principal
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
)

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.calls.questions import LocalAnswers
    from spindle.catalog.catalog import Catalog
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.ports.store import FileStore, Store


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests can turn it."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that passed every check, with all that sending it takes."""

    tool: Tool
    call: Call
    config: SourceConfig
    guards: Guards
    limits: Sequence[Limit]
    timeout: float


def _unheard(_stage: str) -> None:
    pass


@dataclass(slots=True)
class _Progressing:
    """The facts about a running call that its record needs."""

    key: str = field(default_factory=new_id)
    tool: Tool | None = None
    attempts: int = 0
    secrets: frozenset[str] = frozenset()
    has_changed: bool = False
    """True if a person replaced the arguments."""
    remark: JsonObject | None = None
    """A remark on something odd about a call that succeeded."""
    at: Callable[[str], None] = _unheard
    """Is told each part of the path when it begins."""


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
        self._remarked: set[str] = set()
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
        self._running += 1
        given = dict(arguments or {})
        journal = current_journal.get()
        try:
            if journal is None:
                return await self._call(name, given, options, None)
            return await journal.step(
                name, given, options.principal, lambda place: self._call(name, given, options, place)
            )
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

    async def _call(
        self, name: str, given: JsonObject, options: CallOptions, journal: Journal | None
    ) -> Result:
        running = _Progressing(at=options.on_stage or _unheard)
        at = running.at
        started_at, began = self._clock.now(), time.perf_counter()
        parent, token = _current_call.get(), _current_call.set(running.key)
        outcome, problem, result = "ok", None, None
        try:
            at("find")
            tool = running.tool = await self.find(name, options.principal)
            at("settings")
            config = self._catalog.sources.config(tool.source)
            guards = self.guards.of(tool.source, config, self._catalog.sources)
            running.secrets = guards.secrets
            at("permission")
            require(self._permission, options.principal, tool)
            at("validate")
            self._validation.check_arguments(tool, given)
            if wants_approval(tool, config, options):
                at("approval")
                allowed = approved_arguments(tool, given, journal)
                running.has_changed = allowed != given
                given = allowed
                self._validation.check_arguments(tool, given)
            at("credential")
            credential = await self._credentials.for_call(tool.source, config, options.principal)
            running.secrets |= credential.secrets
            peer = options.peer
            if peer is None and self.answers is not None:
                peer = self.answers.peer(tool, config, options.principal)
            call = Call(
                tool.name, given, options.principal, credential, options.on_progress, running.key, parent,
                self._files,
                CallHost(self, options.principal, journal),
                journal.reply() if journal is not None else None,
                peer, options.answers,
            )  # fmt: skip
            at("cache")
            ttl = config.cache.ttl if config.cache is not None else options.cache_ttl
            result = await self._cache.get(tool, call, config.cache, ttl) if options.use_cache else None
            if result is None:
                timeout = config.timeout if options.timeout is None else options.timeout
                limits = in_order(options.limits, guards.limit)
                ready = _Ready(tool, call, config, guards, limits, timeout)
                result = await self._attempt_until_done(ready, running)
                if ttl:
                    at("keep")
                await self._cache.put(tool, call, config.cache, ttl, result)
            else:
                outcome = "cached"
            if result.is_error:
                running.secrets |= secrets_in(given, tool.input_schema)
                result = without_secrets(result, running.secrets)
                outcome, problem = "tool", tool_problem(result)
                if options.raise_tool_errors:
                    raise tool_error(tool, result)
            if running.has_changed:
                return replace(result, changed=self.recorder.masked(tool, given, running.secrets))
            return result
        except BaseException as error:
            if isinstance(error, SpindleError) and running.tool is not None:
                error.about(source=running.tool.source, tool=running.tool.name)
                running.secrets |= secrets_in(given, running.tool.input_schema)
                hide_secrets(error, running.secrets)
            outcome, problem = ended_by(error)
            raise
        finally:
            _current_call.reset(token)
            at("record")
            if running.tool is not None:
                record = CallRecord(
                    key=running.key,
                    tool=running.tool.name,
                    source=running.tool.source,
                    principal=options.principal.id,
                    arguments=self.recorder.masked(running.tool, given, running.secrets),
                    outcome=outcome,
                    started_at=started_at,
                    duration=time.perf_counter() - began,
                    attempts=running.attempts,
                    error=fit_to_store(problem or running.remark, running.secrets),
                    parent=parent,
                    result=kept_result(result, running.tool, given, running.secrets)
                    if result is not None and options.keep_result
                    else None,
                )
                await self.recorder.save(record)
                if options.on_record is not None:
                    options.on_record(record)

    async def settle(self, seconds: float) -> None:
        """Wait until the calls that run now are recorded, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()

    async def _attempt_until_done(self, ready: _Ready, running: _Progressing) -> Result:
        renewed = False
        while True:
            try:
                return await self._attempt(ready, running)
            except SpindleError as error:
                fresh = None if renewed else await self._fresh_credential(ready, error)
                wait = wait_before_retry(error, ready.tool, running.attempts, ready.config.retry)
                if fresh is None and wait is None:
                    raise
            if fresh is None:
                running.at("wait")
                # No limit is held and the breaker is free while waiting.
                await self._clock.sleep(wait or 0)
            else:
                # A source that refuses a credential has not looked at the request: sending it again is safe.
                renewed = True
                running.secrets |= fresh.secrets
                ready = replace(ready, call=replace(ready.call, credential=fresh))

    async def _fresh_credential(self, ready: _Ready, error: SpindleError) -> Credential | None:
        if not isinstance(error, (AuthError, PermissionDeniedError)):
            return None
        call = ready.call
        return await self._credentials.after_refusal(
            ready.tool.source, ready.config, call.principal, call.credential, error
        )

    async def _attempt(self, ready: _Ready, running: _Progressing) -> Result:
        guards = ready.guards
        running.at("limits")
        admission = guards.breaker.enter()
        try:
            async with hold(ready.limits):
                if guards.rate is not None:
                    running.at("rate")
                    await guards.rate.acquire()
                running.attempts += 1
                running.at("connect")
                result = await self._send(ready, running)
        except BaseException as error:
            guards.breaker.failed(error, admission)
            raise
        guards.breaker.succeeded(admission)
        running.at("check")
        # After the breaker: a tool that breaks its own promise must not close the way to its neighbours.
        if ready.config.check_results and not result.is_error and result.asked is None:
            self._check(ready, running, result)
        return await keep_large_content(result, self._files, self._note)

    def _check(self, ready: _Ready, running: _Progressing, result: Result) -> None:
        try:
            self._validation.check_structured(ready.tool, result.structured, result.has_structured)
        except ServerError as error:
            if ready.config.check_results != "note":
                raise
            hide_secrets(error, running.secrets)
            running.remark = error.to_dict()
            if ready.tool.fingerprint not in self._remarked:
                self._remarked.add(ready.tool.fingerprint)
                self._note(error.message)

    async def _send(self, ready: _Ready, running: _Progressing) -> Result:
        tool, call = ready.tool, ready.call
        source = self._catalog.sources.get(tool.source)
        connections = self._catalog.connections
        async with connections.session(tool.source, source, ready.config, call.credential) as session:
            running.at("call")
            timer = asyncio.timeout(ready.timeout)
            if call.peer is not None:
                call = replace(call, peer=PatientPeer(call.peer, timer, ready.timeout))
            try:
                async with timer:
                    return await session.invoke(tool, call)
            except SpindleError:
                raise
            except Exception as error:
                if isinstance(error, TimeoutError) and timer.expired():
                    raise CallTimeoutError(
                        f"{tool.name} did not answer within {ready.timeout:g} s",
                        hint=f"raise sources.{tool.source}.timeout, or the call's own, if it needs longer",
                    ) from None
                # A source is anybody's code; what it should have mapped itself is mapped here.
                raise ServerError(
                    f"the source of {tool.name} failed: {type(error).__name__}: {error}",
                    hint="tell the author of the source",
                ) from error
