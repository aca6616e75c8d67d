"""NATS. If a JetStream stream takes the subject, its acknowledgement is awaited; otherwise the server's
answer to a ping after the event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from faststream.nats import NatsBroker
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.errors import Error as JetStreamError

from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject
from spindle.errors import AuthError
from spindle.sources.events.links.broker import BrokerLink
from spindle.sources.events.links.faststream_insides import client_of, close_nats_socket, connect_by
from spindle.sources.events.links.port import Outgoing
from spindle.sources.events.links.target import described

_FOREVER = 3600
REMEMBERED = 60.0
"""Seconds for which it is remembered which stream takes a subject."""


async def _connected(options: dict[str, Any]) -> Client:
    """Returns a connected client. Its socket is closed when it cannot connect, or is told to stop trying."""
    client = Client()
    try:
        await client.connect(**options)
    except BaseException:
        close_nats_socket(client)
        raise
    return client


class NatsLink(BrokerLink):
    """A link to a NATS server."""

    escaped = True

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self._streams: BoundedMap[str, tuple[float, str | None]] = BoundedMap()
        self._said: list[str] = []
        self._heard = 0
        """The number of lines that were said in all, of which the last are kept."""
        self._may_not_ask = asyncio.Event()
        """Set once the server has refused to be asked for streams."""
        self._unanswered: set[asyncio.Task[Any]] = set()

    @property
    def _client(self) -> Any:
        return client_of(self.broker)

    def make(self) -> NatsBroker:
        from faststream.nats.security import NatsToken
        from faststream.security import BaseSecurity, SASLPlaintext

        target = self.target
        security: BaseSecurity | None = None
        if target.login is not None:
            security = SASLPlaintext(*target.login, use_ssl=target.endpoint.secure)
        elif target.token is not None:
            security = NatsToken(target.token)

        async def said(error: Exception) -> None:
            line = described(error)
            self._said.append(line)
            self._heard += 1
            del self._said[:-20]
            if _is_refusal(line) and any(name in line.lower() for name in ("$js.api", "_inbox")):
                self._may_not_ask.set()

        async def lost() -> None:
            self.broken = True
            self.gone.set()

        broker = NatsBroker(
            target.endpoint.url,
            security=security,
            logger=None,
            apply_types=False,
            # An unsent event must not be sent later: its caller was told that it failed.
            allow_reconnect=False,
            # For the first connection, where neither 0 nor a negative number means none.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=max(1, int(target.connect_timeout)),
            error_cb=said,
            disconnected_cb=lost,
            closed_cb=lost,
        )
        connect_by(broker, _connected)
        return broker

    async def connect(self) -> None:
        try:
            await super().connect()
        except AuthError:
            raise
        except Exception:
            refused = next((line for line in self._said if "authorization" in line.lower()), None)
            if refused is not None:
                raise AuthError(
                    f"{self.target.endpoint.shown} refused the credential: {refused}",
                    hint=f"see sources.{self.target.source}.auth",
                    sent=False,
                ) from None
            if self._said:
                raise self.target.unreachable(self._said[-1]) from None
            raise

    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        stream = await self._stream(message.address)
        if stream is not None and message.reply_to is None:
            headers["Nats-Msg-Id"] = message.event.id
            taken = await self.broker.publish(
                body, message.address, headers=headers, stream=stream, timeout=self.target.publish_timeout
            )
            return {"stream": taken.stream, "sequence": taken.seq, "duplicate": bool(taken.duplicate)}
        heard = self._heard
        await self.broker.publish(
            body,
            message.address,
            headers=headers,
            reply_to=message.reply_to or "",
            correlation_id=message.event.extensions.get("correlationid"),
        )
        await self._flushed()
        # Others send at the same time: what was said of their events is not about this one.
        for line in self._said[len(self._said) - min(self._heard - heard, len(self._said)) :]:
            if _is_refusal(line) and message.address.lower() in line.lower():
                raise AuthError(f"{self.target.endpoint.shown} refused the event: {line}", sent=False)
        return {"stream": None}

    async def _flushed(self) -> None:
        """Waits for the server's answer to a ping, or until the connection is lost."""
        flushing = asyncio.create_task(self._client.flush(timeout=_FOREVER), name="flush")
        losing = asyncio.create_task(self.gone.wait(), name="lost")
        try:
            await asyncio.wait((flushing, losing), return_when=asyncio.FIRST_COMPLETED)
            if not flushing.done():
                raise ConnectionError("the connection was closed")
            await flushing
        finally:
            losing.cancel()
            if not flushing.done():
                # Cancelled when the connection ends: the library fails on an answer that nobody awaits.
                self._unanswered.add(flushing)
                flushing.add_done_callback(self._unanswered.discard)

    async def leave(self, broker: Any, broken: bool) -> None:
        if broken:
            await client_of(broker).close()  # without flushing, since a dead server takes nothing
        else:
            await broker.stop()
        unanswered = list(self._unanswered)
        for task in unanswered:
            task.cancel()
        await asyncio.gather(*unanswered, return_exceptions=True)

    def deduplicates(self, message: Outgoing) -> bool:
        return self._streams.get(message.address, (0, None))[1] is not None

    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        queue = bindings.get("queue")
        return self.broker.subscriber(
            address, queue=queue if isinstance(queue, str) else "", decoder=decoder, persistent=False
        )

    async def confirm(self) -> None:
        await self._flushed()

    def channel_of(self, message: Any) -> str | None:
        return str(message.raw_message.subject)

    async def _stream(self, subject: str) -> str | None:
        """The stream that takes a subject, or None. A server that does not say in time may have one: an event
        that only seems to be acknowledged would be worse than an error."""
        known = self._streams.get(subject)
        if known is not None and time.monotonic() - known[0] < REMEMBERED:
            return known[1]
        found = await self._answer(asyncio.create_task(self._ask_for_stream(subject), name="find stream"))
        self._streams[subject] = (time.monotonic(), found)
        return found

    async def _answer(self, asking: asyncio.Task[str | None]) -> str | None:
        refused = asyncio.create_task(self._may_not_ask.wait(), name="may not ask")
        losing = asyncio.create_task(self.gone.wait(), name="lost")
        tasks = (asking, refused, losing)
        try:
            seconds = self.target.publish_timeout / 2
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if asking in done:
                return await asking
            if refused in done:
                return None
            if losing in done:
                raise ConnectionError("the connection was closed")
            raise self.target.not_acknowledged(sent=False)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_for_stream(self, subject: str) -> str | None:
        try:
            # Longer than anybody waits: its own error for that is the one for a missing server.
            streams = self._client.jetstream(timeout=_FOREVER)
            return await streams.find_stream_name_by_subject(subject)
        except (JetStreamError, NoRespondersError):
            return None  # no stream, or no JetStream
        except NatsError as error:
            raise ConnectionError(described(error)) from error


def _is_refusal(line: str) -> bool:
    return "permissions violation" in line.lower()
