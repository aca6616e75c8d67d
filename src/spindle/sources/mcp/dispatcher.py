"""JSON-RPC over a link to a server, underneath the SDK's `ClientSession`.

The SDK's own stdio transport passes every message through four memory streams and as many tasks;
reading lines straight from the event loop costs about a third of that. The typed layer, with its
version negotiation and validation, stays the SDK's.

Nothing a server sends can grow without bound: a line has a limit, notifications that cannot be
handled at once stop the reading (so the server's own pipe fills up), and progress keeps the newest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
import anyio.abc
from mcp_types import INTERNAL_ERROR, RequestId

from spindle.domain.json_schema import is_object, to_json
from spindle.mcp_imports import (
    CallOptions,
    DispatchContext,
    MCPError,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    TransportContext,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from spindle.sources.mcp.answers import (
    LinkLostError,
    MessageTooLargeError,
    NoAnswerError,
    UnreadableAnswerError,
    outcome,
)
from spindle.sources.mcp.exchange import set_aside
from spindle.sources.mcp.large_lines import LargeLines
from spindle.sources.mcp.link import TURN, MessageLink, turns
from spindle.sources.mcp.messages import AT_ONCE, answered_by, is_no_answer, read_message
from spindle.sources.mcp.peers import as_sent

logger = logging.getLogger("spindle.mcp")

MAX_QUEUED_NOTIFICATIONS = 1000
MAX_SERVER_REQUESTS = 64
MAX_NOISE_LINES = 3
HEEDED = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    }
)
"""The notifications that anybody acts on. Some servers log a lot; that is dropped unread unless somebody
wants to see it."""


@dataclass(slots=True)
class Pending:
    """A request that waits for its answer."""

    future: asyncio.Future[dict[str, Any]]
    on_progress: ProgressFnT | None = None
    newest_progress: Mapping[str, Any] | None = None
    reporting: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _ServerRequest:
    """The facts about a server's request that the SDK's session needs."""

    dispatcher: LinkDispatcher
    request_id: RequestId | None
    cancel_requested: anyio.Event
    transport: TransportContext
    can_send_request: bool = True
    message_metadata: None = None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        return await self.dispatcher.send_raw_request(method, params, opts)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self.dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Servers of the handshake era ask for no progress from clients."""


