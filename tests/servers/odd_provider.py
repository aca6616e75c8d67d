"""An authorisation server in the test's own event loop, and the source that it guards, which do what a
test tells them to: fail, hang, lie, answer with a page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Answer = Response | Callable[[dict[str, str]], Response]

PAGE = Response("<html>Please wait</html>", media_type="text/html")
DOWN = Response("<html>503</html>", 503, media_type="text/html")
HUGE = Response(b"[" + b"0," * 400_000 + b"0]", media_type="application/json")


class OddProvider:
    def __init__(self) -> None:
        self.port = 0
        self.metadata: dict[str, Any] = {}
        """What differs in the authorisation server's metadata."""
        self.resource: dict[str, Any] = {}
        """What differs in the resource's."""
        self.challenge: str | None = "Bearer"
        self.token_answers: list[Answer] = []
        """What the token endpoint answers next; then it gives tokens."""
        self.other_answers: dict[str, Answer] = {}
        """By path, what anything else answers."""
        self.forms: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.gate: asyncio.Event | None = None
        """The token endpoint does not answer before this is set."""
        self.arrived = asyncio.Event()
        self.lifetime: float | None = 3600
        self.serve_mcp: Callable[[Request], Awaitable[Response]] | None = None
        """Answers those who come to the source with a token."""
        self._count = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[OddProvider]:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        routes = [
            Route("/token", self._token, methods=["POST"]),
            Route("/{path:path}", self._any, methods=["GET", "POST", "DELETE"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", ws="none", lifespan="off")
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield self
        finally:
            if self.gate is not None:
                self.gate.set()
            server.should_exit = server.force_exit = True
            await task

    async def _token(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        self.forms.append({**form, "authorization": request.headers.get("authorization", "")})
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.token_answers:
            answer = self.token_answers.pop(0)
            return answer(form) if callable(answer) and not isinstance(answer, Response) else answer
        self._count += 1
        found: dict[str, Any] = {
            "access_token": f"odd-access-{self._count}",
            "refresh_token": f"odd-refresh-{self._count}",
            "token_type": "Bearer",
        }
        if self.lifetime is not None:
            found["expires_in"] = self.lifetime
        return JSONResponse(found)

    async def _any(self, request: Request) -> Response:
        path = request.url.path
        self.paths.append(path)
        answer = self.other_answers.get(path)
        if answer is not None:
            return answer({}) if callable(answer) and not isinstance(answer, Response) else answer
        if path == "/authorize":
            # A user who is logged in already and agrees at once.
            asked = request.query_params
            back = urlencode({"code": "a-code", "state": asked["state"]})
            return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)
        if path == "/mcp" and self.serve_mcp is not None and "authorization" in request.headers:
            return await self.serve_mcp(request)
        if path == "/mcp":
            headers = {"www-authenticate": self.challenge} if self.challenge else {}
            return Response(status_code=401, headers=headers)
        if path == "/.well-known/oauth-protected-resource/mcp":
            return JSONResponse({"resource": self.url, "authorization_servers": [self.base]} | self.resource)
        if path == "/.well-known/oauth-authorization-server":
            return JSONResponse(
                {
                    "issuer": self.base,
                    "authorization_endpoint": f"{self.base}/authorize",
                    "token_endpoint": f"{self.base}/token",
                    "code_challenge_methods_supported": ["S256"],
                }
                | self.metadata
            )
        if path == "/register":
            sent = await request.json()
            self.forms.append({"registered": json.dumps(sent)})
            return JSONResponse({**sent, "client_id": f"registered-{len(self.forms)}"}, 201)
        return Response(status_code=404)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # signals are the test runner's


def problem(code: str, status: int = 400, **more: str) -> Response:
    return JSONResponse({"error": code, **more}, status)


def redirect(url: str) -> Response:
    return RedirectResponse(url, 307)
