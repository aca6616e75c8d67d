"""Webhooks over HTTP: an event is one request, and a 2xx response acknowledges it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, ResultTooLargeError, ServerError, SpindleError, from_status
from spindle.http.answer import HttpAnswer
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, InsideError, TooLargeError, UnpackError, UnreachableError
from spindle.http.request import Prepared, with_credential
from spindle.http.retry_after import retry_after
from spindle.sources.events.addresses import url_of
from spindle.sources.events.cloudevents import decoded, encoded
from spindle.sources.events.links.port import EventLink, Incoming, Outgoing
from spindle.sources.events.links.signature import signed
from spindle.sources.events.links.target import Target

# Whoever a redirect leads to would be given the credential and the event.
_NO_REDIRECTS = RedirectPolicy(most=0)


class WebhookLink(EventLink):
    """Sends events to one HTTP server. The client connects when needed, so no connection can be lost."""

    has_responses = True

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http = HttpClient(target.connect_timeout)

    async def publish(self, message: Outgoing) -> JsonObject:
        status, _ = await self._send(message)
        return {"status": status}

    async def exchange(self, message: Outgoing) -> Incoming:
        """Sends the event; the response is the answer."""
        _, answer = await self._send(message)
        return answer

    @contextlib.asynccontextmanager
    async def subscribe(
        self, address: str, bindings: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[Incoming]]:
        target = self._target
        if target.receiver is None:
            raise ConfigurationError(
                f"webhooks for {address} cannot be received without an address to listen at",
                hint=f'set sources.{target.source}.listen, such as "127.0.0.1:8787"',
                sent=False,
            )
        async with target.receiver.subscribe(address) as inbox:
            yield inbox

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, message: Outgoing) -> tuple[int, Incoming]:
        target = self._target
        headers, body = encoded(message.event, message.envelope, prefix="ce-", escaped=True)
        headers = {**target.headers, **message.headers, **headers}
        if target.secret is not None:
            headers |= signed(target.secret, message.event.id, body)
        method = str(message.bindings.get("method", "POST")).upper()
        url = url_of(target.endpoint.url, message.address)
        request = with_credential(Prepared(method, url, headers, body), target.credential)
        timer = asyncio.timeout(target.publish_timeout)
        try:
            async with (
                timer,
                exchange(self._http, request, _NO_REDIRECTS, public_only=target.public_only) as answer,
            ):
                content = await answer.read(target.max_size)
        except TimeoutError:
            if not timer.expired():
                raise
            raise _repeatable(target.not_acknowledged()) from None
        except InsideError:
            raise target.inside() from None
        except TooLargeError as failure:
            raise ResultTooLargeError(
                f"{target.endpoint.shown} answered with more than {failure.limit} bytes",
                status=failure.status,
            ) from None
        except UnpackError as failure:
            raise _repeatable(ServerError(f"{target.endpoint.shown} {failure}")) from failure
        except UnreachableError as failure:
            if not failure.sent:
                raise target.unreachable(failure) from failure
            raise _repeatable(target.lost(failure)) from failure
        except HttpFailure as failure:
            raise _repeatable(target.lost(failure)) from failure
        if not 200 <= answer.status < 300:
            raise self._refusal(answer, content)
        incoming = Incoming(decoded(content, answer.headers, message.address), None, answer.headers)
        return answer.status, incoming

    def _refusal(self, answer: HttpAnswer, content: bytes) -> SpindleError:
        status = answer.status
        message = f"{self._target.endpoint.shown} refused the event with HTTP status {status}"
        said = content[:200].decode("utf-8", "replace").strip()
        if said:
            message += f": {said}"
        if 300 <= status < 400:
            message += f"; it has moved to {answer.headers.get('location', 'an unknown place')}"
        error = from_status(status, message, retry_after=retry_after(answer.headers))
        return _repeatable(error)


def _repeatable(error: SpindleError) -> SpindleError:
    """Marks an error as safe to retry: the webhook carries an id by which its receiver knows it."""
    error.sent = False
    return error
