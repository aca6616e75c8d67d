"""The page of the REST API at `/docs`, with a form for each tool.

It holds nothing of the catalog, so everybody who may reach the server gets it. It reads the tools from
`/openapi.json` with the token of whoever looks at it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request

from spindle.listening.response import Response

_FOLDER: Final = Path(__file__).with_name("static")
_FILES: Final = {
    "/docs": ("docs.html", "text/html"),
    "/docs/docs.css": ("docs.css", "text/css"),
    "/docs/docs.js": ("docs.js", "text/javascript"),
}
PATHS: Final = frozenset(_FILES)

HEADERS: Final = {
    # The page sets every text as text; should that ever fail, nothing of it can run or be sent elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
        " media-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none';"
        " require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def page(request: Request) -> Response:
    """The page of the API, or a file that it needs."""
    name, media_type = _FILES[request.url.path]
    return Response((_FOLDER / name).read_bytes(), media_type=f"{media_type}; charset=utf-8", headers=HEADERS)
