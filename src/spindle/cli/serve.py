"""`spindle serve`: the catalog for other programs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import Cli, command

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig


@command("serve")
@click.option("--rest", is_flag=True, help="As a REST API, described by /openapi.json and /utcp.")
@click.option("--host", help="The address to listen on; 127.0.0.1 by default.")
@click.option("--port", type=click.IntRange(0, 65535), help="8321 by default; 0 takes any that is free.")
def serve(cli: Cli, rest: bool, host: str | None, port: int | None) -> int:
    """Serve the tools to other programs, until stopped by Ctrl-C or a signal.

    Settings are in [serve]. Others than programs on this machine are let in only with a token.
    """
    from spindle.cli.errors import UsageMistakeError

    if not rest:
        raise UsageMistakeError("say how to serve: --rest")
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    config = cli.settings().serve().model_copy(update=given)
    return cli.run(_serve(cli, config, given))


async def _serve(cli: Cli, config: ServeConfig, given: Mapping[str, Any]) -> int:
    """Being told to stop is how a server ends well."""
    from spindle.cli.output import plural
    from spindle.cli.tools import note_unsynced
    from spindle.rest.app import make_app
    from spindle.serving.access import Access
    from spindle.serving.listening import address_of, listen
    from spindle.serving.listening import serve as serve_http
    from spindle.serving.live import Live, warn

    access = Access.of(config)
    async with cli.open(visible=access.shows) as app:
        tools = await app.tools()
        with listen(config.host, config.port) as listening:
            access.require_for(listening.getsockname()[0])
            note_unsynced(cli, app)
            await warn(app, config, cli.output.note)
            url = address_of(listening, config.host)
            cli.output.aside(f"serving {plural(len(tools), 'tool')} on {url}")

            def stopping() -> None:
                cli.output.status("waiting for running calls to end …")

            live = Live(app, access, given, cli.output.note)
            looking = asyncio.create_task(live.run(), name="looking for other settings")
            try:
                await serve_http(make_app(app, access), listening, config.shutdown_timeout, stopping)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
            finally:
                looking.cancel()
    return 0
