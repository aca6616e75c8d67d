"""Webhooks over HTTP: an event is one request, and a 2xx response acknowledges it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import httpx2

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, ResultTooLargeError, SpindleError, from_status
from spindle.http.addresses import leads_inside
from spindle.http.retry_after import retry_after
from spindle.sources.events.cloudevents import decoded, encoded
from spindle.sources.events.links.port import EventLink, Incoming, Outgoing
from spindle.sources.events.links.signature import signed
from spindle.sources.events.links.target import Target
from spindle.sources.http import CONNECT_FAILURES, CredentialAuth
from spindle.sources.reach import InsideError, Reach


class WebhookLink(EventLink):
    """Sends events to one HTTP server. The client connects when needed, so no connection can be lost."""

    has_responses = True

    def __init__(self, target: Target) -> None:
        self._target = target
        self._auth = CredentialAuth(target.credential)
        self._reach = Reach(
            httpx2.Timeout(None, connect=target.connect_timeout),
            httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

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
        await self._reach.aclose()

    async def _send(self, message: Outgoing) -> tuple[int, Incoming]:
        target = self._target
        url = httpx2.URL(_joined(target.endpoint.url, message.address))
        if target.public_only and await leads_inside(str(url)):
            raise self._inside()
        headers, body = encoded(message.event, message.envelope, prefix="ce-", escaped=True)
        headers = {**target.headers, **message.headers, **headers}
        if target.secret is not None:
            headers |= signed(target.secret, message.event.id, body)
        method = str(message.bindings.get("method", "POST")).upper()
        timer = asyncio.timeout(target.publish_timeout)
        try:
            async with timer:
                client = self._reach.client(public_only=target.public_only)
                request = client.build_request(method, url, headers=headers, content=body)
                response = await client.send(request, auth=self._auth, stream=True)
                try:
                    answer = await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            if not timer.expired():
                raise
            raise _repeatable(target.not_acknowledged()) from None
        except InsideError:
            # Its name resolved to another address before.
            raise self._inside() from None
        except CONNECT_FAILURES as error:
            raise target.unreachable(error) from error
        except httpx2.TransportError as error:
            raise _repeatable(target.lost(error)) from error
        status = response.status_code
        if not 200 <= status < 300:
            raise self._refusal(response, answer)
        return status, Incoming(decoded(answer, response.headers, message.address), None, response.headers)

    async def _read(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._target.max_size:
                raise ResultTooLargeError(
                    f"{self._target.endpoint.shown} answered with more than {self._target.max_size} bytes",
                    status=response.status_code,
                )
        return bytes(body)

    def _inside(self) -> SpindleError:
        return ConfigurationError(
            f"{self._target.endpoint.shown} is on this machine or a private network",
            hint=f"set sources.{self._target.source}.allow_private = true if that is meant",
            sent=False,
        )

    def _refusal(self, response: httpx2.Response, answer: bytes) -> SpindleError:
        status = response.status_code
        message = f"{self._target.endpoint.shown} refused the event with HTTP status {status}"
        said = answer[:200].decode("utf-8", "replace").strip()
        if said:
            message += f": {said}"
        if 300 <= status < 400:
            message += f"; it has moved to {response.headers.get('location', 'an unknown place')}"
        error = from_status(status, message, retry_after=retry_after(response.headers.get("retry-after")))
        return _repeatable(error)


def _repeatable(error: SpindleError) -> SpindleError:
    """Marks an error as safe to retry: the webhook carries an id by which its receiver knows it."""
    error.sent = False
    return error


def _joined(base: str, address: str) -> str:
    if not address.strip("/"):
        return base
    front, mark, query = base.partition("?")
    return f"{front.rstrip('/')}/{address.lstrip('/')}{mark}{query}"
