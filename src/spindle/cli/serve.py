"""`spindle serve`: serves the catalog to other programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.client_entries import ClientChoice
from spindle.cli.context import CliContext, command
from spindle.cli.once import once_option

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.logs import LogForm
    from spindle.cli.serving_place import ServingPlace
    from spindle.console.app import Console
    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess


@command("serve")
@once_option
@click.option("--stdio", is_flag=True, help="As an MCP server on stdin and stdout.")
@click.option("--http", is_flag=True, help="As an MCP server over Streamable HTTP, at /mcp.")
@click.option("--sse", is_flag=True, help="With --http: for old clients too, at /sse.")
@click.option("--rest", is_flag=True, help="As a REST API, with a page to try it at /docs.")
@click.option("--console", is_flag=True, help="With --http or --rest: a console for browsers, at /console.")
@click.option("--host", help="The address to listen on; 127.0.0.1 by default.")
@click.option("--port", type=click.IntRange(0, 65535), help="8321 by default; 0 takes any free port.")
@click.option("--unix", metavar="PATH", help="Listen on a Unix socket instead.")
@click.option("--tls-cert", metavar="FILE", help="Serve over TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its key, if it is not in the same file.")
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of all that is said on stderr.",
)
@click.option("--access-log", is_flag=True, help="Log each request.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Serve with N processes on one port, each with sessions of its own with the sources.",
)
@click.option("--worker", hidden=True, metavar="SOCKET,READY,OWNER")
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
    sse: bool,
    rest: bool,
    console: bool,
    host: str | None,
    port: int | None,
    unix: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    log: LogForm,
    access_log: bool,
    workers: int | None,
    worker: str | None,
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
    if stdio + http + rest > 1:
        raise UsageMistakeError(
            "one server serves one way: --stdio, --http or --rest",
            "start one for each, on ports of their own: they share the workspace",
        )
    if not (stdio or http or rest):
        raise UsageMistakeError("say how to serve: --stdio, --http or --rest")
    options = {"host": host, "port": port, "unix": unix, "tls_certificate": tls_cert, "tls_key": tls_key}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if access_log:
        given["access_log"] = True
    if console:
        given["console"] = True
    if sse and not http:
        raise UsageMistakeError("--sse goes with --http")
    if sse:
        given["sse"] = True
    if stdio and given:
        raise UsageMistakeError(
            "--host, --port, --unix, --tls-cert, --access-log and --console go with --http and --rest"
        )
    if unix is not None and (host is not None or port is not None):
        raise UsageMistakeError("--unix takes the place of --host and --port")
    if workers is not None and stdio:
        raise UsageMistakeError("--workers goes with --http and --rest")
    if workers is not None and cli.once is not None:
        raise UsageMistakeError("--workers is for a workspace: its processes share what is stored")
    if print_config is not None:
        from spindle.cli import install

        install.print_config(cli, print_config, http=http, given=given)
        return 0
    config = _config(cli).model_copy(update=given)
    with _logging(cli, log, requests=config.access_log):
        if workers is not None and workers > 1:
            from spindle.cli import workers as several

            way, how = "--rest" if rest else "--http", f", with {workers} workers"
            tell = partial(_tell_rest if rest else _tell_mcp, cli, config, how)
            return cli.run(several.serve(cli, config, {**given, "log": log}, workers, way, tell))
        cli.worker = [int(number) for number in worker.split(",")] if worker else None
        return _serve(cli, config, given, stdio=stdio, rest=rest)


def _logging(cli: CliContext, form: LogForm, *, requests: bool) -> AbstractContextManager[None]:
    if form == "text" and not requests:
        return nullcontext()  # what else is logged goes to stderr as in any command
    from spindle.cli.logs import logging_as

    return logging_as(cli, form, requests=requests)


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
    from spindle.cli.serving_place import serving_place
    from spindle.mcp_server.serve import run_http
    from spindle.serving.access import ServingAccess

    access = ServingAccess.of(config, shared=True)
    async with _opened(cli, access) as app, serving_place(cli, config, access) as place:
        if cli.worker is None:
            _tell_mcp(cli, config, "", place.url)
        console = await _console(cli, app, access, place, with_api=True)
        async with _live(cli, app, access, given, place), _said_to_serve(cli, place):
            await _until_stopped(run_http(app, access, place.listening, place.context, console))
    return 0


async def _serve_rest(cli: CliContext, config: ServeConfig, given: Mapping[str, Any]) -> int:
    from spindle.cli.output import plural
    from spindle.cli.serving_place import serving_place
    from spindle.cli.tools import note_unsynced
    from spindle.rest.app import make_app
    from spindle.serving.access import ServingAccess
    from spindle.serving.server import serve as serve_http

    access = ServingAccess.of(config, shared=True)
    async with _opened(cli, access) as app:
        tools = await app.tools()
        async with serving_place(cli, config, access) as place:
            if cli.worker is None:
                await note_unsynced(cli, app)
                _tell_rest(cli, config, "", place.url, plural(len(tools), "tool"))
            console = await _console(cli, app, access, place)

            def stopping() -> None:
                cli.output.status("waiting for running calls to end …")

            async with _live(cli, app, access, given, place), _said_to_serve(cli, place):
                serving = serve_http(
                    make_app(app, access, console),
                    place.listening,
                    lambda: access.config,
                    stopping,
                    access.drain,
                    place.context,
                )
                await _until_stopped(serving)
    return 0


async def _console(
    cli: CliContext, app: Spindle, access: ServingAccess, place: ServingPlace, *, with_api: bool = False
) -> Console | None:
    """The console, if there is to be one, with a link to it for the person at the terminal. `with_api`: the
    server has no REST API, which the console needs."""
    if not access.config.console:
        return None
    from spindle.cli.served_console import link_at, make_console

    made = make_console(app, access, with_api=with_api)
    if cli.worker is None and access.config.unix is None:
        assert access.sessions is not None
        url = access.config.url or place.url
        cli.output.aside(f"  the console, once: {link_at(url, await access.sessions.new_link())}")
    return made


def _said_to_serve(cli: CliContext, place: ServingPlace) -> AbstractAsyncContextManager[None]:
    """Tells who waits for it that we serve: the service manager, or the process that owns the workers."""
    if cli.worker is None:
        return place.manager.told(f"serving on {place.url}")
    from spindle.serving.workers import of_owner

    return of_owner(cli.worker[1:])


def _tell_mcp(cli: CliContext, config: ServeConfig, how: str, url: str) -> None:
    cli.output.aside(f"serving MCP on {url}{' at ' * (config.unix is not None)}/mcp{how}")
    if config.sse:
        cli.output.aside(f"  old clients connect to {url}{' at ' * (config.unix is not None)}/sse")
    _tell_registry(cli, config, url)


def _tell_rest(cli: CliContext, config: ServeConfig, how: str, url: str, tools: str = "tools") -> None:
    cli.output.aside(f"serving {tools} on {url}{how}")
    if config.unix is None:  # where a browser gets
        cli.output.aside(f"  try them at {url}/docs")
    _tell_registry(cli, config, url)


def _tell_registry(cli: CliContext, config: ServeConfig, url: str) -> None:
    if config.registry:
        whom = "everybody who reaches it" if config.registry == "open" else "those who may call"
        cli.output.aside(f"  publishing the sources at {url}/v0.1/servers, to {whom}")


@contextlib.asynccontextmanager
async def _opened(cli: CliContext, access: ServingAccess, door: str = "http") -> AsyncGenerator[Spindle]:
    from spindle.serving.auditing import audited
    from spindle.serving.conflicts import refuse_conflicts
    from spindle.serving.measured import measuring
    from spindle.serving.pruning import pruned_meanwhile
    from spindle.serving.shared_access import sharing
    from spindle.serving.triggers import or_owner, triggers_of
    from spindle.serving.waiting import continued_meanwhile

    async with cli.open(visible=or_owner(access.shows), for_others=True) as app:
        await refuse_conflicts(app, cli.output.note)
        triggers_of(app)  # raises for a mistake in them
        note = cli.output.note
        async with (
            audited(app, access, door, note),
            pruned_meanwhile(app, note),
            continued_meanwhile(app, note),
            sharing(app, access),
            measuring(app, access.config),
        ):
            yield app


@contextlib.asynccontextmanager
async def _live(
    cli: CliContext,
    app: Spindle,
    access: ServingAccess,
    given: Mapping[str, Any],
    place: ServingPlace | None = None,
) -> AsyncGenerator[None]:
    """Applies changed settings while the server runs."""
    from spindle.serving.reload import Live, warn

    await warn(app, access.config, cli.output.note)
    if cli.once is not None:  # no file to look at
        yield
        return
    live = Live(app, access, given, cli.output.note)
    looking = asyncio.create_task(live.run(), name="looking for other settings")
    from spindle.cli.serving_place import reloaded_by_signal

    hearing = contextlib.nullcontext() if place is None else reloaded_by_signal(cli, place, live.reload)
    try:
        with hearing:
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
