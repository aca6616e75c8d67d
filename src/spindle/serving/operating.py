"""The paths for those who run a server: `/healthz`, `/readyz`, `/metrics` and the admin API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import SpindleError
from spindle.serving.admin_api import ROOT, AdminApi
from spindle.serving.hooks import Webhooks
from spindle.serving.measured import PATH, shown
from spindle.serving.problems import problem, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.serving.access import ServingAccess

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
STORE_TIMEOUT: Final = 2.0
"""Seconds in which the store must answer."""


class Operating:
    """Answers at these paths, and leaves the rest to the app inside."""

    def __init__(self, app: ASGIApp, spindle: Spindle, access: ServingAccess) -> None:
        self._app = Webhooks(app, spindle, access)
        self._spindle = spindle
        self._access = access
        self._admin = AdminApi(spindle, access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"] if scope["type"] == "http" else ""
        if path in (HEALTH, READY):
            body, status = ({"alive": True}, 200) if path == HEALTH else await self.readiness()
            headers = {"Cache-Control": "no-store"}
            await Response(to_json(body), status, headers, "application/json")(scope, receive, send)
        elif path == PATH:
            await self._metrics(scope)(scope, receive, send)
        elif path.startswith(ROOT) and path[len(ROOT) : len(ROOT) + 1] in ("", "/"):
            await self._admin(scope, receive, send)
        else:
            await self._app(scope, receive, send)

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
