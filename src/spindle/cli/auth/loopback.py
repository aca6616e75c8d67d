"""A web server for one visit: the browser that a provider sends back to this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from spindle.errors import ConfigurationError

MAX_REQUEST = 32 * 1024
READ_TIMEOUT = 10.0

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Spindle</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 20vh auto; padding: 0 1rem }}
</style>
<h1>{title}</h1><p>{text}</p></html>
"""


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
    """Listens on this machine for the browser that a provider sends back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._state = ""
        self._came: asyncio.Future[Visit] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
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
        parts = urlsplit(configured or "")
        own = parts.scheme == "http"
        if not own:
            parts = urlsplit(default)
        host = "::1" if parts.hostname == "::1" else "127.0.0.1"
        loopback = cls(parts.path or "/")
        try:
            server = await asyncio.start_server(loopback.serve, host, parts.port or 0, limit=MAX_REQUEST)
        except OSError as error:
            if own:
                raise ConfigurationError(
                    f"cannot listen at {configured}, which [auth] redirect_uri names: {error.strerror}",
                    hint="another login may be open; end it, or change the port",
                ) from None
            server = await asyncio.start_server(loopback.serve, host, 0, limit=MAX_REQUEST)
        port = server.sockets[0].getsockname()[1]
        shown = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        loopback.redirect_uri = f"http://{shown}:{port}{parts.path}"
        try:
            yield loopback
        finally:
            server.close()
            await loopback.close()

    async def close(self) -> None:
        """Sends the pages that visitors wait for, then closes the other connections."""
        waiting = {task for task in self._tasks if not task.done()}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=1.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, title, text = await self._answer(*head.split("\r\n", 1)[0].split(" ")[:2])
            body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
            lines = (
                f"HTTP/1.1 {status}",
                "Content-Type: text/html; charset=utf-8",
                f"Content-Length: {len(body)}",
                "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",
                "Referrer-Policy: no-referrer",
                "Cache-Control: no-store",
                "Connection: close",
            )
            writer.write("\r\n".join((*lines, "", "")).encode() + body)
            await writer.drain()
        except (
            TimeoutError,
            ConnectionError,
            TypeError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            pass  # not the returning browser, but some other request
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, method: str, target: str) -> tuple[str, str, str]:
        parts = urlsplit(target)
        if method != "GET" or parts.path != self._path:
            return "404 Not Found", "Not here", "There is nothing at this address."
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        state = query.get("state", "")
        if not self._state or not hmac.compare_digest(state.encode(), self._state.encode()):
            text = "This is not the login that the terminal waits for. Follow the link in the terminal."
            return "400 Bad Request", "Another login", text
        if self._came.done():
            return "409 Conflict", "Done before", "This login was completed. You can close this page."
        visit = Visit(
            query.get("code"),
            state,
            query.get("iss"),
            query.get("error"),
            query.get("error_description"),
            asyncio.get_running_loop().create_future(),
        )
        self._came.set_result(visit)
        return "200 OK", *await visit.page
