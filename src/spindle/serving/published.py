"""The workspace's sources as a registry at `/v0.1/servers`, in the form that VS Code and other clients read.

It exists only where `serve.registry` says so. With `true` it follows the rules of everything that is served;
with `"open"` it needs no token and any page may read it, as those clients want.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from spindle.domain.json_schema import JsonObject, to_json
from spindle.listening.response import Response
from spindle.serving.problems import problem, respond
from spindle.serving.resource import base_url
from spindle.version import __version__

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess

ROOT: Final = "/v0.1/servers"
PAGE: Final = 30
MAX_PAGE: Final = 100
_ONE = re.compile(rf"{re.escape(ROOT)}/([^/]+/[^/]+)/versions(?:/([^/]+))?/?")
_CORS: Final = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, OPTIONS",
    "access-control-allow-headers": "Authorization, Content-Type",
}


def open_list(scope: Scope, config: ServeConfig) -> Literal["list"] | None:
    """The rule for what needs no token: the list, where the settings open it."""
    reads = scope["method"] in ("GET", "HEAD", "OPTIONS")
    return "list" if config.registry == "open" and reads and _is_ours(scope) else None


def _is_ours(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == ROOT or path.startswith(f"{ROOT}/")


class PublishedRegistry:
    """Answers requests for the registry, and leaves all others to the app inside."""

    def __init__(
        self, app: ASGIApp, spindle: Spindle, access: ServingAccess, *, mcp_path: str | None = None
    ) -> None:
        """`mcp_path`: where the app inside is an MCP server of the workspace itself."""
        self._app = app
        self._spindle = spindle
        self._access = access
        self._mcp_path = mcp_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        published = self._access.config.registry
        if scope["type"] != "http" or not published or not _is_ours(scope):
            await self._app(scope, receive, send)
            return
        response = self._answer(scope)
        if published == "open":
            response.headers |= _CORS
        await response(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["method"] == "OPTIONS":
            return Response(status_code=204)
        if scope["method"] not in ("GET", "HEAD"):
            return respond(problem(405, "client", "method not allowed"), {"Allow": "GET, OPTIONS"})
        entries = self._entries(scope)
        path: str = scope["path"]
        if path.rstrip("/") == ROOT:
            return _listed(entries, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
        one = _ONE.fullmatch(path)
        entry = entries.get(one[1]) if one else None
        version = one[2] if one else None
        if entry is None or version not in (None, "latest", entry["server"]["version"]):
            return respond(problem(404, "not_found", "there is no such server in this registry"))
        return _json(entry if version else {"servers": [entry], "metadata": {"count": 1}})

    def _entries(self, scope: Scope) -> dict[str, JsonObject]:
        """The entries that the principal of a request may see, by name."""
        from spindle.registry.publish import answer_entry, namespace, source_entry, workspace_entry

        base = base_url(self._access.config, scope)
        space = namespace(urlsplit(base).hostname or "")
        principal: Principal = self._access.principal(scope)
        sources = self._spindle.catalog.sources
        found = [
            source_entry(space, name, sources.table(name))
            for name in sources.names
            if self._access.offers(principal, name)
        ]
        if self._mcp_path is not None:
            token = self._access.wants_token
            own = workspace_entry(space, f"{base}{self._mcp_path}", __version__, wants_token=token)
            found.append(own)
        at = datetime.fromtimestamp(sources.read_at, UTC).isoformat().replace("+00:00", "Z")
        return {
            server["name"]: answer_entry(server, at)
            for server in sorted(filter(None, found), key=lambda server: server["name"])
        }


def _listed(entries: dict[str, JsonObject], query: dict[str, str]) -> Response:
    limit_text = query.get("limit", str(PAGE))
    if not limit_text.isdecimal() or not 1 <= int(limit_text[:9]) <= MAX_PAGE:
        return respond(problem(400, "invalid_arguments", f"limit must be 1 to {MAX_PAGE}"))
    since = query.get("updated_since")
    try:
        after = datetime.fromisoformat(since) if since else None
    except ValueError:
        return respond(problem(400, "invalid_arguments", "updated_since must be a time of RFC 3339"))
    words, version, cursor = query.get("search", "").lower(), query.get("version"), query.get("cursor", "")
    fitting = [
        entry
        for name, entry in entries.items()
        if words in name.lower()
        and version in (None, "latest", entry["server"]["version"])
        and name > cursor
        and (after is None or _updated(entry) > after.astimezone(UTC))
    ]
    page = fitting[: int(limit_text)]
    metadata: JsonObject = {"count": len(page)}
    if len(page) < len(fitting):
        metadata["nextCursor"] = page[-1]["server"]["name"]
    return _json({"servers": page, "metadata": metadata})


def _updated(entry: JsonObject) -> datetime:
    (meta,) = entry["_meta"].values()
    return datetime.fromisoformat(meta["updatedAt"])


def _json(body: JsonObject) -> Response:
    return Response(to_json(body), media_type="application/json")
