"""Small pages that need nothing but themselves: no scripts, no files, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from starlette.responses import HTMLResponse

from spindle.domain.visible import visible
from spindle.errors import PermissionDeniedError, SpindleError

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


def problem_page(error: SpindleError) -> HTMLResponse:
    """Returns the page that tells a user what went wrong."""
    if isinstance(error, PermissionDeniedError):
        return page(
            403,
            "This link was made for somebody else",
            _said(error.message, error.hint or "ask for one of your own"),
        )
    if error.retryable:
        return page(503, "That did not work just now", _said(error.message, "reload this page to try again"))
    return page(400, "That did not work", _said(error.message, error.hint or "go back and try again"))


def _said(*sentences: str) -> str:
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences)


def page(status: int, title: str, text: str) -> HTMLResponse:
    """Returns a page with one text."""
    return form_page(status, title, f"<p>{shown(text)}</p>")


def form_page(status: int, title: str, body: str) -> HTMLResponse:
    """Returns a page with this HTML, whose texts are `shown` ones."""
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{shown(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    )
    return HTMLResponse(f"{head}<main><h1>{shown(title)}</h1>{body}</main></html>", status, HEADERS)


def shown(text: str) -> str:
    """Returns a text of somebody else's as part of a page."""
    return escape(visible(text))
