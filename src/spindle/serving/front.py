"""The answer at `/`: what this server is, and where to go. It holds nothing of the catalog, so it needs no
token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from spindle.domain.json_schema import to_json
from spindle.listening.headers import headers_of
from spindle.listening.response import Response
from spindle.runs.waits import HOOK_PATH
from spindle.serving.operating import CONSOLE, HEALTH, READY, is_console
from spindle.serving.published import ROOT, open_list

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess

_STYLE: Final = """\
:root {
  color-scheme: light dark;
  --back: #fbfbfa; --line: #e3e2df; --text: #1d1c1a; --muted: #65625c; --link: #2f5bd0;
}
@media (prefers-color-scheme: dark) {
  :root { --back: #161615; --line: #35342f; --text: #ecebe7; --muted: #a3a098; --link: #8fb0ff; }
}
body { margin: 0; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 560px; margin: 0 auto; padding: 64px 16px; }
h1 { font-size: 20px; margin: 0 0 8px; }
p { margin: 8px 0; }
a { color: var(--link); }
ul { list-style: none; margin: 24px 0; padding: 0; border-top: 1px solid var(--line); }
li { border-bottom: 1px solid var(--line); padding: 12px 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }
li a { flex: 0 0 160px; }
.muted, li span { color: var(--muted); }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept",
}


@dataclass(frozen=True, slots=True)
class FrontLink:
    """One place to go."""

    key: str
    path: str
    about: str


_PAGES: Final = frozenset({"/", HEALTH, READY})
_CONSOLE: Final = FrontLink("console", CONSOLE, "the workspace in your browser")
PUBLISHED: Final = FrontLink("registry", ROOT, "servers that this workspace publishes")


def front_or_list(scope: Scope, config: ServeConfig) -> Literal["page", "list"] | None:
    """The rule for what needs no token: this page, and the list where the settings open it."""
    if scope["path"].startswith(HOOK_PATH):
        return "page"  # who calls a webhook knows its address
    if config.console and is_console(scope["path"]):
        return "page"  # it asks for a session itself
    is_page = scope["path"] in _PAGES and scope["method"] in ("GET", "HEAD")
    return "page" if is_page else open_list(scope, config)


def _is_front(scope: Scope) -> bool:
    return scope["path"] == "/" and scope["method"] in ("GET", "HEAD")


class FrontPage:
    """Answers at `/` with a page for a browser, or JSON for others, and leaves the rest to the app inside."""

    def __init__(
        self, app: ASGIApp, access: ServingAccess, about: str, links: Sequence[FrontLink], how: str = ""
    ) -> None:
        """`about` is one sentence, and `how` another that says how to call."""
        self._app = app
        self._access = access
        self._about = about
        self._links = tuple(links)
        self._how = how

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_front(scope):
            await self._app(scope, receive, send)
            return
        config = self._access.config
        further = (*((_CONSOLE,) if config.console else ()), *((PUBLISHED,) if config.registry else ()))
        links = (*self._links, *further)
        if "text/html" in headers_of(scope).get(b"accept"):
            response = Response(self._page(links), headers=_HEADERS, media_type="text/html; charset=utf-8")
        else:
            body = {"name": "Spindle", "about": f"{self._about} {self._how}".strip()}
            body |= {link.key: link.path for link in links}
            body |= {"wants_token": self._access.wants_token}
            response = Response(to_json(body), media_type="application/json", headers={"Vary": "Accept"})
        await response(scope, receive, send)

    def _page(self, links: Sequence[FrontLink]) -> str:
        from html import escape

        items = "".join(
            f'<li><a href="{escape(link.path[1:])}">{escape(link.path)}</a>'
            f"<span>{escape(link.about)}</span></li>"
            for link in links
        )
        token = " Send your token as <code>Authorization: Bearer …</code>" if self._access.wants_token else ""
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Spindle</title>'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
            f"<main><h1>Spindle</h1><p>{escape(self._about)}</p><ul>{items}</ul>"
            f'<p class="muted">{escape(self._how)}{token}</p></main></html>'
        )
