"""The base of links to message brokers: they use FastStream, and never wait without a limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, ClassVar

from spindle.domain.json_schema import JsonObject
from spindle.errors import AuthError, ConnectionFailedError, SpindleError
from spindle.http.addresses import leads_inside
from spindle.sources.events.cloudevents import decoded, encoded
from spindle.sources.events.links.port import EventLink, Inbox, Incoming, Outgoing, give_back
from spindle.sources.events.links.target import Target

CLOSE_TIMEOUT = 3.0
LOOK = 2.0
"""Seconds after which a broker that says nothing is asked whether it is still there."""

# These libraries log a traceback for every lost connection. With logging set up it is still shown;
# otherwise our own error reports it once.
for _name in ("aio_pika", "aiormq", "nats", "zmqtt", "faststream", "confluent_kafka"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class BrokerLink(EventLink):
    """A link that uses one FastStream broker. Each kind knows how to make it, publish and subscribe."""

    prefix: ClassVar = "ce-"
    """The prefix of an event's attributes in headers."""
    escaped: ClassVar = False
    has_headers: ClassVar = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self.broker: Any = None
        self.gone = asyncio.Event()
        """Set by libraries that tell when the connection is lost."""
        self._closing: asyncio.Task[None] | None = None

    @abstractmethod
    def make(self) -> Any:
        """Returns the broker, not connected yet."""

    @abstractmethod
    async def send(self, message: Outgoing, headers: dict[str, str], body: bytes) -> JsonObject:
        """Publishes, and waits for the acknowledgement."""

    @abstractmethod
    async def listen(self, address: str, bindings: Mapping[str, Any], decoder: Any) -> Any:
        """Returns a FastStream subscriber that uses `decoder`, not started yet."""

    async def confirm(self) -> None:
        """Waits until the broker has confirmed a subscription."""

    async def started(self) -> None:
        """Does what else is needed once connected."""

    async def hush(self, subscriber: Any) -> None:
        """Has the broker deliver nothing more to a subscriber, which still takes what is on its way."""

    async def leave(self, broker: Any, broken: bool) -> None:
        """Disconnects the broker."""
        await broker.stop()

    # --- the port

    async def connect(self) -> None:
        target = self.target
        if target.public_only and await leads_inside(f"http://{target.endpoint.parts.hostname}"):
            # Its library resolves the name once more by itself.
            raise target.inside()
        timer = asyncio.timeout(target.connect_timeout)
        try:
            async with timer:
                self.broker = self.make()
                await self.broker.connect()
                await self.started()
        except SpindleError:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            if isinstance(error, TimeoutError) and timer.expired():
                raise target.unreachable(f"no answer within {target.connect_timeout:g} s") from None
            raise self._failure(error, connecting=True) from error
        except BaseException:
            await self.close()
            raise

    async def publish(self, message: Outgoing) -> JsonObject:
        envelope = message.envelope
        if envelope == "binary" and not self.has_headers:
            envelope = "structured"
        headers, body = encoded(message.event, envelope, prefix=self.prefix, escaped=self.escaped)
        timer = asyncio.timeout(self.target.publish_timeout)
        try:
            async with timer:
                return await self.send(message, {**message.headers, **headers}, body)
        except SpindleError:
            raise
        except Exception as error:
            # Events that the library still holds must not be sent after the caller saw an error.
            self._give_up()
            if isinstance(error, TimeoutError):
                raise self.target.not_acknowledged(sent=not self.deduplicates(message)) from None
            raise self._failure(error, connecting=False, message=message) from error

    @contextlib.asynccontextmanager
    async def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[Incoming]]:
        inbox = Inbox()

        async def decoder(message: Any) -> Incoming:
            return self.incoming(message, address)

        late: list[Incoming] = []

        async def take(item: Incoming) -> None:
            if not inbox.put(item):
                late.append(item)

        target = self.target
        subscriber: Any = None
        listens = False
        try:
            async with asyncio.timeout(target.publish_timeout):
                subscriber = await self.listen(address, bindings, decoder)
                subscriber(take)
                await subscriber.start()
                await self.confirm()
            listens = True
            watching = asyncio.create_task(self._watch(inbox), name=f"watching {target.endpoint.name}")
            try:
                yield inbox
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        except SpindleError:
            raise
        except TimeoutError:
            if subscriber is not None and subscriber.running:
                raise  # of whoever reads
            self._give_up()
            raise target.unreachable(f"no answer within {target.publish_timeout:g} s") from None
        except Exception as error:
            self._give_up()
            # Whoever could not listen has sent nothing either.
            raise self._failure(error, connecting=not listens) from error
        finally:
            await self._stop(subscriber, inbox, late)

    async def close(self) -> None:
        if self._closing is not None:
            await self._closing
        await self._close()

    async def _close(self) -> None:
        broker, self.broker = self.broker, None
        was_broken, self.broken = self.broken, True
        if broker is None:
            return
        with contextlib.suppress(Exception):  # it may be dead, which may be why we disconnect
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.leave(broker, was_broken)

    def _give_up(self) -> None:
        self.broken = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"leaving {self.target.endpoint.name}")

    # --- for the kinds

    def deduplicates(self, message: Outgoing) -> bool:
        """True if the broker recognises an event sent twice by its id, so that sending again is safe."""
        return False

    def refuses(self, error: BaseException) -> bool:
        """True if the error means that the broker does not accept the credential."""
        return False

    def incoming(self, message: Any, address: str) -> Incoming:
        """The event in a message."""
        given: dict[Any, Any] = message.headers or {}
        headers = {str(name): _text(value) for name, value in given.items()}
        if message.content_type and not headers.get("content-type"):
            headers["content-type"] = message.content_type
        event = decoded(message.body, headers, self.channel_of(message) or address, bare=self.prefix == "")
        return Incoming(event, message.correlation_id, headers)

    def channel_of(self, message: Any) -> str | None:
        """The address that a message came to, if the broker tells."""
        return None

    async def _watch(self, inbox: Inbox) -> None:
        """Ends a subscription whose broker is gone. Most libraries try for ever to reconnect, which a
        reader would take for silence."""
        seconds = self.target.publish_timeout
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.gone.wait(), LOOK)
                break
            if self.broker is None or not await self._answers(seconds):
                break
        self.broken = True
        inbox.end(
            ConnectionFailedError(f"lost {self.target.endpoint.shown}: it no longer answers", sent=False)
        )

    async def _answers(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return bool(await self.broker.ping(timeout=seconds))
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer
            return False

    async def _stop(self, subscriber: Any, inbox: Inbox, late: list[Incoming]) -> None:
        if subscriber is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self.hush(subscriber)
                    await subscriber.stop()
        # Given back only now: to a subscription that stands, a queue would deliver it again.
        await give_back([*inbox.left(), *late])

    def _failure(
        self, error: BaseException, *, connecting: bool, message: Outgoing | None = None
    ) -> SpindleError:
        if self.refuses(error):
            return AuthError(
                f"{self.target.endpoint.shown} refused the credential: {self.target.said(error)}",
                hint=f"see sources.{self.target.source}.auth",
                sent=False,
            )
        if connecting:
            return self.target.unreachable(error)
        return self.target.lost(error, sent=message is None or not self.deduplicates(message))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
