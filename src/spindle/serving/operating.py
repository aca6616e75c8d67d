"""The paths for those who run a server: `/healthz`, `/readyz`, `/metrics` and the admin API."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import SpindleError
from spindle.listening.response import Response
from spindle.runs.waits import HOOK_PATH
from spindle.serving.browser_sessions import SESSION
from spindle.serving.measured import PATH, shown
from spindle.serving.problems import problem, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.serving.access import ServingAccess
    from spindle.serving.admin_api import AdminApi
    from spindle.serving.hooks import Webhooks

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
ADMIN: Final = "/admin/v1"
CONSOLE: Final = "/console"
CALLBACK: Final = "/callback"
CONNECT: Final = "/connect"
STORE_TIMEOUT: Final = 2.0
"""Seconds in which the store must answer."""


def is_console(path: str) -> bool:
    """True for a path of the console, or one of the two that users pass on their way through a consent."""
    return path in (CONSOLE, CALLBACK, CONNECT) or path.startswith(f"{CONSOLE}/")


class ServedConsole(Protocol):
    """The console, which lies in a layer above."""

    @property
    def has_api(self) -> bool:
        """True if it brings the REST API with it."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Operating:
    """Answers at these paths, and leaves the rest to the app inside."""

    def __init__(
        self, app: ASGIApp, spindle: Spindle, access: ServingAccess, console: ServedConsole | None = None
    ) -> None:
        """`console` answers at `/console`, if there is one."""
        self._console = console
        self._app = app
        self._spindle = spindle
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"] if scope["type"] == "http" else ""
        if path in (HEALTH, READY):
            body, status = ({"alive": True}, 200) if path == HEALTH else await self.readiness()
            headers = {"Cache-Control": "no-store"}
            await Response(to_json(body), status, headers, "application/json")(scope, receive, send)
        elif path == PATH:
            await self._metrics(scope)(scope, receive, send)
        elif path == ADMIN or path.startswith(f"{ADMIN}/"):
            await self._admin(scope, receive, send)
        elif self._console is not None and (is_console(path) or self._has_api(scope)):
            await self._console(scope, receive, send)
        elif path.startswith(HOOK_PATH):
            await self._hooks(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _has_api(self, scope: Scope) -> bool:
        """True for a browser with a session, on a server that has no REST API for others."""
        return SESSION in scope and self._console is not None and self._console.has_api

    # Most servers are never asked for these two, and need not hold them in memory.

    @cached_property
    def _admin(self) -> AdminApi:
        from spindle.serving.admin_api import AdminApi

        return AdminApi(self._spindle, self._access, ADMIN)

    @cached_property
    def _hooks(self) -> Webhooks:
        from spindle.serving.hooks import Webhooks

        return Webhooks(self._spindle, self._access)

    def _metrics(self, scope: Scope) -> Response:
        if not self._access.principal(scope).admin:
            hint = "show an administrator's token, or see serve.metrics_address"
            return respond(problem(403, "permission", "only an administrator may read the metrics", hint))
        return shown()

    async def readiness(self) -> tuple[JsonObject, int]:
        """Says if requests should come here, and why not, to anybody who can reach the server."""
        reasons: list[str] = []
        if self._access.draining:
            reasons.append("the server is stopping")
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                await self._spindle.store.access_version()
        except TimeoutError:
            reasons.append(f"the store did not answer within {STORE_TIMEOUT:g} s")
        except SpindleError as error:
            # The message of a store may name hosts and files, which are nobody's business.
            reasons.append(f"the store cannot be read ({type(error).__name__})")
        return ({"ready": not reasons} | ({"reasons": reasons} if reasons else {})), 503 if reasons else 200
