"""JSON-RPC over a link to a server: requests, and the answers that belong to them.

Nothing a server sends can grow without bound: a line has a limit, notifications that cannot be
handled at once stop the reading (so the server's own pipe fills up), and progress keeps the newest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypedDict

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol import names
from spindle.mcp_protocol.errors import McpError, RequestId, as_request_id, same_id
from spindle.sources.mcp.answers import (
    LinkLostError,
    MessageTooLargeError,
    NoAnswerError,
    UnreadableAnswerError,
    outcome,
)
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.large_lines import LargeLines
from spindle.sources.mcp.link import TURN, MessageLink, turns
from spindle.sources.mcp.messages import AT_ONCE, answered_by, as_line, is_no_answer, read_message
from spindle.sources.mcp.outgoing import as_sent
from spindle.sources.mcp.pending import OnProgress, Pending
from spindle.sources.mcp.server_messages import ServerMessages

logger = logging.getLogger("spindle.mcp")

MAX_QUEUED_NOTIFICATIONS = 1000
MAX_SERVER_REQUESTS = 64
MAX_NOISE_LINES = 3
END_GRACE = 2.0
"""Seconds to wait for the end of a server whose pipes are closed."""
HEEDED = frozenset(
    {names.TOOLS_CHANGED, names.PROMPTS_CHANGED, names.RESOURCES_CHANGED, names.RESOURCE_UPDATED}
)
"""The notifications that anybody acts on. Some servers log a lot; that is dropped unread unless somebody
wants to see it."""


Coming = Awaitable[JsonObject]
"""The result of a request that was sent, to wait for."""


class SendOptions(TypedDict, total=False):
    """Options of one request."""

    request_id: RequestId
    timeout: float
    cancel_on_abandon: bool
    """True, as by default, if the server is told when nobody waits for the answer any more."""
    on_progress: OnProgress
    headers: dict[str, str]
    """For links that have some."""


class LinkDispatcher:
    """Sends JSON-RPC requests over a link, and matches the answers with them."""

    def __init__(self, link: MessageLink, max_message: int, heeded: frozenset[str] = HEEDED) -> None:
        self._link = link
        self._heeded = heeded
        self._max_message = max_message
        self._loop = asyncio.get_running_loop()
        self._ids = 0
        self._pending: dict[RequestId, Pending] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._notifications: deque[tuple[str, JsonObject]] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._paused = False
        self._large = LargeLines(link, self._message, self._resume)
        self._receiver: ServerMessages | None = None
        self.noise: deque[str] = deque(maxlen=MAX_NOISE_LINES)
        """The last lines that were not JSON-RPC."""
        self.late_answers = 0
        self.heeds_logs: Callable[[], bool] = lambda: False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def when_lost(self, tell: Callable[[], None]) -> None:
        self.lost.add_done_callback(lambda _future: tell())

    # --- what the session asks for

    def begin_call(
        self, params: JsonObject, headers: Mapping[str, str], exchange: CallExchange
    ) -> Coming | None:
        """Sends a call of a tool, if that takes no waiting. None: it was not sent."""
        request_id = self._ids + 1
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        pending = Pending(self._loop, request_id, abandon=self._abandoned)
        self._pending[request_id] = pending
        if not self._link.write_at_once(as_line(message), together=len(self._pending) > 1):
            del self._pending[request_id]
            return None
        self._ids = request_id
        return pending

    def _abandoned(self, pending: Pending) -> None:
        self._pending.pop(pending.id, None)
        self._cancel(pending.id)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: SendOptions | None = None
    ) -> dict[str, Any]:
        opts = opts or {}
        if self._link.lost:
            raise await self._unsent()
        request_id, pending, line = self._begin(method, params, opts)
        timeout = opts.get("timeout")
        timer = None
        if timeout is not None:
            timer = self._loop.call_later(timeout, pending.expire, NoAnswerError(method))
        try:
            if not await self._link.write(line):
                raise await self._unsent()
            result = await pending
            if pending.reporting is not None:
                # Progress that came before the answer is passed on before it.
                await pending.reporting
            return result
        except (asyncio.CancelledError, McpError) as error:
            gave_up = isinstance(error, (asyncio.CancelledError, NoAnswerError))
            if gave_up and opts.get("cancel_on_abandon", True):
                self._cancel(request_id)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._end(same_id(request_id), pending)

    async def _unsent(self) -> LinkLostError:
        """The error of a request that could not be sent. How its server ended is known a moment later."""
        await asyncio.wait({self.lost}, timeout=END_GRACE)
        return LinkLostError(f"the server {self._link.epitaph()}", sent=False)

    def _begin(
        self, method: str, params: Mapping[str, Any] | None, opts: SendOptions
    ) -> tuple[RequestId, Pending, bytes]:
        """A new request: its id, what waits for its answer, and how it is written."""
        request_id = opts.get("request_id")
        if request_id is None:
            self._ids += 1
            request_id = key = self._ids
        else:
            key = same_id(request_id)
        if key in self._pending:
            raise ValueError(f"request id {request_id!r} is already in flight")
        pending = Pending(self._loop, request_id, on_progress=opts.get("on_progress"))
        self._pending[key] = pending
        body = as_sent(params, current_exchange.get())
        if pending.on_progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), "progressToken": request_id}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if body:
            message["params"] = body
        return request_id, pending, as_line(message)

    def _end(self, key: RequestId, pending: Pending) -> None:
        self._pending.pop(key, None)
        if pending.reporting is not None:
            pending.reporting.cancel()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: SendOptions | None = None
    ) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        if not self._link.lost:
            await self._link.write(as_line(message))

    def listen(self, receiver: ServerMessages) -> None:
        """Takes what the server sends from now on."""
        self._receiver = receiver
        self._link.listen(
            self._line,
            lambda head, tail: self._large.after(partial(self._too_long, head, tail)),
            lambda: self._large.after(self._link_lost),
        )

    def close(self) -> None:
        """Ends what waits for the server, and what it waits for."""
        self._large.stop()
        for task in self._requests:
            task.cancel()
        if self._telling is not None:
            self._telling.cancel()
        self._fail_all("the session was closed")

    # --- what the process brings

    def _line(self, line: bytes) -> None:
        if len(line) > AT_ONCE or self._large.are_waiting:
            self._large.add(line)
        elif (message := read_message(line)) is not None or line.strip():
            self._message(line, message)

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
        if pending is not None:
            self._fail(pending, UnreadableAnswerError("the answer is not valid JSON, or nested too deeply"))

    def _answer(self, message: dict[str, Any]) -> None:
        request_id: Any = message["id"]
        is_ours = request_id.__class__ is int  # as we sent it
        pending = self._pending.get(request_id) if is_ours else self._waiting_for(request_id)
        if pending is None or pending.done():
            self.late_answers += 1
            return
        found: Any = message.get("result")
        if found.__class__ is not dict or "error" in message:
            found = outcome(message)
            if isinstance(found, McpError):
                self._fail(pending, found)
                return
        del self._pending[pending.id if is_ours else same_id(pending.id)]
        brought = self._link.brought
        if brought is None or self._telling is not None or self._requests:
            pending.set_result(found)  # what the server sent before it is passed on before it
        else:
            pending.take(found)
            brought.append(pending)

    def _fail(self, pending: Pending, error: McpError) -> None:
        self._pending.pop(same_id(pending.id), None)
        pending.expire(error)

    def _waiting_for(self, request_id: Any) -> Pending | None:
        key = as_request_id(request_id)
        return self._pending.get(same_id(key)) if key is not None else None

    def _notification(self, method: str, params: dict[str, Any] | None) -> None:
        if method == "notifications/progress":
            self._progress(params or {})
            return
        if self._is_told_subscriber(method, params or {}) or not self._is_heeded(method):
            return
        self._notifications.append((method, params or {}))
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="notices of a server")
        if len(self._notifications) > MAX_QUEUED_NOTIFICATIONS and not self._paused:
            self._paused = True
            self._link.pause_reading()

    async def _tell(self) -> None:
        """Passes notifications on, in turns: a flood of them leaves others theirs."""
        until = time.perf_counter() + TURN
        try:
            while self._notifications:
                self._told(*self._notifications.popleft())
                if self._paused and len(self._notifications) < MAX_QUEUED_NOTIFICATIONS // 2:
                    self._paused = False
                    self._resume()
                if time.perf_counter() > until:
                    await asyncio.sleep(turns.wait())
                    until = time.perf_counter() + TURN
        finally:
            self._telling = None

    def _is_told_subscriber(self, method: str, params: JsonObject) -> bool:
        assert self._receiver is not None
        try:
            return self._receiver.told_subscriber(method, params)
        except Exception:
            # One notice costs itself: the messages behind it are read all the same.
            logger.exception("could not take note of %s", method)
            return True

    def _told(self, method: str, params: JsonObject) -> None:
        assert self._receiver is not None
        try:
            self._receiver.told(method, params)
        except Exception:
            logger.exception("could not take note of %s", method)

    def _is_heeded(self, method: str) -> bool:
        return method in self._heeded or (method == "notifications/message" and self.heeds_logs())

    def _progress(self, params: dict[str, Any]) -> None:
        pending = self._waiting_for(params.get("progressToken"))
        if pending is None or pending.on_progress is None:
            return
        pending.newest_progress = params
        if pending.reporting is None or pending.reporting.done():
            pending.reporting = asyncio.create_task(pending.report())

    def _request(self, request_id: Any, method: str, params: dict[str, Any] | None) -> None:
        if len(self._requests) >= MAX_SERVER_REQUESTS:
            return  # it asks faster than it reads our answers
        task = asyncio.create_task(self._serve(request_id, method, params))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _serve(self, request_id: Any, method: str, params: dict[str, Any] | None) -> None:
        assert self._receiver is not None
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        try:
            answer["result"] = await self._receiver.asked(method, params)
        except McpError as error:
            data = {} if error.data is None else {"data": error.data}
            answer["error"] = {"code": error.code, "message": error.message, **data}
        except Exception as error:  # noqa: BLE001 - the server must get an answer, whatever went wrong here
            logger.warning("could not serve %s: %r", method, error)
            answer["error"] = {"code": names.INTERNAL_ERROR, "message": "the client failed to answer"}
        if not self._link.lost:
            await self._link.write(as_line(answer))

    def _too_long(self, head: bytes, tail: bytes) -> None:
        """Fail the request whose answer it was; where the line does not show it, all that wait."""
        if is_no_answer(head):
            logger.debug("dropped a message of the server that is over the size limit")
            return
        answered = answered_by(head, tail)
        pending = self._pending.get(answered) if answered is not None else None
        for waiting in [pending] if pending else list(self._pending.values()):
            self._fail(waiting, MessageTooLargeError(self._max_message))

    def _resume(self) -> None:
        if not self._paused and not self._large.are_waiting:
            self._link.resume_reading()

    def _link_lost(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        self._fail_all(f"the server {self._link.epitaph()}")

    def _fail_all(self, reason: str) -> None:
        for pending in list(self._pending.values()):
            self._fail(pending, LinkLostError(reason, sent=True))

    def _cancel(self, request_id: RequestId) -> None:
        """Tell the server to stop working on a request. Written at once: the caller is leaving."""
        if not self._link.lost:
            params = {"requestId": request_id, "reason": "the caller cancelled"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self._link.write_now(as_line(message))
