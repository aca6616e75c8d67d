"""`spindle up` and `spindle down`: the process in the background that keeps a workspace open for commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.output import plural, when

if TYPE_CHECKING:
    from spindle.settings import Settings

NOT_UP = 1


@command("up")
@click.option("--status", is_flag=True, help="Only say if it is up. Exits with 1 if it is not.")
@click.option("--foreground", is_flag=True, help="Stay here until stopped, for a supervisor such as systemd.")
def up(cli: CliContext, status: bool, foreground: bool) -> int:
    """Keep the workspace open in the background, so that commands are quick and sessions stay.

    `call`, `run`, `tools`, `search`, `sources`, `agent` and `ask` use it while it runs. It ends with `spindle
    down`, and by itself after `[up] idle_timeout` without a command. With `[up] auto = true` the first call
    starts it.
    """
    settings = workspace_settings(cli)
    if status:
        return _show_status(cli, settings)
    if foreground:
        return cli.run(_serve(cli, settings))
    from spindle.up.starting import log_of, start

    settings.up()  # raises where it has a mistake
    said = start(settings)
    if cli.output.as_json:
        cli.output.json(said | {"log": str(log_of(settings))})
    elif said["started"]:
        cli.output.line(f"up: pid {said['pid']} keeps {settings.root} open; `spindle down` ends it")
        cli.output.aside("  `spindle console` shows it in your browser")
    else:
        cli.output.line("already up; `spindle up --status` tells more")
    return 0


@command("down")
def down(cli: CliContext) -> int:
    """End `spindle up` of this workspace. What it is doing is cancelled."""
    from spindle.up.starting import stop

    said = stop(str(_root(cli)))
    if cli.output.as_json:
        cli.output.json({"ended": said is not None, "pid": (said or {}).get("pid")})
    elif said is None:
        cli.output.line("it was not up")
    else:
        cli.output.line(f"down: pid {said.get('pid')} has ended")
    return 0


def _root(cli: CliContext) -> Any:
    """The folder of the workspace. Its settings may be wrong, and nobody need trust it."""
    from spindle.errors import ConfigurationError
    from spindle.settings.places import FILE_NAME, workspace_root

    found = workspace_root(cli.workspace)
    if found is None:
        raise ConfigurationError(
            f"there is no workspace: no {FILE_NAME} at or above {os.getcwd()}",
            hint="name one with `-w PATH`",
        )
    return found


def workspace_settings(cli: CliContext) -> Settings:
    """The settings of a workspace that `spindle up` can keep open."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import ConfigurationError

    if cli.trusted:
        raise UsageMistakeError("--trust is for one command, not for many", "run `spindle trust` first")
    settings = cli.settings()
    if not settings.is_workspace:
        raise ConfigurationError(
            "`spindle up` is for a workspace, and there is none here", hint="create one with `spindle new`"
        )
    return settings


def _show_status(cli: CliContext, settings: Settings) -> int:
    from spindle.up.starting import ask, log_of

    said = ask(str(settings.root), "status")
    log = log_of(settings)
    if cli.output.as_json:
        cli.output.json({"up": said is not None, **(said or {}), "log": str(log)})
    elif said is None:
        cli.output.line("not up; `spindle up` starts it")
    else:
        cli.output.line(
            f"up: pid {said['pid']}, Spindle {said['version']}, started {when(said['since'])}; "
            f"{plural(said['served'], 'command')} done, {said['running']} running"
        )
        cli.output.line(f"it ends after {said['idle_timeout']:g} s without a command; its log: {log}")
    return 0 if said is not None else NOT_UP


async def _serve(cli: CliContext, settings: Settings) -> int:
    import asyncio
    import logging

    from spindle.cli.up_console import UpConsole
    from spindle.cli.warm import execute_warm, preload
    from spindle.errors import SpindleError
    from spindle.up.commands import OwnOutput, streams_of_commands
    from spindle.up.server import UpServer
    from spindle.up.starting import listening, log_to, take_ready
    from spindle.up.workspace import opened

    say_ready = take_ready()
    os.environ.pop("SPINDLE_WORKSPACE", None)  # every command brings its own
    environ = dict(os.environ)
    output = OwnOutput()
    log_to(output.log)
    logger = logging.getLogger("spindle.up")
    with listening(str(settings.root)) as listener:
        if listener is None:
            say_ready({"started": False})
            cli.output.note("it is up already")
            return 0
        with streams_of_commands(output.log):
            try:
                async with opened(settings, lambda text: logger.warning("note: %s", text)) as workspace:
                    preload(settings)
                    config = settings.up()
                    console = UpConsole(workspace, config.console_port)
                    server = UpServer(workspace, config, execute_warm, environ, output, console.link)
                    console.server = server
                    say_ready({"started": True, "pid": os.getpid()})
                    logger.info("up: pid %s, %s", os.getpid(), settings.root)
                    try:
                        await server.run(listener)
                    finally:
                        await console.close()
            except asyncio.CancelledError:
                logger.info("ended by a signal")
            except SpindleError as error:
                say_ready({"error": error.to_dict("shell")})
                raise
    return 0
