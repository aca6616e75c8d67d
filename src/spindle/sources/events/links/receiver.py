"""Receives webhooks: a small HTTP server that runs while there are subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

from spindle.errors import ConfigurationError
from spindle.sources.events.cloudevents import decoded
from spindle.sources.events.config import host_and_port
from spindle.sources.events.links.port import Inbox, Incoming
from spindle.sources.events.links.signature import problem

MAX_BODY = 4 * 1024 * 1024
GRACE = 2.0
"""Seconds that requests may take to end when the last subscriber leaves."""


class Receiver:
    """A server at one address, shared by its subscribers; it runs while there are any."""

    def __init__(self, listen: str, secret: str | None, max_size: int) -> None:
        self._listen = listen
        self._app = _Application(secret, min(max_size, MAX_BODY))
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
    from spindle.uvicorn_server import EmbeddedServer

    host, port = host_and_port(listen)
    try:
        bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen at {listen}: {error.strerror or error}", hint="choose another port", sent=False
        ) from None
    server = EmbeddedServer(app)
    task = asyncio.create_task(server.serve(sockets=[bound]), name="webhook receiver")
    try:
        yield f"http://{listen.rpartition(':')[0]}:{bound.getsockname()[1]}"
    finally:
        server.stop(GRACE)
        await task
        bound.close()


class _Application:
    """The ASGI application that receives webhooks."""

    def __init__(self, secret: str | None, max_size: int) -> None:
        self.inboxes: list[tuple[str | None, Inbox]] = []
        self._secret = secret
        self._max_size = max_size

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
        wanted = [inbox for at, inbox in self.inboxes if at in (None, path.rstrip("/") or "/")]
        if not wanted:
            return 404, "nobody listens at this path"
        if scope["method"] not in ("POST", "PUT"):
            return 405, "an event is sent with POST"
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
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if self._secret is not None:
            wrong = problem(self._secret, headers, bytes(body))
            if wrong is not None:
                return 401, wrong
        event = decoded(bytes(body), headers, path.lstrip("/"))
        item = Incoming(event, event.extensions.get("correlationid"), headers)
        taken = [inbox.put(item) for inbox in wanted]
        if not all(taken):
            return 503, "events are not read fast enough"
        return 202, ""
