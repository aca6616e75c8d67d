"""A web server for one visit: the browser that a provider sends back to this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from spindle.errors import ConfigurationError
from spindle.listening.addressing import Addressing

GRACE = 1.0
"""Seconds in which visitors who wait for a page get it, when the command ends."""

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Spindle</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 20vh auto; padding: 0 1rem }}
</style>
<h1>{title}</h1><p>{text}</p></html>
"""


_LOCAL = Addressing("127.0.0.1", frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Visit:
    """A user who came back with these parameters and waits for a page with the outcome."""

    code: str | None
    state: str = field(repr=False)
    iss: str | None
    error: str | None
    error_description: str | None
    page: asyncio.Future[tuple[str, str]] = field(repr=False)

    def answer(self, title: str, text: str) -> None:
        """Shows the user a page with the outcome."""
        if not self.page.done():
            self.page.set_result((title, text))


class Loopback:
    """Listens on this machine for the browser that a provider sends back: an ASGI application."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._state = ""
        self._came: asyncio.Future[Visit] = asyncio.get_running_loop().create_future()
        self.redirect_uri = ""

    async def visit(self, state: str) -> Visit:
        """Returns when the browser comes back with this state; other requests are turned away."""
        self._state = state
        return await self._came

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(cls, configured: str | None, default: str) -> AsyncGenerator[Loopback]:
        """Listens at the address in the settings, if it is on this machine; else at the usual port, or any
        free one."""
        from spindle.listening.server import answering, open_socket

        parts = urlsplit(configured or "")
        own = parts.scheme == "http"
        if not own:
            parts = urlsplit(default)
        host = "::1" if parts.hostname == "::1" else "127.0.0.1"
        loopback = cls(parts.path or "/")
        try:
            opened = open_socket(host, parts.port or 0)
        except OSError as error:
            if own:
                raise ConfigurationError(
                    f"cannot listen at {configured}, which [auth] redirect_uri names: {error.strerror}",
                    hint="another login may be open; end it, or change the port",
                ) from None
            opened = open_socket(host, 0)
        with opened:
            shown = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
            loopback.redirect_uri = f"http://{shown}:{opened.getsockname()[1]}{parts.path}"
            async with answering(loopback, opened, GRACE):
                yield loopback

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        status, title, text = await self._answer(scope)
        body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
        headers = (
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any]) -> tuple[int, str, str]:
        [host] = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"] or [""]
        if not _LOCAL.knows(host):
            # Another name for this machine is that of a page which would like to look like ours.
            return 421, "Not here", "There is nothing at this address."
        if scope["method"] != "GET" or scope["path"] != self._path:
            return 404, "Not here", "There is nothing at this address."
        given = parse_qs(scope["query_string"].decode("latin-1"))
        query = {key: values[0] for key, values in given.items()}
        state = query.get("state", "")
        if not self._state or not hmac.compare_digest(state.encode(), self._state.encode()):
            text = "This is not the login that the terminal waits for. Follow the link in the terminal."
            return 400, "Another login", text
        if self._came.done():
            return 409, "Done before", "This login was completed. You can close this page."
        visit = Visit(
            query.get("code"),
            state,
            query.get("iss"),
            query.get("error"),
            query.get("error_description"),
            asyncio.get_running_loop().create_future(),
        )
        self._came.set_result(visit)
        return 200, *await visit.page
