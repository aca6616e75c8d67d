"""The page that users come back to after giving consent: completes it, and resumes the runs that waited
for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from spindle.auth.oauth.consent import key_of
from spindle.console.oauth_connect import Connect, browser_cookie
from spindle.console.pages import MAX_PARAMETER, page, problem_page
from spindle.domain.identity import Principal
from spindle.errors import PermissionDeniedError, SpindleError

if TYPE_CHECKING:
    from starlette.requests import Request

    from spindle.app import Spindle
    from spindle.auth.oauth import Completed

PrincipalOf = Callable[["Request"], Principal | Awaitable[Principal | None] | None]
"""Returns the principal of a request, if the application knows it."""


def callback_app(
    app: Spindle | Callable[[], Spindle], *, principal_of: PrincipalOf | None = None
) -> Starlette:
    """An ASGI application to be mounted or served alone: `/callback`, which users come back to, and
    `/connect`, which links lead to first with `consent = "browser"` in [auth].

    A consent is completed only for the user who was asked. `principal_of` says who comes back; without it,
    the page at `/connect` has to know the browser again, or it is the owner's own consent.
    """

    def opened() -> Spindle:
        return app() if callable(app) else app

    connect = Connect(opened)
    return Starlette(
        routes=[
            Route("/callback", Callback(opened, principal_of).answer),
            Route("/connect", connect.show, methods=["GET"]),
            Route("/connect", connect.take, methods=["POST"]),
        ]
    )


class Callback:
    """Completes consents when users come back from a provider."""

    def __init__(self, app: Callable[[], Spindle], principal_of: PrincipalOf | None) -> None:
        self._app = app
        self._principal_of = principal_of
        self._resuming: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request) -> HTMLResponse:
        """Answers whoever comes back."""
        completed = await self.complete(request, self._principal)
        if isinstance(completed, HTMLResponse):
            return completed
        if completed.denied is not None:
            return page(200, "Not connected", f"{completed.provider} was not connected. You can go back.")
        return page(200, f"{completed.provider} is connected", "You can close this page and go back.")

    async def complete(
        self, request: Request, principal_of: Callable[[Request], Awaitable[Principal | None]]
    ) -> Completed | HTMLResponse:
        """Completes the consent, and lets the runs go on that waited for it. Returns a page instead if that
        cannot be done."""
        app = self._app()
        given = {key: request.query_params.get(key) for key in _PARAMETERS}
        if any(len(value or "") > MAX_PARAMETER for value in given.values()) or not given["state"]:
            return page(400, "This link is incomplete", "Go back and follow the link again.")
        try:
            completed = await app.auth.complete(
                given["code"],
                given["state"],
                given["iss"],
                error=given["error"],
                error_description=given["error_description"],
                principal=await principal_of(request),
                browser=request.cookies.get(browser_cookie(key_of(given["state"]))),
            )
        except SpindleError as error:
            return problem_page(error)
        self._resume(app, completed.source, Principal(completed.principal), completed.denied)
        return completed

    async def _principal(self, request: Request) -> Principal | None:
        if self._principal_of is None:
            return None
        found = self._principal_of(request)
        found = await found if inspect.isawaitable(found) else found
        if found is None:
            raise PermissionDeniedError("nobody is logged in here", hint="log in, and follow the link again")
        return found

    def _resume(self, app: Spindle, source: str, principal: Principal, denied: str | None) -> None:
        """Resumes the runs in the background, so that the user does not wait for them."""

        async def go_on() -> None:
            await app.runner.resume_consent(source, principal, denied)

        task = asyncio.create_task(go_on(), name=f"runs that waited for {source}")
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)


_PARAMETERS = ("code", "state", "iss", "error", "error_description")
