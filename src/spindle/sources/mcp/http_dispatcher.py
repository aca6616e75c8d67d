"""JSON-RPC over Streamable HTTP.

A request and all that comes in answer to it stay in the task of whoever asks: no task is started for a call,
and a server's questions and messages on the stream of a call are known to be about that call.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.domain.visible import visible
from spindle.http.failures import HttpFailure, RedirectError, TooLargeError
from spindle.mcp_protocol.errors import McpError, RequestId, as_request_id, same_id
from spindle.mcp_protocol.names import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from spindle.sources.mcp.answers import MessageTooLargeError, NoAnswerError, UnreadableAnswerError, outcome
from spindle.sources.mcp.dispatcher import LinkDispatcher
from spindle.sources.mcp.endings import Endings
from spindle.sources.mcp.events import SentEvent, only_message, read_events
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.messages import AT_ONCE, MAX_CONTAINERS, has_too_many, read_message
from spindle.sources.mcp.server_messages import ServerMessages
from spindle.sources.mcp.streamable import SESSION, StreamableLink
from spindle.threads import in_short_turn

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer
    from spindle.sources.mcp.dispatcher import Coming, SendOptions

logger = logging.getLogger("spindle.mcp")

RETRY = 1.0
"""Seconds before a stream is gone on with, where the server does not say."""
MAX_ATTEMPTS = 2

_UNUSUAL = frozenset({"content-encoding", "set-cookie"})
"""Headers of an answer that somebody has to look at."""


class HttpDispatcher(LinkDispatcher):
    """Posts JSON-RPC requests, and reads the answer of each from its own response."""

    def __init__(self, link: StreamableLink, max_message: int) -> None:
        super().__init__(link, max_message)
        self._http = link
        self._listening: asyncio.Task[None] | None = None
        self._endings = Endings()
        self._at_once = min(AT_ONCE, max_message)

    async def aclose(self) -> None:
        """Ends the session."""
        self._endings.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        await self._http.aclose()

    # --- what the session asks for

    def begin_call(
        self, params: JsonObject, headers: Mapping[str, str], exchange: CallExchange
    ) -> Coming | None:
        request_id = self._ids + 1
        content = to_json({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})
        answer = self._http.post_at_once(content, headers, exchange.credential)
        if answer is None:
            return None
        self._ids = request_id
        return self._coming(request_id, answer, exchange)

    async def _coming(self, request_id: int, answer: HttpAnswer, note: CallExchange) -> JsonObject:
        """The result of a call that was posted at once."""
        try:
            while not answer.has_come():
                await answer.waiter()
            message = self._plain(request_id, answer, note)
            if message is None:
                message = await self._by_and_by(request_id, answer, note)
        except asyncio.CancelledError:
            answer.release()
            if not self._http.is_modern:
                self._cancel(request_id)
            raise
        found = outcome(message)
        if isinstance(found, McpError):
            raise found
        return found

    def _plain(self, request_id: int, answer: HttpAnswer, note: CallExchange) -> JsonObject | None:
        """The answer, if it has come whole and there is nothing else in it, as in nearly all. None: it is
        still to be read."""
        data = answer.come()
        if (
            answer.status != 200
            or len(data) > self._at_once
            or not answer.headers.keys().isdisjoint(_UNUSUAL)
        ):
            return None
        kind = answer.media_type
        body = data if kind == "application/json" and answer.is_complete else None
        if kind == "text/event-stream":
            body = only_message(data)
        message = read_message(body) if body else None
        if message is None or "method" in message:
            return None
        said = message.get("id")
        if said.__class__ is not int or said != request_id:
            return None
        note.status = 200
        self._let_go(answer)
        return message

    async def _by_and_by(self, request_id: int, answer: HttpAnswer, note: CallExchange) -> JsonObject:
        """The same answer, however it comes."""
        token = current_exchange.set(note)
        try:
            return await self._answered("tools/call", request_id, self._http.answered(answer, note), note)
        finally:
            current_exchange.reset(token)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: SendOptions | None = None
    ) -> dict[str, Any]:
        opts = opts or {}
        request_id, pending, content = self._begin(method, params, opts)
        try:
            async with asyncio.timeout(opts.get("timeout")):
                note = current_exchange.get() or CallExchange()
                if method == "initialize":
                    # What was tried before does not count for the handshake.
                    self._http.version = self._http.session_id = None
                posting = self._http.post(content, opts.get("headers") or {}, note)
                message = await self._answered(method, request_id, posting, note)
                if pending.reporting is not None:
                    # Progress that came before the answer is passed on before it.
                    await pending.reporting
            found = outcome(message)
            if isinstance(found, McpError):
                raise found
            return found
        except (asyncio.CancelledError, TimeoutError) as error:
            # Servers of 2026-07-28 know by the end of the stream that nobody waits.
            if opts.get("cancel_on_abandon", True) and not self._http.is_modern:
                self._cancel(request_id)
            if isinstance(error, TimeoutError):
                raise NoAnswerError(method) from None
            raise
        finally:
            self._end(same_id(request_id), pending)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: SendOptions | None = None
    ) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        await self._http.write(to_json(message), (opts or {}).get("headers"))
        if method == "notifications/initialized" and self._http.session_id is not None:
            nobodys = contextvars.copy_context()
            nobodys.run(current_exchange.set, None)
            self._listening = asyncio.create_task(self._listen(), context=nobodys)

    def close(self) -> None:
        # Whoever waits for an answer reads it by itself, and hears of the end there.
        for task in self._requests:
            task.cancel()

    def listen(self, receiver: ServerMessages) -> None:
        # Nothing comes but in answer to a request: it is taken where that is read.
        self._receiver = receiver

    # --- one request

    async def _answered(
        self, method: str, request_id: RequestId, posting: Awaitable[HttpAnswer], note: CallExchange
    ) -> JsonObject:
        try:
            answer = await posting
        except RedirectError as failure:
            raise McpError(code=INVALID_REQUEST, message=f"it {failure}") from failure
        except HttpFailure as failure:
            raise McpError(code=CONNECTION_CLOSED, message=str(failure)) from failure
        is_whole = False
        try:
            if answer.status >= 400:
                raise await self._refusal(answer, note)
            if method == "initialize":
                self._http.session_id = answer.headers.get(SESSION)
            kind = answer.media_type
            if kind == "text/event-stream":
                message = _own(await self._from_events(answer, note), request_id)
                is_whole = True
                return message
            if answer.status == 202:
                raise McpError(code=INVALID_REQUEST, message="it answered a request with 202 Accepted")
            if kind != "application/json":
                raise McpError(
                    code=INVALID_REQUEST,
                    message=f"the answer is not JSON, but {visible(kind[:100]) or 'nothing'}",
                )
            return _own(await self._from_body(answer, note), request_id)
        finally:
            if is_whole:
                self._let_go(answer)
            else:
                answer.release()

    def _let_go(self, answer: HttpAnswer) -> None:
        """Leaves an answer that is known. Its stream ends soon: then others can use the connection."""
        if not answer.is_complete:
            self._endings.add(answer)

    async def _refusal(self, answer: HttpAnswer, note: CallExchange) -> McpError:
        """The error for a status that is one: the server's own words, if it has some."""
        data: Any = None
        if "json" in answer.media_type:
            try:
                data = from_json(await answer.read(self._max_message))
            except (HttpFailure, ValueError) as error:
                logger.debug("a refusal cannot be read: %s", error)
        found = outcome(data) if is_object(data) and is_object(data.get("error")) else None
        if isinstance(found, McpError):
            note.had_json_rpc_error = True
            return found
        if answer.status == 404 and self._http.session_id is None:
            return McpError(code=METHOD_NOT_FOUND, message="there is nothing at that address")
        code = INVALID_REQUEST if answer.status == 404 else INTERNAL_ERROR
        return McpError(code=code, message="the server refused the request")

    async def _from_body(self, answer: HttpAnswer, note: CallExchange) -> JsonObject:
        try:
            body = await answer.read(self._max_message)
        except TooLargeError:
            raise self._too_much(note) from None
        except HttpFailure as failure:
            note.failure = failure
            raise McpError(code=CONNECTION_CLOSED, message=str(failure)) from failure
        message = await self._take(body, note)
        if message is None:
            raise UnreadableAnswerError("it is no answer")
        return message

    async def _from_events(self, answer: HttpAnswer, note: CallExchange) -> JsonObject:
        """The answer out of a stream of events. A stream that breaks off is gone on with, where its events
        say from which place."""
        place: str | None = None
        wait, attempts, stream = RETRY, 0, answer
        while True:
            try:
                async with aclosing(read_events(stream.chunks(), self._max_message)) as events:
                    async for event in events:
                        place, attempts = event.id or place, 0
                        wait = wait if event.retry is None else event.retry
                        message = await self._heard(event, note)
                        if message is not None:
                            return message
                note.ended = True
            except TooLargeError:
                raise self._too_much(note) from None
            except HttpFailure as failure:
                note.failure = failure
            finally:
                if stream is not answer:
                    await stream.aclose()
            resumed: HttpAnswer | None = None
            while resumed is None:
                if place is None or self._http.is_modern or attempts == MAX_ATTEMPTS:
                    raise McpError(code=CONNECTION_CLOSED, message="the stream ended without an answer")
                attempts += 1
                await answer.aclose()
                await asyncio.sleep(wait)
                resumed = await self._resumed(place)
            note.failure, note.ended, stream = None, False, resumed

    async def _resumed(self, place: str) -> HttpAnswer | None:
        try:
            answer = await self._http.stream(place)
        except HttpFailure as failure:
            logger.debug("a stream could not be gone on with: %s", failure)
            return None
        if answer.status == 200 and answer.media_type == "text/event-stream":
            return answer
        await answer.aclose()
        return None

    def _too_much(self, note: CallExchange) -> McpError:
        note.too_large = f"the answer is larger than {self._max_message} bytes"
        return MessageTooLargeError(self._max_message)

    # --- what the server brings

    async def _heard(self, event: SentEvent, note: CallExchange | None = None) -> JsonObject | None:
        """Takes an event. Some only say from which place a stream can be gone on with."""
        if event.name != b"message" or not event.data:
            return None
        return await self._take(event.data, note)

    async def _take(self, data: bytes, note: CallExchange | None) -> JsonObject | None:
        """Takes a message: passes it on to where it belongs, or returns it if it is an answer."""
        is_large = len(data) > AT_ONCE
        message = await in_short_turn(read_message, data) if is_large else read_message(data)
        if message is None:
            self.noise.append(data[:200].decode("utf-8", "replace"))
            if note is not None and is_large and await in_short_turn(has_too_many, data):
                note.too_large = f"the answer is larger than {MAX_CONTAINERS} lists and objects"
                raise MessageTooLargeError(self._max_message)
            raise UnreadableAnswerError("the answer is not valid JSON, or nested too deeply")
        method = message.get("method")
        if not isinstance(method, str):
            if "result" in message or "error" in message:
                return message
            raise UnreadableAnswerError("it is neither a result nor an error")
        raw = message.get("params")
        params = raw if is_object(raw) else None
        if "id" in message:
            self._request(message["id"], method, params)
        else:
            self._notification(method, params)
        return None

    def _notification(self, method: str, params: JsonObject | None) -> None:
        # At once, where it is read: so it is known to which call it belongs.
        if method == "notifications/progress":
            self._progress(params or {})
        elif not self._is_told_subscriber(method, params or {}) and self._is_heeded(method):
            self._told(method, params or {})

    async def _listen(self) -> None:
        """Takes what the server says on a stream of its own, which it need not have."""
        place: str | None = None
        wait, attempts = RETRY, 0
        while attempts < MAX_ATTEMPTS:
            attempts += 1
            try:
                answer = await self._http.stream(place)
                try:
                    if 400 <= answer.status < 500:
                        return
                    if answer.status == 200 and answer.media_type == "text/event-stream":
                        async with aclosing(read_events(answer.chunks(), self._max_message)) as events:
                            async for event in events:
                                place, wait = event.id or place, wait if event.retry is None else event.retry
                                with suppress(UnreadableAnswerError):
                                    await self._heard(event)
                        attempts = 0
                finally:
                    await answer.aclose()
            except (HttpFailure, McpError) as error:
                logger.debug("the server's own stream broke off: %s", error)
            await asyncio.sleep(wait)


def _own(message: JsonObject, request_id: RequestId) -> JsonObject:
    """Returns an answer to this request. One that the server could not read has no id."""
    said = as_request_id(message.get("id"))
    if message.get("id") is not None and (said is None or same_id(said) != same_id(request_id)):
        raise UnreadableAnswerError("it is to another request")
    return message
