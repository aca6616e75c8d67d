"""The console of `spindle up`: an HTTP server on this machine alone, begun when a link is first asked for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from spindle.errors import UntrustedError
from spindle.up.commands import NotOursError
from spindle.up.workspace import ChangedTooMuchError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.up.server import UpServer
    from spindle.up.workspace import WarmWorkspace

logger = logging.getLogger("spindle.up")

HOST: Final = "127.0.0.1"
LOOK_AFTER: Final = 1.0
"""Seconds in which the settings are not looked at twice."""
PAGES: Final = 2000
"""Requests at once, with the streams of open pages among them."""


class UpConsole:
    """Serves the console and the REST API that it uses, to nobody without a session."""

    def __init__(self, workspace: WarmWorkspace, port: int) -> None:
        self._workspace = workspace
        self._port = port
        self._starting = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._url = ""
        self._looked_at = 0.0
        self.server: UpServer | None = None
        """Told of each request, since it ends when nobody wants anything. Set by whoever makes both."""

    async def link(self) -> dict[str, Any]:
        """Returns the address of the console, and a link to it that works once."""
        from spindle.cli.served_console import link_at

        async with self._starting:
            if self._serving is None or self._serving.done():
                self._start()
        return {"url": f"{self._url}/console", "link": link_at(self._url, await self._sessions.new_link())}

    def _start(self) -> None:
        from spindle.cli.served_console import make_console
        from spindle.domain.serve import Quotas, ServeConfig
        from spindle.listening.server import address_of, listen
        from spindle.rest.app import make_app
        from spindle.serving.access import ServingAccess
        from spindle.serving.server import serve

        app = self._workspace.app
        quotas = Quotas(requests=PAGES)
        config = ServeConfig(host=HOST, port=self._port, console=True, quotas=quotas, shutdown_timeout=2.0)
        access = ServingAccess.of(config)
        access.on_request = self._follow
        console = make_console(app, access, alone=True)
        assert access.sessions is not None
        self._sessions = access.sessions
        listening = listen(HOST, self._port)
        self._url = address_of(listening, HOST)
        served = _Noticed(make_app(app, access, console), self)
        work = serve(served, listening, lambda: config, lambda: None, access.drain)
        self._serving = asyncio.create_task(work, name="the console")
        logger.info("the console is at %s/console", self._url)

    async def _follow(self) -> None:
        """Has requests meet the settings as they are now. Ends where the workspace is no longer trusted."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOOK_AFTER or self.server is None:
            return
        self._looked_at = now
        try:
            await self._workspace.require_trust()
            await self._workspace.follow()
        except UntrustedError:
            self.server.stop("the workspace is no longer trusted")
        except ChangedTooMuchError as error:
            self.server.stop(str(error))
        except NotOursError as error:
            logger.warning("the settings are wrong, and those before stay in force: %s", error.__cause__)

    async def close(self) -> None:
        """Ends it, with all pages that are open."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)


class _Noticed:
    """Has the process stay while requests run, and for a while after the last one."""

    def __init__(self, app: ASGIApp, console: UpConsole) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = self._console.server
        assert server is not None
        server.begin_use()
        try:
            await self._app(scope, receive, send)
        finally:
            server.end_use()
