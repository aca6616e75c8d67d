"""The page that users come back to after giving consent: completes it, and resumes the runs that waited
for it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from html import escape
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from spindle.domain.identity import Principal
from spindle.errors import PermissionDeniedError, SpindleError

if TYPE_CHECKING:
    from starlette.requests import Request

    from spindle.app import Spindle

PrincipalOf = Callable[["Request"], Principal | Awaitable[Principal | None] | None]
"""Returns the principal of a request, if the application knows it."""

MAX_PARAMETER = 4096

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1.5rem}"
    "h1{font-size:1.5rem;margin:0 0 .5rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    # The address holds a code; it must not travel on.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def callback_app(
    app: Spindle | Callable[[], Spindle], *, principal_of: PrincipalOf | None = None
) -> Starlette:
    """An ASGI application with the one route `/callback`, to be mounted or served alone. With `principal_of`,
    only the user who was asked can complete a consent; a link that another user follows is refused.

    With `principal_of`, only the user who was asked can complete a consent: a link that somebody else
    was made to follow is refused.
    """
    return Starlette(routes=[Route("/callback", Callback(app, principal_of).answer)])


class Callback:
    """Completes consents when users come back from a provider."""

    def __init__(self, app: Spindle | Callable[[], Spindle], principal_of: PrincipalOf | None) -> None:
        self._app = app
        self._principal_of = principal_of
        self._resuming: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request) -> HTMLResponse:
        app = self._app() if callable(self._app) else self._app
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
                principal=await self._principal(request),
            )
        except SpindleError as error:
            return _problem(error)
        self._resume(app, completed.source, Principal(completed.principal), completed.denied)
        if completed.denied is not None:
            return page(200, "Not connected", f"{completed.provider} was not connected. You can go back.")
        return page(200, f"{completed.provider} is connected", "You can close this page and go back.")

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


def _problem(error: SpindleError) -> HTMLResponse:
    if isinstance(error, PermissionDeniedError):
        return page(
            403, "This link was made for somebody else", _said(error.hint or "ask for one of your own")
        )
    if error.retryable:
        return page(503, "That did not work just now", _said(error.message, "reload this page to try again"))
    return page(400, "That did not work", _said(error.message, error.hint or "go back and try again"))


def _said(*sentences: str) -> str:
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences)


def page(status: int, title: str, text: str) -> HTMLResponse:
    """Returns a small page that needs nothing but itself: no scripts, no files, nothing from elsewhere."""
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<main><h1>{escape(title)}</h1><p>{escape(text)}</p></main></html>"
    )
    return HTMLResponse(body, status, HEADERS)