class LinkDispatcher:
    """Sends JSON-RPC requests over a link, and matches the answers with them."""

    def __init__(
        self, link: MessageLink, max_message: int, kind: str = "stdio", heeded: frozenset[str] = HEEDED
    ) -> None:
        self._link = link
        self._heeded = heeded
        self._kind = kind
        self._max_message = max_message
        self._ids = 0
        self._pending: dict[RequestId, Pending] = {}
        self._notifications: deque[tuple[str, Mapping[str, Any] | None]] = deque()
        self._wake = asyncio.Event()
        self._paused = False
        self._requests: set[asyncio.Task[None]] = set()
        self._large = LargeLines(link, self._message, self._resume)
        self._on_request: OnRequest | None = None
        self._intercept: OnNotifyIntercept | None = None
        self.noise: deque[str] = deque(maxlen=MAX_NOISE_LINES)
        """The last lines that were not JSON-RPC."""
        self.late_answers = 0
        self.heeds_logs: Callable[[], bool] = lambda: False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_crowded(self) -> bool:
        """True if several requests wait for their answers."""
        return len(self._pending) > 1

    def when_lost(self, tell: Callable[[], None]) -> None:
        self.lost.add_done_callback(lambda _future: tell())

    # --- what the session asks for

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        opts = opts or {}
        if self._link.lost:
            raise LinkLostError(f"the server {self._link.epitaph()}", sent=False)
        request_id, pending, line = self._begin(method, params, opts)
        timeout = opts.get("timeout")
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout, _expire, pending.future, method) if timeout is not None else None
        try:
            if not await self._link.write(line + b"\n"):
                raise LinkLostError(f"the server {self._link.epitaph()}", sent=False)
            result = await pending.future
            if pending.reporting is not None:
                # Progress that came before the answer is passed on before it.
                await pending.reporting
            return set_aside(result)
        except (asyncio.CancelledError, MCPError) as error:
            gave_up = isinstance(error, (asyncio.CancelledError, NoAnswerError))
            if gave_up and opts.get("cancel_on_abandon", True):
                self._cancel(request_id)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._end(coerce_request_id(request_id), pending)

    def _begin(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions
    ) -> tuple[RequestId, Pending, bytes]:
        """A new request: its id, what waits for its answer, and how it is written."""
        request_id = opts.get("request_id")
        if request_id is None:
            self._ids += 1
            request_id = self._ids
        key = coerce_request_id(request_id)
        if key in self._pending:
            raise ValueError(f"request id {request_id!r} is already in flight")
        future = asyncio.get_running_loop().create_future()
        pending = self._pending[key] = Pending(future, opts.get("on_progress"))
        body = as_sent(params)
        if pending.on_progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), "progressToken": request_id}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if body:
            message["params"] = body
        return request_id, pending, to_json(message)

    def _end(self, key: RequestId, pending: Pending) -> None:
        del self._pending[key]
        if pending.reporting is not None:
            pending.reporting.cancel()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        if not self._link.lost:
            await self._link.write(to_json(message) + b"\n")

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take what the server sends until its link is lost."""
        self._on_request = on_request
        self._intercept = on_notify_intercept
        self._link.listen(
            self._line,
            lambda head, tail: self._large.after(partial(self._too_long, head, tail)),
            lambda: self._large.after(self._link_lost),
        )
        task_status.started()
        context = cast(
            "DispatchContext[TransportContext]",
            _ServerRequest(
                self, None, anyio.Event(), TransportContext(kind=self._kind, can_send_request=True)
            ),
        )
        try:
            until = time.perf_counter() + TURN
            while not self.lost.done() or self._notifications:
                if not self._notifications:
                    self._wake.clear()
                    await self._wake.wait()
                    until = time.perf_counter() + TURN
                    continue
                method, params = self._notifications.popleft()
                await on_notify(context, method, params)
                if self._paused and len(self._notifications) < MAX_QUEUED_NOTIFICATIONS // 2:
                    self._paused = False
                    self._resume()
                if time.perf_counter() > until:
                    await asyncio.sleep(turns.wait())
                    until = time.perf_counter() + TURN
        finally:
            self._large.stop()
            for task in self._requests:
                task.cancel()
            self._fail_all("the session was closed")

    # --- what the process brings

    def _line(self, line: bytes) -> None:
        if len(line) > AT_ONCE or self._large.are_waiting:
            self._large.add(line)
        elif line.strip():
            self._message(line, read_message(line))

    def _message(self, line: bytes, message: dict[str, Any] | None) -> None:
        if message is None:
            self._unreadable(line)
            return
        method = message.get("method")
        if isinstance(method, str):
            raw = message.get("params")
            params = raw if is_object(raw) else None
            if "id" in message:
                self._request(message["id"], method, params)
            else:
                self._notification(method, params)
        elif "id" in message and ("result" in message or "error" in message):
            self._answer(message)
        else:
            self.noise.append(line[:200].decode("utf-8", "replace"))

    def _unreadable(self, line: bytes) -> None:
        # Servers print to stdout by mistake; it is remembered for when nothing else explains a failure.
        self.noise.append(line[:200].decode("utf-8", "replace"))
        answered = answered_by(line, line) if self._pending else None
        pending = self._pending.get(answered) if answered is not None else None
        if pending is not None and not pending.future.done():
            pending.future.set_exception(
                UnreadableAnswerError("the answer is not valid JSON, or nested too deeply")
            )

    def _answer(self, message: dict[str, Any]) -> None:
        pending = self._waiting_for(message["id"])
        if pending is None or pending.future.done():
            self.late_answers += 1
            return
        found = outcome(message)
        if isinstance(found, MCPError):
            pending.future.set_exception(found)
        else:
            pending.future.set_result(found)

    def _waiting_for(self, request_id: Any) -> Pending | None:
        key = as_request_id(request_id)
        return self._pending.get(coerce_request_id(key)) if key is not None else None

    def _notification(self, method: str, params: dict[str, Any] | None) -> None:
        if method == "notifications/progress":
            self._progress(params or {})
            return
        if run_notify_intercept(self._intercept, method, params):
            return
        if not self._is_heeded(method):
            return
        self._notifications.append((method, params))
        self._wake.set()
        if len(self._notifications) > MAX_QUEUED_NOTIFICATIONS and not self._paused:
            self._paused = True
            self._link.pause_reading()

    def _is_heeded(self, method: str) -> bool:
        return method in self._heeded or (method == "notifications/message" and self.heeds_logs())

    def _progress(self, params: dict[str, Any]) -> None:
        pending = self._waiting_for(params.get("progressToken"))
        if pending is None or pending.on_progress is None:
            return
        pending.newest_progress = params
        if pending.reporting is None or pending.reporting.done():
            pending.reporting = asyncio.create_task(_report(pending))

    def _request(self, request_id: Any, method: str, params: dict[str, Any] | None) -> None:
        if len(self._requests) >= MAX_SERVER_REQUESTS:
            return  # it asks faster than it reads our answers
        task = asyncio.create_task(self._serve(request_id, method, params))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _serve(self, request_id: Any, method: str, params: dict[str, Any] | None) -> None:
        assert self._on_request is not None
        context = self._context(request_id)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        try:
            answer["result"] = await self._on_request(context, method, params)
        except MCPError as error:
            answer["error"] = error.error.model_dump(mode="json", exclude_none=True)
        except Exception as error:  # noqa: BLE001 - the server must get an answer, whatever went wrong here
            logger.warning("could not serve %s: %r", method, error)
            answer["error"] = {"code": INTERNAL_ERROR, "message": "the client failed to answer"}
        if not self._link.lost:
            await self._link.write(to_json(answer) + b"\n")

    def _context(self, request_id: RequestId | None) -> DispatchContext[TransportContext]:
        transport = TransportContext(kind=self._kind, can_send_request=True)
        context = _ServerRequest(self, request_id, anyio.Event(), transport)
        return cast("DispatchContext[TransportContext]", context)

    def _too_long(self, head: bytes, tail: bytes) -> None:
        """Fail the request whose answer it was; where the line does not show it, all that wait."""
        if is_no_answer(head):
            logger.debug("dropped a message of the server that is over the size limit")
            return
        answered = answered_by(head, tail)
        pending = self._pending.get(answered) if answered is not None else None
        for waiting in [pending] if pending else list(self._pending.values()):
            if not waiting.future.done():
                waiting.future.set_exception(MessageTooLargeError(self._max_message))

    def _resume(self) -> None:
        if not self._paused and not self._large.are_waiting:
            self._link.resume_reading()

    def _link_lost(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        self._fail_all(f"the server {self._link.epitaph()}")
        self._wake.set()

    def _fail_all(self, reason: str) -> None:
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(LinkLostError(reason, sent=True))

    def _cancel(self, request_id: RequestId) -> None:
        """Tell the server to stop working on a request. Written at once: the caller is leaving."""
        if not self._link.lost:
            params = {"requestId": request_id, "reason": "the caller cancelled"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self._link.write_now(to_json(message) + b"\n")


def _expire(future: asyncio.Future[Any], method: str) -> None:
    if not future.done():
        future.set_exception(NoAnswerError(method))


async def _report(pending: Pending) -> None:
    """Pass progress on, the newest only: a slow listener falls behind, it does not queue up."""
    while pending.newest_progress is not None and pending.on_progress is not None:
        params, pending.newest_progress = pending.newest_progress, None
        done = params.get("progress")
        if not isinstance(done, (int, float)):
            continue
        try:
            await pending.on_progress(done, params.get("total"), params.get("message"))
        except Exception as error:  # noqa: BLE001 - a listener's own mistake must not fail the call
            logger.warning("the progress listener failed: %r", error)
