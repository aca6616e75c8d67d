"""The path of a call, top to bottom in one method. Every door leads here."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spindle.calls.breaker import Breaker
from spindle.calls.cache import ResultCache
from spindle.calls.limits import Limit, hold
from spindle.calls.permissions import Permission, allow_all, require
from spindle.calls.record import clean, clean_json, masked
from spindle.calls.retry import wait_before_retry
from spindle.calls.validate import Validation
from spindle.domain.call import Block, Call, CallRecord, Progress, Result, new_id
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import CallTimeoutError, InvalidArgumentsError, SpindleError, StoreError, ToolError

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

    from spindle.auth.credentials import Credentials
    from spindle.catalog.catalog import Catalog
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.ports.store import FileStore, Store

INLINE_LIMIT = 256 * 1024
"""Binary content above this many bytes goes to the file store."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How to make a call. Apart from the arguments, so that no tool's parameter can clash with it."""

    principal: Principal = LOCAL
    timeout: float | None = None
    on_progress: Progress | None = None
    limits: Sequence[Limit] = ()
    """Limits to keep besides the source's, such as an agent's; the outermost first."""
    use_cache: bool = True
    raise_tool_errors: bool = False
    """Raise ToolError instead of returning a result with `is_error`."""


DEFAULT_OPTIONS = CallOptions()


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests can turn it."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class _Guards:
    """What stands between a source and its callers."""

    breaker: Breaker
    limit: Limit
    rate: AsyncLimiter | None


@dataclass(slots=True)
class _Progressing:
    """What is known of a call while it runs, for its record."""

    key: str = field(default_factory=new_id)
    tool: Tool | None = None
    attempts: int = 0
    secrets: frozenset[str] = frozenset()


_current_call: ContextVar[str | None] = ContextVar("spindle_call", default=None)


