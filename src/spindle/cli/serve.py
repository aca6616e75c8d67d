"""`spindle serve`: serves the catalog to other programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.client_entries import ClientChoice
from spindle.cli.context import CliContext, command
from spindle.cli.once import once_option

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.logs import LogForm
    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess


@command("serve")
@once_option
@click.option("--stdio", is_flag=True, help="As an MCP server on stdin and stdout.")
@click.option("--http", is_flag=True, help="As an MCP server over Streamable HTTP, at /mcp.")
@click.option("--rest", is_flag=True, help="As a REST API, with a page to try it at /docs.")
@click.option("--host", help="The address to listen on; 127.0.0.1 by default.")
@click.option("--port", type=click.IntRange(0, 65535), help="8321 by default; 0 takes any free port.")
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of all that is said on stderr.",
)
@click.option("--access-log", is_flag=True, help="Log each request.")
@click.option(
    "--print-config",
    type=ClientChoice(),
    metavar="CLIENT",
    help="Serve nothing: print what to paste into this client, like `spindle install --print`.",
)
def serve(
    cli: CliContext,
    stdio: bool,
    http: bool,
    rest: bool,
    host: str | None,
    port: int | None,
    log: LogForm,
    access_log: bool,
    print_config: str | None,
) -> int:
    """Serve the tools to other programs, until stopped by Ctrl-C or a signal.

    Settings are in [serve]. Programs on other machines are let in only with a token.
    Without a workspace: spindle serve --http --from "npx -y PACKAGE"
    """
    from spindle.cli.errors import UsageMistakeError

    if print_config is not None:
        if cli.once is not None:
            raise UsageMistakeError(
                "--print-config is for a workspace",
                "for one source: `spindle install CLIENT --print --from …`",
            )
        if rest or (stdio and http):
            raise UsageMistakeError("--print-config goes with --stdio or --http: clients speak MCP")
        stdio = not http
    if stdio + http + rest != 1:
        raise UsageMistakeError("say how to serve: --stdio, --http or --rest")
    options = (("host", host), ("port", port), ("access_log", access_log or None))
    given = {key: value for key, value in options if value is not None}
    if stdio and given:
        raise UsageMistakeError("--host, --port and --access-log go with --http and --rest")
    if print_config is not None:
        from spindle.cli import install

        install.print_config(cli, print_config, http=http, given=given)
        return 0
    from spindle.cli.logs import logging_as

    config = _config(cli).model_copy(update=given)
    with logging_as(cli, log, requests=config.access_log):
        return _serve(cli, config, given, stdio=stdio, rest=rest)


def _serve(cli: CliContext, config: ServeConfig, given: Mapping[str, Any], *, stdio: bool, rest: bool) -> int:
    if stdio:
        return cli.run(_serve_stdio(cli, config))
    from spindle.listening.limits import raise_descriptors

    raise_descriptors(config.max_connections)
    serving = _serve_rest(cli, config, given) if rest else _serve_http(cli, config, given)
    return cli.run(serving, fast_loop=True)


def _config(cli: CliContext) -> ServeConfig:
    """The settings in [serve], which a source that is used without a workspace does not have."""
    if cli.once is None:
        return cli.settings().serve()
    from spindle.domain.serve import ServeConfig

    return ServeConfig()


async def _serve_stdio(cli: CliContext, config: ServeConfig) -> int:
    from spindle.mcp_server.serve import run_stdio
    from spindle.serving.access import ServingAccess

    access = ServingAccess.of(config, over_pipe=True)
    async with _opened(cli, access, "stdio") as app, _live(cli, app, access, {}):
        await _until_stopped(run_stdio(app, cli.output.hand_over_stdout(), access))
    return 0


async def _serve_http(cli: CliContext, config: ServeConfig, given: Mapping[str, Any]) -> int:
    from spindle.listening.server import address_of, listen
    from spindle.mcp_server.serve import run_http
    from spindle.serving.access import ServingAccess

    access = ServingAccess.of(config)
    async with _opened(cli, access) as app:
        with listen(config.host, config.port) as listening:
            access.require_for(listening.getsockname()[0])
            url = address_of(listening, config.host)
            cli.output.aside(f"serving MCP on {url}/mcp")
            _tell_registry(cli, config, url)
            async with _live(cli, app, access, given):
                await _until_stopped(run_http(app, access, listening))
    return 0


async def _serve_rest(cli: CliContext, config: ServeConfig, given: Mapping[str, Any]) -> int:
    from spindle.cli.output import plural
    from spindle.cli.tools import note_unsynced
    from spindle.listening.server import address_of, listen
    from spindle.rest.app import make_app
    from spindle.serving.access import ServingAccess
    from spindle.serving.server import serve as serve_http

    access = ServingAccess.of(config)
    async with _opened(cli, access) as app:
        tools = await app.tools()
        with listen(config.host, config.port) as listening:
            access.require_for(listening.getsockname()[0])
            await note_unsynced(cli, app)
            url = address_of(listening, config.host)
            cli.output.aside(f"serving {plural(len(tools), 'tool')} on {url}")
            cli.output.aside(f"  try them at {url}/docs")
            _tell_registry(cli, config, url)

            def stopping() -> None:
                cli.output.status("waiting for running calls to end …")

            async with _live(cli, app, access, given):
                serving = serve_http(make_app(app, access), listening, lambda: access.config, stopping)
                await _until_stopped(serving)
    return 0


def _tell_registry(cli: CliContext, config: ServeConfig, url: str) -> None:
    if config.registry:
        whom = "everybody who reaches it" if config.registry == "open" else "those who may call"
        cli.output.aside(f"  publishing the sources at {url}/v0.1/servers, to {whom}")


@contextlib.asynccontextmanager
async def _opened(cli: CliContext, access: ServingAccess, door: str = "http") -> AsyncGenerator[Spindle]:
    from spindle.serving.auditing import audited
    from spindle.serving.conflicts import refuse_conflicts
    from spindle.serving.pruning import pruned_meanwhile

    async with cli.open(visible=access.shows, for_others=True) as app:
        await refuse_conflicts(app, cli.output.note)
        async with audited(app, access, door, cli.output.note), pruned_meanwhile(app, cli.output.note):
            yield app


@contextlib.asynccontextmanager
async def _live(
    cli: CliContext, app: Spindle, access: ServingAccess, given: Mapping[str, Any]
) -> AsyncGenerator[None]:
    """Applies changed settings while the server runs."""
    from spindle.serving.reload import Live, warn

    await warn(app, access.config, cli.output.note)
    if cli.once is not None:  # no file to look at
        yield
        return
    live = Live(app, access, given, cli.output.note)
    looking = asyncio.create_task(live.run(), name="looking for other settings")
    try:
        yield
    finally:
        looking.cancel()
        live.close()


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Runs the server; being stopped is its normal end."""
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
