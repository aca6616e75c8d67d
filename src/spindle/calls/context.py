"""The `Context` that a tool may ask for: whom it serves, and what it may do through its call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from spindle.calls.journal import current_journal
from spindle.errors import ApprovalRequired, CancelledCallError, InputRequired, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from spindle.domain.call import Call, Host, Reply, Result
    from spindle.domain.identity import Principal
    from spindle.errors import Interruption

T = TypeVar("T")


def mcp_level(level: int) -> str:
    """The name that MCP has for a level of Python's."""
    levels = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
    for least, name in (*levels, (logging.INFO, "info")):
        if level >= least:
            return name
    return "debug"


@dataclass
class Context:
    """The call that a tool serves: whom it is for, and what the tool may do through it. Ask for it with a
    parameter of this type; it is not part of the tool's schema."""

    tool: str
    _call: Call = field(repr=False)
    _loop: asyncio.AbstractEventLoop = field(repr=False)
    _reports: list[asyncio.Future[None]] = field(default_factory=list[Any], repr=False)
    _waiting: set[concurrent.futures.Future[Any]] = field(default_factory=set[Any], repr=False)
    _variables: contextvars.Context = field(default_factory=contextvars.copy_context, repr=False)
    _is_abandoned: bool = field(default=False, repr=False)
    _has_reported: bool = field(default=False, repr=False)

    @property
    def principal(self) -> Principal:
        """The person or program on whose behalf the tool is called."""
        return self._call.principal

    @property
    def step_id(self) -> str:
        """An id of this call. In a run it stays the same when the call is made again after a fault, also in
        another process: hand it on as an idempotency key."""
        host = self._call.host
        return (host.step_id if host is not None else None) or self._call.key

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Call another tool, for the same principal. In a run it is a step, not made twice unasked."""
        return await self._host().call(tool, {**(arguments or {}), **named})

    def call_blocking(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """The same in a function without `async`."""
        if asyncio._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage] - the one that does not raise
            raise RuntimeError(
                "this call blocks, which an async tool must not do: use `await context.call(…)`"
            )
        return self._wait(self._host().call(tool, {**(arguments or {}), **named}))

    @overload
    def ask(self, message: str, schema: type[T], *, expires_in: float | None = None) -> T: ...
    @overload
    def ask(
        self, message: str, schema: dict[str, Any] | None = None, *, expires_in: float | None = None
    ) -> Any: ...
    def ask(self, message: str, schema: Any = None, *, expires_in: float | None = None) -> Any:
        """Asks a person and returns the answer. `schema` is a type or a JSON Schema; without it the answer is
        a text.

        The tool stops here until the answer is given, maybe in another process: when it goes on it runs
        from its beginning, with the calls that it made answered from the record.
        """
        adapter: Any = None
        wanted: dict[str, Any] = {"type": "string"}
        if isinstance(schema, dict):
            wanted = cast("dict[str, Any]", schema)
        elif schema is not None:
            from pydantic import TypeAdapter

            adapter = TypeAdapter(schema)
            wanted = adapter.json_schema()
        question = InputRequired(
            message, tool=self.tool, expires_at=_moment(expires_in), details={"schema": wanted}
        )
        reply = self._asked(question)
        if reply.refused is not None:
            raise PermissionDeniedError(reply.refused or "the question was not answered", tool=self.tool)
        if adapter is None:
            return reply.answer
        from spindle.domain.json_schema import to_json

        # As JSON: a strict model takes a date written in JSON, but not as a Python text.
        return adapter.validate_json(to_json(reply.answer))

    def approve(
        self, message: str, details: Mapping[str, Any] | None = None, *, expires_in: float | None = None
    ) -> bool:
        """Asks a person to approve what the message says, and returns True if they do. `details` are shown
        to them."""
        question = ApprovalRequired(
            message, tool=self.tool, expires_at=_moment(expires_in), details=dict(details or {})
        )
        return self._asked(question).refused is None

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports the progress of the work to the caller. Does not wait, and works in sync and async
        tools."""
        self._has_reported = True
        self._loop.call_soon_threadsafe(self._report, done, total, message)

    def log(self, message: str, level: int = logging.INFO) -> None:
        """Write to the log, and show it to the program that made the call, where that wants to see it."""
        logging.getLogger(f"spindle.tools.{self.tool}").log(level, message)
        peer = self._call.peer
        if peer is not None and peer.log_level is not None:
            self._loop.call_soon_threadsafe(peer.log, mcp_level(level), message, self.tool)

    def _host(self) -> Host:
        if self._is_abandoned or self._call.host is None:
            raise CancelledCallError(f"the caller no longer waits for this call of {self.tool}", sent=False)
        return self._call.host

    def _asked(self, question: Interruption) -> Reply:
        return self._host().ask(question)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        # In the context of the call, whatever thread this is: the loop copies the one it is asked in.
        future = self._variables.copy().run(asyncio.run_coroutine_threadsafe, work, self._loop)
        self._waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise CancelledCallError(f"the call of {self.tool} was cancelled", sent=False) from None
        finally:
            self._waiting.discard(future)

    def _report(self, done: float, total: float | None, message: str | None) -> None:
        if self._call.on_progress is not None:
            report = self._call.on_progress(done, total, message)
            self._reports.append(asyncio.ensure_future(report))

    async def settle(self) -> None:
        """Wait until all progress has been passed on, so that none arrives after the result."""
        journal = current_journal.get()
        if not self._has_reported and journal is not None and journal.has_own_task:
            return
        await asyncio.sleep(0)  # also where nothing was reported: a loop of calls lets others have their turn
        for report in await asyncio.gather(*self._reports, return_exceptions=True):
            if isinstance(report, Exception):
                # The work is done; a listener that fails does not undo it.
                logging.getLogger("spindle").warning(
                    "the progress listener of %s failed: %r", self.tool, report
                )

    def abandon(self) -> None:
        """Marks the call as one that no caller waits for any more."""
        self._is_abandoned = True
        for waiting in [*self._reports, *self._waiting]:
            waiting.cancel()


def _moment(seconds: float | None) -> float | None:
    import time

    return None if seconds is None else time.time() + seconds
