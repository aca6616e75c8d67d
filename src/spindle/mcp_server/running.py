"""Serving an open workspace until told to stop, over one transport or the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError
from spindle.mcp_server.server import CatalogServer

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from spindle.app import Spindle
    from spindle.domain.serve import ServeConfig
    from spindle.mcp_server.access import Access as Rules
    from spindle.serving.access import Access

MAX_INSTRUCTION = 64 * 1024


async def run_stdio(app: Spindle, config: ServeConfig, stdout: int, access: Access) -> None:
    """Serve one client. `stdout` is a descriptor that nobody else writes to."""
    from spindle.mcp_server.stdio import serve_stdio, take_stdin

    catalog = CatalogServer(app, config, access, instruction=instruction(config, app.settings.root))
    await catalog.start()
    try:
        await serve_stdio(catalog, take_stdin(), stdout)
    finally:
        await catalog.close()


async def run_http(
    app: Spindle,
    config: ServeConfig,
    access: Access,
    listening: socket.socket,
    rules: Rules | None = None,
) -> None:
    """Serve all who are let in by `access`, each with what exists for them by the same, or by `rules`."""
    from spindle.mcp_server.http import McpApp
    from spindle.serving.access import Guard
    from spindle.serving.listening import serve

    catalog = CatalogServer(app, config, rules or access, instruction=instruction(config, app.settings.root))
    served = McpApp(catalog)
    sweeping = asyncio.create_task(served.sessions.sweep(), name="ending idle sessions")

    def stopping() -> None:
        # Streams would never end by themselves.
        catalog.changes.close_streams()
        served.sessions.close_streams()

    await catalog.start()
    try:
        await serve(Guard(served, access), listening, config.shutdown_timeout, stopping)
    finally:
        sweeping.cancel()
        await served.sessions.close()
        await catalog.close()


def instruction(config: ServeConfig, root: Path) -> str | None:
    """The text itself, or what the file of that name holds."""
    given = config.instruction
    if given is None or "\n" in given or len(given) > 255:
        return given
    file = root / given
    if not file.is_file():
        if given.endswith((".md", ".txt")):
            raise ConfigurationError(
                f"serve.instruction names the file {file}, which is not there",
                hint="create it, or write the text itself",
            )
        return given
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"serve.instruction: cannot read {file}: {error}") from None
    if len(text) > MAX_INSTRUCTION:
        raise ConfigurationError(f"serve.instruction: {file} has more than {MAX_INSTRUCTION} characters")
    return text
