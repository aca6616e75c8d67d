"""Lets pages of other origins call (CORS): answers what browsers ask before, and says that they may read the
answers. Which origins may is decided elsewhere: here all are trusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spindle.listening.response import Response

if TYPE_CHECKING:
    from starlette.types import Message, Send

    from spindle.listening.headers import RequestHeaders

ORIGIN: Final = "spindle.origin"
"""The key under which a request's scope has the trusted origin of the page that sent it."""
METHODS: Final = "GET, POST, PUT, DELETE, OPTIONS"
READABLE: Final = b"mcp-session-id, mcp-protocol-version, retry-after, www-authenticate"
"""Headers of answers that pages may read besides the usual ones."""
_HEADERS = re.compile(r"[A-Za-z0-9, _-]{0,2000}")


def preflight(headers: RequestHeaders) -> Response:
    """The answer to a browser that asks whether a page may send a request."""
    wanted = headers.get(b"access-control-request-headers")
    allowed = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Max-Age": "600",
        "Vary": "Access-Control-Request-Headers",
    }
    if wanted and _HEADERS.fullmatch(wanted):
        allowed["Access-Control-Allow-Headers"] = wanted
    if headers.get(b"access-control-request-private-network") == "true":
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return Response(status_code=204, headers=allowed)


def readable_by(origin: str, send: Send) -> Send:
    """Sends answers that pages of an origin may read."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", READABLE),
                (b"vary", b"Origin"),
            ]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sent
