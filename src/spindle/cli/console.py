"""`spindle console`: a link that opens the console of the workspace in a browser, once."""

from __future__ import annotations

from typing import Any

import click

from spindle.cli.context import CliContext, command


@command("console")
@click.option("--open", "show", is_flag=True, help="Open it in the browser as well.")
@click.option(
    "--server",
    metavar="URL",
    help="The console of a `spindle serve --console` at this address, instead of `spindle up`.",
)
def console(cli: CliContext, show: bool, server: str | None) -> int:
    """Print a link that opens the console in a browser: sources, tools, calls and what waits for you.

    The link works once, within ten minutes, and signs you in as the owner of the workspace. `spindle up`
    serves the console on this machine alone, and is started if it is not up.
    """
    said = cli.run(_link_to(cli, server)) if server is not None else _link_to_up(cli)
    if cli.output.as_json:
        cli.output.json(said)
    else:
        cli.output.line(said["link"])
    if show:
        from spindle.cli.browser import open_browser

        open_browser(said["link"])
    return 0


def _link_to_up(cli: CliContext) -> dict[str, Any]:
    from spindle.cli.up import workspace_settings
    from spindle.errors import ConnectionFailedError, from_description
    from spindle.up.starting import ask, start

    settings = workspace_settings(cli)
    settings.up()  # raises where it has a mistake
    start(settings)
    said = ask(str(settings.root), "console") or {}
    if "error" in said:
        raise from_description(said["error"])
    if "link" not in said:
        raise ConnectionFailedError(
            "`spindle up` does not know the console: it runs another version",
            hint="`spindle down` and `spindle console` start this one",
            sent=False,
        )
    return said


async def _link_to(cli: CliContext, server: str) -> dict[str, Any]:
    from spindle.cli.served_console import link_at
    from spindle.domain.serve import checked_url
    from spindle.errors import InvalidArgumentsError
    from spindle.serving.browser_sessions import BrowserSessions

    try:
        url = checked_url(server)
    except ValueError as error:
        raise InvalidArgumentsError(f"--server {error}") from None
    async with cli.open() as app:
        return {"url": f"{url}/console", "link": link_at(url, await BrowserSessions(app).new_link())}
