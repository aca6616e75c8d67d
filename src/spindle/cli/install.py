"""`spindle install`: adds this workspace as a server to another MCP client."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.client_entries import CLIENTS, DEFAULT_NAME, ClientProgram
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.settings import Settings

# Clients put it before the tools' names, and the result must be valid for model APIs.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@command("install")
@click.argument("client", type=click.Choice(tuple(CLIENTS)))
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="The name of the server in the client.")
@click.option(
    "--http", is_flag=True, help="Use the URL of `spindle serve --http`, instead of starting a program."
)
@click.option("--yes", is_flag=True, help="Replace another entry of that name without asking.")
def install(cli: CliContext, client: str, name: str, http: bool, yes: bool) -> None:
    """Add this workspace to the settings of Claude Desktop, Cursor or VS Code.

    The client then starts `spindle serve --stdio` by itself. `spindle serve --print-config CLIENT` only
    shows the entry.
    """
    from spindle.cli.client_files import plan, write
    from spindle.cli.clients import place_of
    from spindle.cli.errors import UsageMistakeError

    if not _NAME.fullmatch(name):
        raise UsageMistakeError(
            f"{name!r} cannot be the name of a server",
            "a letter first, then letters, digits, `_` and `-`, at most 64 in all",
        )
    settings, to = cli.settings(), CLIENTS[client]
    entry = entry_for(to, settings, http=http, given={})
    file = place_of(client, settings.root)
    made = plan(file, to, name, entry)
    if made.status == "replaced" and not yes:
        _ask(cli, to, file, name)
    # In a project we create the folder; a client that was ever started has created its own.
    is_unknown = settings.root not in file.parents and not file.parent.is_dir()
    backup = None if made.status == "there already" else write(made)
    _print(cli, client, name, entry, file, made.status, backup)
    if is_unknown:
        cli.output.note(f"there was no {file.parent} before; is {to.title} installed?")


def entry_for(
    client: ClientProgram, settings: Settings, *, http: bool, given: Mapping[str, Any]
) -> JsonObject:
    """The entry by which the client reaches the workspace. `given` overrides settings of [serve]."""
    from spindle.cli.client_entries import token_variable, url_of
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import ConfigurationError

    if not http:
        return client.over_stdio(_command(settings), _environment())
    config = settings.serve().model_copy(update=given)
    if not client.takes_url:
        raise UsageMistakeError(
            f"{client.title} takes no addresses in its settings file, only programs that it starts",
            "leave out --http; or add an https:// address in its own window, under Settings, Connectors",
        )
    if config.url is None and config.port == 0:
        raise ConfigurationError(
            "there is no fixed address: serve.port is 0, which takes another port each time",
            hint="set serve.port or serve.url",
        )
    return client.over_http(url_of(config), token_variable(config))


def print_config(cli: CliContext, client: str, *, http: bool, given: Mapping[str, Any]) -> None:
    """Prints the entry that `spindle install` would write."""
    from spindle.cli.clients import place_of

    settings, to = cli.settings(), CLIENTS[client]
    entry = entry_for(to, settings, http=http, given=given)
    cli.output.json(to.document(DEFAULT_NAME, entry))
    cli.output.note(f"paste this into {place_of(client, settings.root)}, or run `spindle install {client}`")


def _command(settings: Settings) -> list[str]:
    """The command by which a client that knows neither our folder nor our PATH starts the server."""
    program = Path(sys.executable).with_name("spindle")
    start = [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-m", "spindle"]
    workspace = ["-w", str(settings.root)] if settings.is_workspace else []
    return [*start, *workspace, "serve", "--stdio"]


def _environment() -> dict[str, str]:
    """The variable with the place of our settings, if it is set: a client does not pass on what a shell
    sets."""
    home = os.environ.get("SPINDLE_HOME")
    return {"SPINDLE_HOME": str(Path(home).expanduser().absolute())} if home else {}


def _ask(cli: CliContext, client: ClientProgram, file: Path, name: str) -> None:
    from spindle.errors import ConfigurationError

    said = f"{file} already has another server {name!r}"
    if not cli.can_ask:
        raise ConfigurationError(said, hint="--yes replaces it, --name NAME adds one beside it")
    cli.output.aside(said)
    answer = cli.run(cli.ask(f"replace it in {client.title}? [y/N] "))
    if (answer or "").lower() not in ("y", "yes"):
        raise click.Abort


def _print(
    cli: CliContext, client: str, name: str, entry: JsonObject, file: Path, status: str, backup: Path | None
) -> None:
    output = cli.output
    if output.as_json:
        kept = None if backup is None else str(backup)
        output.json(
            {"client": client, "name": name, "status": status, "file": str(file), "backup": kept,
             "entry": entry, "next": CLIENTS[client].next_step}
        )  # fmt: skip
        return
    if status == "there already":
        output.line(f"{name} is in {file} already")
        return
    output.line(f"{status} {name} in {file}")
    if backup is not None:
        output.aside(f"the old file is kept as {backup}")
    if "headers" in entry:
        variable = entry["headers"]["Authorization"].removeprefix("Bearer ${env:").removesuffix("}")
        output.aside(f"set {variable} to the token in the environment of {CLIENTS[client].title}")
    if "url" in entry:
        output.aside("keep `spindle serve --http` running: the client does not start it")
    output.aside(f"next: {CLIENTS[client].next_step}")
