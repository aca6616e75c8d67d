"""Consents that are given from the console: the browser goes to the provider, comes back to this server, and
is led to the page from which it went.

The cookie of a session does not come along from another site (SameSite=Strict), and a provider is one. So
whoever comes back gets a page first that asks for the same address again: that request is the console's own,
and shows the cookie.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from spindle.auth.oauth.consent import key_of
from spindle.console.oauth_callback import Callback
from spindle.console.oauth_connect import Connect, browser_cookie
from spindle.console.pages import form_page, shown
from spindle.domain.identity import Principal
from spindle.errors import Interruption, SpindleError
from spindle.serving.access import ANYBODY
from spindle.serving.browser_sessions import SESSION
from spindle.serving.operating import CONSOLE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from spindle.app import Spindle
    from spindle.console.rendering import Pages
    from spindle.serving.access import ServingAccess

logger = logging.getLogger("spindle")

RETURNED: Final = "returned"
"""The parameter of the second request, which the page of the first one makes."""


class ConsoleConsents:
    """Answers those who come back from a provider, and those who follow a link to a consent."""

    def __init__(self, app: Spindle, access: ServingAccess, pages: Pages) -> None:
        self._app = app
        self._access = access
        self._pages = pages
        self._callback = Callback(lambda: app, None)
        self.connect = Connect(lambda: app)
        self._listing: set[asyncio.Task[None]] = set()

    async def come_back(self, request: Request) -> ASGIApp:
        """Completes the consent of whoever is signed in, or of the browser that typed its code."""
        if RETURNED not in request.query_params:
            return self._pages.respond("back.html", None, query=str(request.url.query))
        completed = await self._callback.complete(request, self._who)
        if isinstance(completed, Response):
            return completed
        name = completed.source
        if completed.denied is None:
            self._list(name, Principal(completed.principal))
        place = _own(request.query_params.get("back", "")) or f"{CONSOLE}/sources/{quote(name, safe='')}"
        if completed.denied is None and SESSION in request.scope:
            return RedirectResponse(place, 303, {"Cache-Control": "no-store"})
        title = f"{completed.provider} is connected" if completed.denied is None else "Not connected"
        said = f"{completed.provider} did not let you in: {completed.denied}." if completed.denied else ""
        return form_page(
            200, title, f'<p>{shown(said)}</p><p><a href="{shown(place)}">Go back to the console</a></p>'
        )

    async def _who(self, request: Request) -> Principal | None:
        """The person who is signed in. None for a browser that is known by its mark, or not at all."""
        marked = browser_cookie(key_of(request.query_params.get("state", ""))) in request.cookies
        principal = self._access.principal(request.scope)
        return None if marked or principal is ANYBODY or SESSION not in request.scope else principal

    def _list(self, source: str, principal: Principal) -> None:
        """Has the tools of a source listed that waited for the consent, while its page is looked at."""

        async def work() -> None:
            try:
                await self._app.catalog.connect(source, principal)
            except (SpindleError, Interruption) as error:
                logger.warning("%s was connected, but its tools could not be listed: %s", source, error)

        task = asyncio.create_task(work(), name=f"tools of {source} after a consent")
        self._listing.add(task)
        task.add_done_callback(self._listing.discard)


def _own(address: str) -> str:
    """The address of a page of the console, or nothing: an answer leads nowhere else."""
    is_plain = address.isascii() and address.isprintable() and "\\" not in address and len(address) < 2000
    return address if address.startswith(f"{CONSOLE}/") and is_plain else ""
