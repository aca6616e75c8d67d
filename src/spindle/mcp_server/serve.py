"""Serving an open workspace until told to stop, over one transport or the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.mcp_server.server import CatalogServer

if TYPE_CHECKING:
    import socket
    import ssl

    from spindle.app import Spindle
    from spindle.serving.access import ServingAccess
    from spindle.serving.operating import ServedConsole

_ABOUT = "This server gives the tools of one workspace to MCP clients, over Streamable HTTP."


async def run_stdio(app: Spindle, stdout: int, access: ServingAccess) -> None:
    """Serves one client. No other code may write to the descriptor `stdout`."""
    from spindle.mcp_server.stdio import serve_stdio, take_stdin

    catalog = CatalogServer(app, access)
    await catalog.start()
    try:
        await serve_stdio(catalog, take_stdin(), stdout)
    finally:
        await catalog.close()


async def run_http(
    app: Spindle,
    access: ServingAccess,
    listening: socket.socket,
    tls: ssl.SSLContext | None = None,
    console: ServedConsole | None = None,
) -> None:
    """Serve every client that `access` lets in, each with the tools that exist for it."""
    from spindle.mcp_server.http import PATH, McpApp
    from spindle.mcp_server.sse import SseApp
    from spindle.serving.front import FrontLink, FrontPage, front_or_list
    from spindle.serving.guard import Guard
    from spindle.serving.operating import Operating
    from spindle.serving.published import PublishedRegistry
    from spindle.serving.server import serve

    catalog = CatalogServer(app, access)
    served = McpApp(catalog)
    old = SseApp(catalog, served) if access.config.sse else None
    await catalog.processes.look()  # so that the first request finds the others
    in_background = [
        asyncio.create_task(served.sessions.sweep(), name="putting idle sessions away"),
        asyncio.create_task(catalog.processes.run(), name="hearing of other processes"),
    ]

    def stopping() -> None:
        # Streams would never end by themselves.
        catalog.changes.close_streams()
        served.sessions.close_streams()
        if old is not None:
            old.close_streams()

    await catalog.start()
    try:
        # The one server of a registry that every client of ours can use is this one.
        registry = PublishedRegistry(old or served, app, access, mcp_path=PATH)
        published = Operating(registry, app, access, console)
        place = FrontLink("mcp", PATH, "the server, for MCP clients")
        front = FrontPage(published, access, _ABOUT, [place])
        guarded = Guard(front, access, front_or_list, {PATH: served})
        await serve(guarded, listening, lambda: access.config, stopping, access.drain, tls)
    finally:
        for task in in_background:
            task.cancel()
        await asyncio.gather(*in_background, return_exceptions=True)
        await served.resuming.close()
        await served.sessions.close()
        await catalog.close()
