"""`spindle serve`: the catalog for other programs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import Cli, command

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig


@command("serve")
@click.option("--stdio", is_flag=True, help="As an MCP server on stdin and stdout.")
@click.option("--http", is_flag=True, help="As an MCP server over Streamable HTTP, at /mcp.")
@click.option("--rest", is_flag=True, help="As a REST API, described by /openapi.json and /utcp.")
@click.option("--host", help="The address to listen on; 127.0.0.1 by default.")
@click.option("--port", type=click.IntRange(0, 65535), help="8321 by default; 0 takes any that is free.")
def serve(cli: Cli, stdio: bool, http: bool, rest: bool, host: str | None, port: int | None) -> int:
    """Serve the tools to other programs, until stopped by Ctrl-C or a signal.

    Settings are in [serve]. Others than programs on this machine are let in only with a token.
    """
    from spindle.cli.errors import UsageMistakeError

    if stdio + http + rest != 1:
        raise UsageMistakeError("say how to serve: --stdio, --http or --rest")
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    if stdio and given:
        raise UsageMistakeError("--host and --port go with --http and --rest")
    config = cli.settings().serve().model_copy(update=given)
    if stdio:
        return cli.run(_serve_stdio(cli, config))
    return cli.run(_serve_rest(cli, config) if rest else _serve_http(cli, config), fast_loop=True)


async def _serve_stdio(cli: Cli, config: ServeConfig) -> int:
    from spindle.mcp_server.running import run_stdio

    async with cli.open() as app:
        await _until_stopped(run_stdio(app, config, cli.output.hand_over_stdout()))
    return 0


async def _serve_http(cli: Cli, config: ServeConfig) -> int:
    from spindle.mcp_server.running import run_http
    from spindle.serving.access import Access
    from spindle.serving.listening import address_of, listen

    access = Access.of(config)
    async with cli.open() as app:
        with listen(config.host, config.port) as listening:
            access.require_for(listening.getsockname()[0])
            cli.output.aside(f"serving MCP on {address_of(listening, config.host)}/mcp")
            await _until_stopped(run_http(app, config, access, listening))
    return 0


async def _serve_rest(cli: Cli, config: ServeConfig) -> int:
    from spindle.cli.output import plural
    from spindle.cli.tools import note_unsynced
    from spindle.rest.app import make_app
    from spindle.serving.access import Access
    from spindle.serving.listening import address_of, listen
    from spindle.serving.listening import serve as serve_http

    access = Access.of(config)
    async with cli.open() as app:
        tools = await app.tools()
        with listen(config.host, config.port) as listening:
            access.require_for(listening.getsockname()[0])
            note_unsynced(cli, app)
            url = address_of(listening, config.host)
            cli.output.aside(f"serving {plural(len(tools), 'tool')} on {url}")

            def stopping() -> None:
                cli.output.status("waiting for running calls to end …")

            served = make_app(app, config, access)
            await _until_stopped(serve_http(served, listening, config.shutdown_timeout, stopping))
    return 0


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Being told to stop is how a server ends well."""
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
