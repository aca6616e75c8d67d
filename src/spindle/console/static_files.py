"""The files of the console: its styles and scripts, which hold nothing of the workspace."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from spindle.console.rendering import FOLDER
from spindle.listening.response import Response

if TYPE_CHECKING:
    from starlette.requests import Request

_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


@cache
def files() -> dict[str, bytes]:
    """All files by their path below `static`: read once, and few."""
    folder = FOLDER / "static"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in _KINDS
    }


async def static_file(request: Request) -> Response:
    """Answers with a file. Only what is there can be named, so that no path leads elsewhere."""
    name: str = request.path_params["path"]
    found = files().get(name)
    if found is None:
        return Response("there is no such file\n", 404, media_type="text/plain; charset=utf-8")
    kind = _KINDS[f".{name.rpartition('.')[2]}"]
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if "v" in request.query_params else "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
    return Response(found, 200, headers, f"{kind}; charset=utf-8")
