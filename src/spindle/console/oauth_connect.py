"""The page that a link to a consent leads to first: it says who asks for what, wants the code that only they
were shown, and marks the browser, so that it is known again when the provider sends it back."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response

from spindle.console.pages import MAX_PARAMETER, form_page, page, problem_page, shown
from spindle.errors import PermissionDeniedError, SpindleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from spindle.app import Spindle
    from spindle.auth.oauth.browser import ConsentAsked

FORM_COOKIE = "spindle-connect"
LASTS = 600
MAX_FORM = 4096
"""Bytes of what the page sends back."""


class Connect:
    """Shows the page, and takes the code."""

    def __init__(self, app: Callable[[], Spindle]) -> None:
        self._app = app

    async def show(self, request: Request) -> Response:
        """Answers whoever follows the link."""
        return await self._form(request.query_params.get("ticket", ""))

    async def take(self, request: Request) -> Response:
        """Takes the code. The form must come from the page itself: another site cannot read its mark, and the
        cookie does not come along from there."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM:
                return page(413, "That did not work", "Follow the link again.")
        sent = parse_qs(body.decode("latin-1"))
        ticket, code, mark = (sent.get(name, [""])[0] for name in ("ticket", "code", "mark"))
        cookie = request.cookies.get(FORM_COOKIE, "")
        if not mark or not hmac.compare_digest(mark.encode(), cookie.encode()):
            return page(403, "That did not work", "Follow the link again, and allow cookies of this site.")
        app = self._app()
        try:
            bound = await app.auth.bind_browser(ticket, code)
        except PermissionDeniedError:
            return await self._form(ticket, "This is not the code.", status=403)
        except SpindleError as error:
            return problem_page(error)
        answer = RedirectResponse(bound.url, 303, {"Cache-Control": "no-store"})
        answer.set_cookie(
            browser_cookie(ticket), bound.mark, LASTS, httponly=True, samesite="lax",
            secure=app.auth.redirect_uri.startswith("https:"),
        )  # fmt: skip
        answer.delete_cookie(FORM_COOKIE)
        return answer

    async def _form(self, ticket: str, remark: str = "", status: int = 200) -> HTMLResponse:
        app = self._app()
        if not ticket or len(ticket) > MAX_PARAMETER:
            return page(400, "This link is incomplete", "Go back and follow the link again.")
        try:
            asked = await app.auth.consent_asked(ticket)
        except SpindleError as error:
            return problem_page(error)
        mark = secrets.token_urlsafe(32)
        answer = form_page(status, f"Connect {asked.provider}", _form_body(asked, ticket, mark, remark))
        answer.set_cookie(
            FORM_COOKIE, mark, LASTS, httponly=True, samesite="strict",
            secure=app.auth.redirect_uri.startswith("https:"),
        )  # fmt: skip
        return answer


def browser_cookie(ticket: str) -> str:
    """Returns the name of the cookie by which a browser is known again."""
    return f"spindle-consent-{ticket[:16]}"


def _form_body(asked: ConsentAsked, ticket: str, mark: str, remark: str) -> str:
    scopes = f" It is asked for: {shown(', '.join(asked.scopes))}." if asked.scopes else ""
    said = f"<p><strong>{shown(remark)}</strong></p>" if remark else ""
    who = shown(asked.principal)
    return (
        f"<p>The user <strong>{who}</strong> wants to use your account at"
        f" <strong>{shown(asked.provider)}</strong> as {shown(asked.source)}.{scopes}</p>"
        f"<p>Go on only if you are {who} and asked for this yourself. Whoever else sent you here would"
        " get access to your account.</p>"
        f'{said}<form method="post"><input type="hidden" name="ticket" value="{shown(ticket)}">'
        f'<input type="hidden" name="mark" value="{shown(mark)}">'
        '<p><label>Your code <input name="code" autocomplete="off" maxlength="20" required autofocus></label>'
        ' <button type="submit">Continue</button></p></form>'
    )
