"""Receives webhooks: a small HTTP server that runs while there are subscribers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, MutableMapping, Sequence
from typing import Any

from spindle.errors import ConfigurationError
from spindle.http.addresses import is_loopback
from spindle.listening.addressing import Addressing
from spindle.listening.connections import recognise
from spindle.sources.events.cloudevents import decoded, is_json
from spindle.sources.events.config import host_and_port
from spindle.sources.events.links.port import Inbox, Incoming
from spindle.sources.events.links.signature import problem

MAX_BODY = 4 * 1024 * 1024
GRACE = 2.0
"""Seconds that requests may take to end when the last subscriber leaves."""


class Receiver:
    """A server at one address, shared by its subscribers; it runs while there are any."""

    def __init__(self, listen: str, secrets: Sequence[str], max_size: int, hosts: Sequence[str] = ()) -> None:
        """With `secrets`, each webhook must be signed with one of them. `hosts` are further names of ours."""
        self._listen = listen
        names = frozenset(name.lower() for name in (host_and_port(listen)[0], *hosts))
        addressing = Addressing(host_and_port(listen)[0], names, frozenset())
        self._app = _Application(tuple(secrets), min(max_size, MAX_BODY), addressing)
        self._changing = asyncio.Lock()
        self._users = 0
        self._running: contextlib.AsyncExitStack | None = None
        self.url = ""

    @contextlib.asynccontextmanager
    async def subscribe(self, address: str | None = None) -> AsyncGenerator[Inbox]:
        """Subscribes to webhooks sent to one path, or to any."""
        inbox = Inbox()
        path = None if address is None else f"/{address.strip('/')}"
        async with self._changing:
            if self._running is None:
                stack = contextlib.AsyncExitStack()
                self.url = await stack.enter_async_context(_served(self._app, self._listen))
                self._running = stack
            self._users += 1
        self._app.inboxes.append((path, inbox))
        try:
            yield inbox
        finally:
            self._app.inboxes.remove((path, inbox))
            await self._leave()

    async def _leave(self) -> None:
        async with self._changing:
            self._users -= 1
            if self._users == 0 and self._running is not None:
                running, self._running = self._running, None
                await running.aclose()


@contextlib.asynccontextmanager
async def _served(app: _Application, listen: str) -> AsyncGenerator[str]:
    """Runs the application at a host and port (0: any free one) and yields its URL."""
    from spindle.listening.server import answering, open_socket

    host, port = host_and_port(listen)
    try:
        bound = open_socket(host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"cannot listen at {listen}: {reason}", hint="choose another port", sent=False
        ) from None
    with bound:
        if not app.secrets and not is_loopback(bound.getsockname()[0]):
            raise ConfigurationError(
                f"{listen} can be reached by others, and webhooks need no signature",
                hint="set `secret` of the source, or listen on 127.0.0.1",
                sent=False,
            )
        async with answering(app, bound, GRACE):
            yield f"http://{listen.rpartition(':')[0]}:{bound.getsockname()[1]}"


class _Application:
    """The ASGI application that receives webhooks."""

    def __init__(self, secrets: tuple[str, ...], max_size: int, addressing: Addressing) -> None:
        self.inboxes: list[tuple[str | None, Inbox]] = []
        self.secrets = secrets
        self._max_size = max_size
        self._addressing = addressing

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, text = await self._answer(scope, receive)
        body = text.encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: MutableMapping[str, Any], receive: Any) -> tuple[int, str]:
        path = str(scope["path"])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        misled = self._misled(headers)
        if misled is not None:
            return misled
        wanted = [inbox for at, inbox in self.inboxes if at in (None, path.rstrip("/") or "/")]
        if not wanted:
            return 404, "nobody listens at this path"
        if scope["method"] not in ("POST", "PUT"):
            return 405, "an event is sent with POST"
        if not self.secrets and not is_json(headers.get("content-type", "none")):
            # A page may send other kinds to any server without asking it first.
            return 415, "an event that is not signed must be JSON: send Content-Type: application/json"
        body = await self._body(headers, receive)
        if not isinstance(body, bytes):
            return body
        wrong = [problem(secret, headers, body) for secret in self.secrets]
        if wrong and None not in wrong:
            return 401, wrong[0] or ""
        recognise(scope)
        event = decoded(body, headers, path.lstrip("/"))
        item = Incoming(event, event.extensions.get("correlationid"), headers)
        taken = [inbox.put(item) for inbox in wanted]
        if not all(taken):
            return 503, "events are not read fast enough"
        return 202, ""

    def _misled(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._addressing.knows(host):
            return 421, f"nobody is called {host[:200]!r} here; see allowed_hosts of the source"
        if origin is not None and not self._addressing.trusts(origin, host):
            return 403, "pages may not send events"
        return None

    async def _body(self, headers: Mapping[str, str], receive: Any) -> bytes | tuple[int, str]:
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > self._max_size:
            return 413, "the event is too large"
        body = bytearray()
        more = True
        while more:
            part = await receive()
            if part["type"] != "http.request":
                return 400, "the request broke off"
            body += part.get("body", b"")
            more = part.get("more_body", False)
            if len(body) > self._max_size:
                return 413, "the event is too large"
        return bytes(body)
