"""One connection: requests go out, replies find the call they belong to, and nobody else's.

With `id_field` every request carries a number, and a reply goes to the call of that number (`waiting.py`);
what comes for a call that has ended is dropped and counted. Without it calls take turns, and one that is
given up before its reply came takes the connection with it: what would come next could not be told from the
next reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from spindle.domain.call import Call, Result
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import (
    ConnectionFailedError,
    NotFoundError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)
from spindle.http.websocket import open_websocket
from spindle.ports.source import Session
from spindle.remedies import Remedy
from spindle.sources.message_paths import MISSING, put
from spindle.sources.parameters import as_text, filled, with_defaults
from spindle.sources.websocket.config import SUBSCRIPTION
from spindle.sources.websocket.messages import SHOWN, decoded, encoded, failure, holds, to_result, useful
from spindle.sources.websocket.waiting import Desk, WaitingCall

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note
    from spindle.sources.websocket.config import Request, Stream, WebSocketConfig

TOO_LARGE = 1009


class WebSocketSession(Session):
    """One connection: sends requests and gives each reply to the call that it belongs to. The first call
    connects it: the settings alone say which tools there are."""

    def __init__(
        self,
        name: str,
        config: WebSocketConfig,
        credential: Credential,
        note: Note,
        *,
        public_only: bool = False,
    ) -> None:
        """`public_only`: somebody else chose the address, so it may not be one of ours."""
        self._name = name
        self._config = config
        self._credential = credential
        self._note = note
        self._public_only = public_only
        self._numbers = itertools.count(1)
        self._desk = Desk(config.reply_id_field or config.id_field)
        self._farewells: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.peer: str | None = None
        """The address that the connection leads to, also when it is over."""
        self._connection: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def late(self) -> int:
        """Replies that came after their call had ended."""
        return self._desk.late

    @property
    def unmatched(self) -> int:
        """The number of messages that belong to no call."""
        return self._desk.unmatched

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*self._farewells, return_exceptions=True)
        if self._connection is not None and self._reader is not None:
            await self._connection.close()
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self.late:
            self._note(f"{self._name}: {self.late} replies came after their call had ended and were dropped")

    @property
    def usable(self) -> bool:
        """True if a request can be sent, also if the connection is not open yet."""
        return not self._lost.done() and (self._connection is None or self._connection.state is State.OPEN)

    # --- the port

    async def discover(self) -> list[ToolSpec]:
        return [
            request.spec(
                tool, f"sources.{self._name}.requests.{tool}", request.parameters, request.output_schema
            )
            for tool, request in self._config.requests.items()
        ]

    async def probe(self, tools: Sequence[Tool]) -> None:
        await self._connect()

    @property
    def is_lost(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - read only
        return self._lost.done()

    async def wait_closed(self) -> str:
        return await asyncio.shield(self._lost)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        request = self._config.requests.get(tool.spec.remote_name)
        if request is None:
            raise NotFoundError(f"{tool.name} is no longer defined", remedy=Remedy("sync"))
        arguments = with_defaults(request.parameters, call.arguments)
        message = filled(request.message, arguments)
        if self._config.id_field is not None:
            return await self._exchange(tool, request, message, arguments)
        async with self._turn:
            return await self._exchange(tool, request, message, arguments)

    # --- a call

    async def _exchange(self, tool: Tool, request: Request, message: Any, arguments: JsonObject) -> Result:
        async with self._expecting(request, message, arguments) as waiting:
            await self._send(encoded(self._config, message), waiting)
            if request.stream is not None:
                return await self._collect(tool, request, request.stream, waiting, arguments)
            reply = await waiting.next()
            waiting.outstanding = False
            return failure(request, reply, arguments) or to_result(self._config, useful(tool, request, reply))

    @contextlib.asynccontextmanager
    async def _expecting(
        self, request: Request, message: Any, arguments: JsonObject
    ) -> AsyncGenerator[WaitingCall]:
        """While this lasts, what belongs to the request is kept for it."""
        key = ""
        if self._config.id_field is not None:
            key = self._next_number()
            self._number(message, key)
        stream = request.stream
        match = stream.match if stream else None
        waiting = WaitingCall(None if match is None else lambda item: holds(match, item, arguments))
        if stream is not None and stream.id_from is not None and stream.id_field is not None:
            waiting.subscribe(stream.id_from, stream.id_field)
        self._desk.enter(key, waiting)
        try:
            yield waiting
        finally:
            self._desk.leave(key)
            if not key and waiting.outstanding:
                # It would be taken for the next call's reply.
                self._lose("a call ended before all of its reply had come")

    def _next_number(self) -> str:
        self._desk.issued = next(self._numbers)
        return str(self._desk.issued)

    def _number(self, message: Any, key: str) -> None:
        assert self._config.id_field is not None
        put(message, self._config.id_field, key if self._config.id_type == "string" else int(key))

    async def _send(self, payload: str | bytes, waiting: WaitingCall) -> None:
        connection = self._connection or await self._connect()
        if self._lost.done() or connection.state is not State.OPEN:
            raise self._gone(sent=False)
        waiting.outstanding = True
        try:
            await connection.send(payload)
        except ConnectionClosed:
            raise self._gone(sent=True) from None

    async def _connect(self) -> ClientConnection:
        async with self._connecting:
            if self._connection is None:
                limit = self._config.connect_timeout
                try:
                    async with asyncio.timeout(limit):
                        connection = await self._open()
                except TimeoutError:
                    raise ConnectionFailedError(
                        f"{self._name!r} was not ready within {limit:g} s",
                        hint=f"raise sources.{self._name}.connect_timeout if it is only slow",
                        sent=False,
                        unreachable=True,
                    ) from None
                self._connection, self.peer = connection, connection.remote_address[0]
                self._reader = asyncio.create_task(self._read(connection), name=f"messages of {self._name}")
            return self._connection

    async def _open(self) -> ClientConnection:
        config = self._config
        return await open_websocket(
            self._name, config.url, self._credential, headers=config.headers, max_size=config.max_result_size,
            keep_alive=config.keep_alive or None, subprotocols=config.subprotocols,
            public_only=self._public_only,
        )  # fmt: skip

    async def _collect(
        self, tool: Tool, request: Request, stream: Stream, waiting: WaitingCall, arguments: JsonObject
    ) -> Result:
        found: list[Any] = []
        if stream.id_from is not None:
            reply = await waiting.next()
            failed = failure(request, reply, arguments)
            if failed is not None:
                waiting.outstanding = False
                return failed
            if waiting.subscription is MISSING:
                raise ServerError(
                    f"the first reply to {tool.name} has no {stream.id_from!r}: {as_text(reply)[:SHOWN]}",
                    hint=f"see `stream.id_from` in {tool.spec.place}",
                )
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(stream.seconds):
                    while stream.count is None or len(found) < stream.count:
                        message = await waiting.next()
                        failed = failure(request, message, arguments)
                        if failed is not None:
                            return failed
                        if waiting.recognises is None or waiting.recognises(message):
                            found.append(useful(tool, request, message))
                        if stream.until is not None and holds(stream.until, message, arguments):
                            break
        except asyncio.CancelledError:
            self._stop_later(stream, waiting, arguments)
            raise
        await self._stop(stream, waiting, arguments)
        return to_result(self._config, found)

    async def _stop(self, stream: Stream, waiting: WaitingCall, arguments: JsonObject) -> None:
        if stream.stop is None:
            return
        message = filled(stream.stop, {**arguments, SUBSCRIPTION: waiting.subscription})
        if self._config.id_field is not None and isinstance(message, dict):
            key = self._next_number()
            self._number(message, key)
            self._desk.unawaited[key] = None
        await self._send(encoded(self._config, message), waiting)

    def _stop_later(self, stream: Stream, waiting: WaitingCall, arguments: JsonObject) -> None:
        """Ends the subscription of a cancelled call, which cannot wait for it. Without ids the connection
        ends anyway."""
        if stream.stop is None or self._config.id_field is None:
            return

        async def stop() -> None:
            with contextlib.suppress(SpindleError):  # it is lost, and the subscription with it
                await self._stop(stream, waiting, arguments)

        task = asyncio.create_task(stop(), name=f"end of a subscription of {self._name}")
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    # --- what comes in

    async def _read(self, connection: ClientConnection) -> None:
        try:
            async for payload in connection:
                self._take(payload)
            reason = "the service closed the connection"
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == TOO_LARGE and not closed.rcvd_then_sent:
                limit = self._config.max_result_size
                self._end(lambda: self._too_large(f"a message was larger than {limit} bytes"))
            reason = f"the connection broke off: {closed}"
        self._lose(reason)

    def _take(self, payload: str | bytes) -> None:
        try:
            message = decoded(self._config, payload)
        except ValueError as error:
            self._take_unreadable(error)
            return
        for waiting, owned, size in self._desk.sort(message, len(payload)):
            waiting.size += size
            if waiting.size > self._config.max_result_size:
                owned = self._too_large(f"the messages were more than {self._config.max_result_size} bytes")
            waiting.incoming.put_nowait(owned)

    def _take_unreadable(self, error: ValueError) -> None:
        # With ids nobody knows whose it was meant to be.
        waiting = self._desk.in_turn
        if waiting is None:
            self._desk.unmatched += 1
        else:
            waiting.outstanding = False
            waiting.incoming.put_nowait(ServerError(f"{self._name!r} sent what cannot be read: {error}"))

    # --- the end

    def _lose(self, reason: str) -> None:
        if not self._lost.done():
            self._lost.set_result(reason)
        self._end(lambda: self._gone(sent=True))

    def _end(self, make_error: Callable[[], SpindleError]) -> None:
        for waiting in self._desk.everybody():
            waiting.outstanding = False
            waiting.incoming.put_nowait(make_error())

    def _gone(self, *, sent: bool) -> ConnectionFailedError:
        reason = self._lost.result() if self._lost.done() else "the connection is closing"
        return ConnectionFailedError(f"lost {self._name!r}: {reason}", sent=sent)

    def _too_large(self, problem: str) -> ResultTooLargeError:
        return ResultTooLargeError(
            f"{self._name!r}: {problem}",
            hint=f"ask for less, or raise sources.{self._name}.max_result_size",
        )
