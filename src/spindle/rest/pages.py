"""The pages of the REST API: what this server is, and a form for each tool.

They hold nothing of the catalog, so everybody who may reach the server gets them. The page reads the tools
from `/openapi.json` with the token of whoever looks at it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spindle.domain.json_schema import to_json

_FOLDER: Final = Path(__file__).with_name("static")
_FILES: Final = {
    "/docs": ("docs.html", "text/html"),
    "/docs/docs.css": ("docs.css", "text/css"),
    "/docs/docs.js": ("docs.js", "text/javascript"),
}
PATHS: Final = frozenset({"/", *_FILES})

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
    name, media_type = _FILES[request.url.path.rstrip("/")]
    return _file(name, media_type)


def front(request: Request, *, wants_token: bool) -> Response:
    """The answer at `/`: a page for a browser, JSON for anybody else."""
    accepted = request.headers.get("accept", "")
    if "text/html" in accepted:
        return _file("front.html", "text/html")
    about = {
        "name": "Spindle",
        "about": "the tools of one workspace, called by POST /tools/NAME with their arguments as JSON",
        "docs": "/docs",
        "openapi": "/openapi.json",
        "utcp": "/utcp",
        "wants_token": wants_token,
    }
    return Response(to_json(about), media_type="application/json", headers={"Vary": "Accept"})


def _file(name: str, media_type: str) -> Response:
    headers = {**HEADERS, "Vary": "Accept"} if name == "front.html" else HEADERS
    return Response((_FOLDER / name).read_bytes(), media_type=f"{media_type}; charset=utf-8", headers=headers)
