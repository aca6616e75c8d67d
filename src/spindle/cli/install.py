"""`spindle install`: adds this workspace as a server to another MCP client."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.client_entries import CLIENTS, DEFAULT_NAME, ClientChoice, ClientProgram
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.settings import Settings

# Clients put it before the tools' names, and the result must be valid for model APIs.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@command("install")
@click.argument("client", type=ClientChoice(), metavar="CLIENT")
@click.option(
    "--name", help="The name of the server in the client: by default spindle, or that of the source."
)
@click.option(
    "--from",
    "place",
    metavar="COMMAND|URL|FILE",
    help="Install this one source, as `spindle serve --from` serves it, and no workspace.",
)
@click.option(
    "--http", is_flag=True, help="Have the client use the URL of `spindle serve --http`, not start a program."
)
@click.option("--print", "print_only", is_flag=True, help="Only print what would be added; write nothing.")
@click.option("--yes", is_flag=True, help="Replace another entry of that name without asking.")
def install(
    cli: CliContext,
    client: str,
    name: str | None,
    place: str | None,
    http: bool,
    print_only: bool,
    yes: bool,
) -> None:
    """Add this workspace to another program as an MCP server.

    CLIENT is claude-code, claude-desktop, codex, cursor, gemini, goose, vscode, windsurf or zed.

    The program then starts `spindle serve --stdio` by itself whenever it needs the tools. Everything else
    in its settings file stays as it is, comments too, and the first time a copy is kept beside it.
    """
    from spindle.cli.client_entries import token_variable
    from spindle.cli.client_files import plan, write
    from spindle.cli.errors import UsageMistakeError

    to = CLIENTS[client]
    token = None
    if place is not None:
        root, name, entry = _once(to, place, name, http=http)
    else:
        settings = cli.settings()
        root, name = settings.root, DEFAULT_NAME if name is None else name
        entry = entry_for(to, settings, http=http, given={})
        token = token_variable(settings.serve()) if http else None
    if not _NAME.fullmatch(name):
        raise UsageMistakeError(
            f"{name!r} cannot be the name of a server",
            "a letter first, then letters, digits, `_` and `-`, at most 64 in all",
        )
    entry = to.named(name, entry)
    file = to.file(root)
    if print_only:
        _print_entry(cli, to, name, entry, file)
        return
    made = plan(file, to, name, entry)
    if made.status == "replaced" and not yes:
        _ask(cli, to, file, name)
    # In a project we create the folder; a client that was ever started has created its own.
    is_unknown = root not in file.parents and not file.parent.is_dir()
    backup = None if made.status == "there already" else write(made)
    _print(cli, client, name, entry, file, made.status, backup, token)
    if place is None and not http:
        _note_trust(cli)
    if is_unknown:
        cli.output.note(f"there was no {file.parent} before; is {to.title} installed?")


def _note_trust(cli: CliContext) -> None:
    """Notes that the client will not find the workspace trusted, if only this command or shell does."""
    from spindle.settings.places import trust_marks
    from spindle.trust import judge

    found = cli.load()
    if found.is_workspace and not judge(found.root, found.cover, trust_marks()).trusted:
        cli.output.note("the program starts it without --trust and SPINDLE_TRUST: run `spindle trust` too")


def _once(client: ClientProgram, place: str, name: str | None, *, http: bool) -> tuple[Path, str, JsonObject]:
    """The folder, the name and the entry of one source, which needs no workspace."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.once import read_place, settled

    if http:
        raise UsageMistakeError("--from is for a program that the client starts", "leave out --http")
    found, _table, _root = read_place(place)
    entry = client.over_stdio([*_program(), "serve", "--stdio", "--from", settled(place)], _environment())
    return Path.cwd(), found if name is None else name, entry


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
    if client.url_key is None:
        raise UsageMistakeError(
            f"{client.title} takes no addresses in its settings file, only programs that it starts",
            "leave out --http; or add an https:// address in its own window, under Settings, Connectors",
        )
    if config.url is None and config.port == 0:
        raise ConfigurationError(
            "there is no fixed address: serve.port is 0, which takes another port each time",
            hint="set serve.port or serve.url",
        )
    variable = token_variable(config)
    if variable is not None and client.reference is None:
        raise UsageMistakeError(
            f"{client.title} cannot read the token from its environment, and a file is no place for it",
            "leave out --http: then the program is started, and needs no token",
        )
    return client.over_http(url_of(config), variable)


def print_config(cli: CliContext, client: str, *, http: bool, given: Mapping[str, Any]) -> None:
    """Prints the entry that `spindle install` would write."""
    settings, to = cli.settings(), CLIENTS[client]
    entry = to.named(DEFAULT_NAME, entry_for(to, settings, http=http, given=given))
    _print_entry(cli, to, DEFAULT_NAME, entry, to.file(settings.root))


def _print_entry(cli: CliContext, client: ClientProgram, name: str, entry: JsonObject, file: Path) -> None:
    from spindle.cli.client_text import FORMS

    document = client.document(name, entry)
    if cli.output.as_json or client.form == "json":
        cli.output.json(document)
    else:
        cli.output.line(FORMS[client.form].write(document).rstrip("\n"))
    cli.output.note(f"paste this into {file}; without --print, `spindle install` does it")


def _command(settings: Settings) -> list[str]:
    """The command by which a client that knows neither our folder nor our PATH starts the server."""
    workspace = ["-w", str(settings.root)] if settings.is_workspace else []
    return [*_program(), *workspace, "serve", "--stdio"]


def _program() -> list[str]:
    program = Path(sys.executable).with_name("spindle")
    return [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-m", "spindle"]


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
    cli: CliContext,
    client: str,
    name: str,
    entry: JsonObject,
    file: Path,
    status: str,
    backup: Path | None,
    token: str | None,
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
    if token is not None:
        output.aside(f"set {token} to the token in the environment of {CLIENTS[client].title}")
    if not entry.keys() & {"command", "cmd"}:
        output.aside("keep `spindle serve --http` running: the client does not start it")
    output.aside(f"next: {CLIENTS[client].next_step}")