class Caller:
    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        files: FileStore,
        credentials: Credentials,
        note: Note,
        *,
        permission: Permission = allow_all,
        clock: Clock = Clock(),  # noqa: B008 - frozen
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._files = files
        self._credentials = credentials
        self._note = note
        self._permission = permission
        self._clock = clock
        self._validation = Validation()
        self._cache = ResultCache(store, clock.now)
        self._guards: dict[str, _Guards] = {}

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions = DEFAULT_OPTIONS
    ) -> Result:
        """Call a tool. Returns its result, also one that reports an error of the tool's own
        (`is_error`); raises a SpindleError when it could not be called or did not answer."""
        running = _Progressing()
        started_at, began = self._clock.now(), time.perf_counter()
        given = dict(arguments or {})
        parent, token = _current_call.get(), _current_call.set(running.key)
        outcome, problem = "ok", None
        try:
            tool = running.tool = await self._catalog.find(name)
            config = self._catalog.sources.config(tool.source)
            require(self._permission, options.principal, tool)
            _require_object(tool, given)
            self._validation.check_arguments(tool, given)
            credential = await self._credentials.for_call(tool.source, config, options.principal)
            running.secrets = credential.secrets | self._catalog.sources.secrets(tool.source)
            call = Call(
                tool.name, given, options.principal, credential, options.on_progress, running.key, parent
            )
            result = await self._cache.get(tool, call, config.cache) if options.use_cache else None
            if result is None:
                result = await self._attempt_until_done(tool, call, config, options, running)
                await self._cache.put(tool, call, config.cache, result)
            else:
                outcome = "cached"
            if result.is_error:
                outcome, problem = "tool", {"category": "tool", "message": result.text[:2000]}
                if options.raise_tool_errors:
                    raise ToolError(result.text, source=tool.source, tool=tool.name, details=result.to_dict())
            return result
        except SpindleError as error:
            if running.tool is not None:
                error.about(source=running.tool.source, tool=running.tool.name)
            error.message = clean(error.message, running.secrets)
            error.args = (error.message,)
            outcome, problem = error.category, error.to_dict()
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            _current_call.reset(token)
            if running.tool is not None:
                record = CallRecord(
                    key=running.key,
                    tool=running.tool.name,
                    source=running.tool.source,
                    principal=options.principal.id,
                    arguments=masked(given, running.tool.input_schema, running.secrets),
                    outcome=outcome,
                    started_at=started_at,
                    duration=time.perf_counter() - began,
                    attempts=running.attempts,
                    error=clean_json(problem, running.secrets),
                    parent=parent,
                )
                await self._record(record)

    async def _attempt_until_done(
        self, tool: Tool, call: Call, config: SourceConfig, options: CallOptions, running: _Progressing
    ) -> Result:
        while True:
            running.attempts += 1
            try:
                return await self._attempt(tool, call, config, options)
            except SpindleError as error:
                wait = wait_before_retry(error, tool, running.attempts, config.retry)
                if wait is None:
                    raise
            # No limit is held and the breaker is free while waiting.
            await self._clock.sleep(wait)

    async def _attempt(self, tool: Tool, call: Call, config: SourceConfig, options: CallOptions) -> Result:
        guards = self._guards.get(tool.source) or self._make_guards(tool.source, config)
        probe = guards.breaker.enter()
        try:
            async with hold((*options.limits, guards.limit)):
                if guards.rate is not None:
                    await guards.rate.acquire()
                result = await self._send(tool, call, config, options.timeout or config.timeout)
            if not result.is_error:
                self._validation.check_structured(tool, result.structured, result.has_structured)
        except BaseException as error:
            guards.breaker.failed(error, probe)
            raise
        guards.breaker.succeeded(probe)
        return await self._keep_large_content(result)

    async def _send(self, tool: Tool, call: Call, config: SourceConfig, timeout: float) -> Result:
        source = self._catalog.sources.get(tool.source)
        connections = self._catalog.connections
        async with connections.session(tool.source, source, config, call.credential) as session:
            try:
                async with asyncio.timeout(timeout):
                    return await session.invoke(tool, call)
            except TimeoutError:
                raise CallTimeoutError(
                    f"{tool.name} did not answer within {timeout:g} s",
                    hint=f"raise sources.{tool.source}.timeout if it needs longer",
                ) from None

    def _make_guards(self, source: str, config: SourceConfig) -> _Guards:
        rate = None
        if config.rate_limit is not None:
            from aiolimiter import AsyncLimiter

            rate = AsyncLimiter(config.rate_limit.calls, config.rate_limit.seconds)
        breaker = Breaker(source, config.breaker.failures, config.breaker.cooldown, self._clock.monotonic)
        guards = self._guards[source] = _Guards(breaker, Limit(config.max_concurrency), rate)
        return guards

    async def _keep_large_content(self, result: Result) -> Result:
        if not any(block.data and len(block.data) > INLINE_LIMIT * 4 // 3 for block in result.content):
            return result
        blocks = [await self._keep_large_block(block) for block in result.content]
        return replace(result, content=tuple(blocks))

    async def _keep_large_block(self, block: Block) -> Block:
        if not block.data or len(block.data) <= INLINE_LIMIT * 4 // 3:
            return block
        data = base64.b64decode(block.data)
        path = await self._files.keep(data, block.mime_type)
        return replace(block, data=None, path=path, size=len(data))

    async def _record(self, record: CallRecord) -> None:
        try:
            # Shielded: a call that is cancelled is recorded all the same.
            await asyncio.shield(self._store.save_call(record))
        except StoreError as error:
            # The tool has done its work; its result must not be lost because it cannot be written down.
            self._note(f"the call of {record.tool} could not be recorded: {error.message}")


def _require_object(tool: Tool, arguments: Mapping[Any, Any]) -> None:
    for key in arguments:
        if not isinstance(key, str):
            raise InvalidArgumentsError(
                f"the arguments of {tool.name} must be named by text, not by {key!r}", tool=tool.name
            )
