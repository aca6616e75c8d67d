"""A real web service on uvicorn that publishes a UTCP manual, and does what a test tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from servers.echo_server import PUBLIC
from servers.running import PATIENCE
from spindle.domain.call import Call, Progress, Result
from spindle.domain.tool import Tool
from spindle.ports.source import Session

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def a_manual(*tools: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools), **more}


def a_tool(name: str, template: dict[str, Any], **inputs: Any) -> dict[str, Any]:
    """`inputs` are properties by name: their types."""
    properties = {key: {"type": value} if isinstance(value, str) else value for key, value in inputs.items()}
    return {
        "name": name,
        "description": f"Does {name}",
        "inputs": {"type": "object", "properties": properties},
        "outputs": {},
        "tags": ["test"],
        "tool_call_template": template,
    }


class Service:
    def __init__(self) -> None:
        self.url = ""
        self.public_url = ""
        """The same service at an address that the fixture `names` makes public."""
        self.tools: list[dict[str, Any]] = []
        self.pages: dict[str, Response] = {}
        self.seen: list[dict[str, Any]] = []
        self.tokens_given = 0
        self.token_lifetime: Any = 3600
        self.token_by_header = False
        self.good_tokens: set[str] = set()
        self.streaming = asyncio.Event()
        """A stream has begun."""
        self.closed = asyncio.Event()
        """The client has gone away from a stream."""
        self.app = Starlette(
            routes=[
                Route("/utcp", self.manual),
                Route("/echo/{rest:path}", self.echo, methods=METHODS),
                Route("/events", self.events, methods=["GET", "POST"]),
                Route("/cut", self.cut),
                Route("/endless", self.endless),
                Route("/lines", self.lines, methods=["GET", "POST"]),
                Route("/bytes", self.bytes),
                Route("/token", self.token, methods=["POST"]),
                Route("/protected", self.protected, methods=METHODS),
                Route("/redirect", self.redirect, methods=METHODS),
                Route("/{page:path}", self.page, methods=METHODS),
            ]
        )

    def _keep(self, request: Request, body: bytes = b"") -> dict[str, Any]:
        entry = {
            "method": request.method,
            "path": request.url.path,
            "query": list(request.query_params.multi_items()),
            "headers": {key: value for key, value in request.headers.items() if key not in OWN_TO_CLIENTS},
            "body": body.decode("utf-8", "replace"),
        }
        self.seen.append(entry)
        return entry

    async def manual(self, request: Request) -> Response:
        self._keep(request)
        return JSONResponse(a_manual(*self.tools))

    async def echo(self, request: Request) -> Response:
        return JSONResponse(self._keep(request, await request.body()))

    async def page(self, request: Request) -> Response:
        self._keep(request)
        return self.pages.get(request.url.path, JSONResponse({"error": "nothing here"}, 404))

    async def redirect(self, request: Request) -> Response:
        self._keep(request)
        status = int(request.query_params.get("status", 302))
        return RedirectResponse(request.query_params["to"], status)

    # --- streams

    async def events(self, request: Request) -> Response:
        self._keep(request, await request.body())

        async def stream() -> AsyncIterator[str]:
            yield ": a comment\n\n"
            yield 'event: tick\nid: 1\ndata: {"n": 1}\n\n'
            yield "data: plain\ndata: text\n\n"
            yield 'event: tick\r\ndata: {"n"'
            yield ': 2}\r\n\r\ndata: "ünï"\n\ndata: cut off'

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def cut(self, request: Request) -> Response:
        """Breaks off in the middle, unless it is asked to go on from there."""
        entry = self._keep(request)
        last = entry["headers"].get("last-event-id")

        async def stream() -> AsyncIterator[str]:
            identity = "id: 1\n" if request.query_params.get("ids") else ""
            if last is None:
                yield f"retry: 1\n{identity}data: 1\n\n"
                raise BrokenOffError
            yield "id: 2\ndata: 2\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def endless(self, request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            try:
                yield "data: 0\n\n"
                self.streaming.set()
                while request.query_params.get("more"):
                    yield "data: " + "x" * 10_000 + "\n\n"
                    # Once the client has gone, sending no longer waits for anything.
                    await asyncio.sleep(0)
                await asyncio.get_running_loop().create_future()
            finally:
                self.closed.set()

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def lines(self, request: Request) -> Response:
        entry = self._keep(request, await request.body())

        async def stream() -> AsyncIterator[str]:
            yield json.dumps({"method": entry["method"], "body": entry["body"]}) + '\n{"n":'
            yield ' 2}\n\n[3]\n"ä"'

        return StreamingResponse(stream(), media_type="application/x-ndjson")

    async def bytes(self, request: Request) -> Response:
        kind = request.query_params.get("type", "application/octet-stream")
        return Response(
            b"\x00\xff" * 3000 if kind == "application/octet-stream" else b'{"a": 1}', media_type=kind
        )

    # --- tokens

    async def token(self, request: Request) -> Response:
        form = dict((await request.form()).items())
        self._keep(request)
        given = (form.get("client_id"), form.get("client_secret"))
        expected = "Basic " + b64encode(b"me:s3cr3t-value").decode()
        by_header = request.headers.get("authorization") == expected
        if not (by_header if self.token_by_header else given == ("me", "s3cr3t-value")):
            return JSONResponse({"error": "invalid_client", "error_description": "who are you"}, 401)
        self.tokens_given += 1
        token = f"token-{self.tokens_given}"
        self.good_tokens.add(token)
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        return JSONResponse(answer | ({"expires_in": self.token_lifetime} if self.token_lifetime else {}))

    async def protected(self, request: Request) -> Response:
        entry = self._keep(request, await request.body())
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return JSONResponse(entry) if token in self.good_tokens else JSONResponse({"error": "no"}, 401)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.public_url = f"http://{PUBLIC}:{port}"
        listeners = [listener, socket.create_server((PUBLIC, port))]
        config = uvicorn.Config(self.app, log_level="critical", ws="none", lifespan="off")
        server = _Server(config)
        task = asyncio.create_task(server.serve(listeners))
        try:
            yield self
        finally:
            server.should_exit = server.force_exit = True
            await task
            for listener in listeners:
                listener.close()


OWN_TO_CLIENTS = ("host", "user-agent", "accept-encoding", "connection", "content-length", "accept")


class BrokenOffError(Exception):
    pass


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        # They are pytest's to handle.
        yield


@dataclass
class Opened:
    """An open session, its tools by name, and what was noted."""

    session: Session
    tools: dict[str, Tool]
    notes: list[str]

    async def call(self, tool: str, /, on_progress: Progress | None = None, **arguments: Any) -> Result:
        async with asyncio.timeout(PATIENCE):
            return await self.session.invoke(self.tools[tool], Call(tool, arguments, on_progress=on_progress))


OpenManual = Callable[..., AbstractAsyncContextManager[Opened]]
