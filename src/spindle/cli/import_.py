"""`spindle import`: takes over the servers of other programs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.cli.client_servers import ImportedServer
    from spindle.cli.clients import ClientSettings
    from spindle.errors import ConfigurationError

LEFT_OUT = "left out"
_TAKEN = ("added", "replaced")


@dataclass(slots=True)
class _Outcome:
    name: str
    file: str
    status: str
    notes: list[str] = field(default_factory=list[str])
    project: str | None = None


@command("import")
@click.argument("files", nargs=-1, metavar="[FILE]…", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace sources of the same names.")
@click.option("--user", is_flag=True, help="For all your workspaces, in your own spindle.toml.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--sync", "sync_after", is_flag=True, help="Ask the new sources for their tools.")
def import_(
    cli: CliContext, files: tuple[Path, ...], replace: bool, user: bool, dry_run: bool, sync_after: bool
) -> int:
    """Take over the MCP servers that other programs know.

    Without FILE, the usual settings files of Claude Code, Claude Desktop, Codex, Cursor, Gemini CLI, Goose,
    pflow, VS Code, Windsurf and Zed are read: those of this project and your own. Servers of other projects,
    servers that are switched off there, and this workspace itself are left out.

    FILE can also be a config file of mcpo or mcp-proxy, the network.yaml of OpenAgents, or a dictionary of
    servers for LangChain or Penguiflow, as JSON.

    Secrets are not copied: spindle.toml names an environment variable for each.
    """
    from spindle.cli.client_secrets import SecretVariables

    target, existing = _target(cli, user)
    variables = SecretVariables()
    found, failures = _read(files, target.parent, variables)
    if not files and not dry_run:
        _require_own(cli, found, target.parent)
    if not found and not failures:
        cli.output.note("no settings of other programs with MCP servers were found; name a FILE")
    taken = dict(existing)
    own = _own_address(cli)
    outcomes = [
        _take(server, target, taken, own, replace=replace, dry_run=dry_run)
        for settings in found
        for server in settings.servers
    ]
    served = [_serve(settings, target, dry_run=dry_run) for settings in found if settings.serve]
    notes = [note for settings in found for note in settings.notes]
    _print(cli, outcomes, [*notes, *filter(None, served)], failures, target, dry_run=dry_run)
    added = [outcome.name for outcome in outcomes if outcome.status in _TAKEN]
    if sync_after and not dry_run and added:
        return cli.run(_sync(cli, added)) or (2 if failures else 0)
    return 2 if failures else 0


def _target(cli: CliContext, user: bool) -> tuple[Path, dict[str, Any]]:
    """The file to write to, and the sources in it."""
    from spindle import settings
    from spindle.cli.files import file_to_edit

    file = file_to_edit(cli, user=user)
    if not file.exists():
        return file, {}  # its folder need not be there either
    known = settings.load(file.parent, trusted=False)
    here = {name for name, origin in known.origins.items() if Path(origin) == file}
    return file, {name: known.raw["sources"][name] for name in here}


def _require_own(cli: CliContext, found: Sequence[ClientSettings], folder: Path) -> None:
    """Raises UntrustedError for files of this project that nobody named: they came with the folder, and what
    is imported may run."""
    from shlex import quote

    from spindle import settings
    from spindle.errors import UntrustedError
    from spindle.trust import NEVER, granted, shown

    theirs = sorted({server.file for item in found for server in item.servers if server.table is not None})
    theirs = [file for file in theirs if file.resolve().is_relative_to(folder.resolve())]
    is_marked = (folder / settings.FILE_NAME).is_file() and settings.load(
        folder, trusted=False
    ).verdict.trusted
    if theirs and not (cli.trusted or is_marked or granted(folder, os.environ)):
        first = shown(str(theirs[0]))
        raise UntrustedError(
            f"{first} came with this folder, and names programs to run: {NEVER}",
            hint=f"look at it, then name it: `spindle import {quote(first)}`, or give --trust",
        )


def _read(
    files: Sequence[Path], folder: Path, variables: Any
) -> tuple[list[ClientSettings], list[ConfigurationError]]:
    """Reads everything before anything is written. A file that was named must be good; of those that were
    only looked for, a bad one does not keep back the others."""
    from spindle.cli.clients import read_settings, usual_places
    from spindle.errors import ConfigurationError

    if files:
        return [read_settings(file, folder, variables) for file in files], []
    found: list[ClientSettings] = []
    failures: list[ConfigurationError] = []
    for place in usual_places(folder):
        if not place.is_file():
            continue
        try:
            found.append(read_settings(place, folder, variables))
        except ConfigurationError as error:
            # Programs keep other settings in these files too.
            if "holds no servers" not in error.message:
                failures.append(error)
    return found, failures


def _own_address(cli: CliContext) -> str | None:
    """The address at which this workspace serves, as far as its settings say one."""
    from spindle.cli.client_entries import url_of
    from spindle.errors import SpindleError

    try:
        config = cli.settings().serve()
    except SpindleError:
        return None  # `spindle serve` says why
    return url_of(config) if config.url is not None or config.port else None


def _take(
    server: ImportedServer,
    target: Path,
    taken: dict[str, Any],
    own: str | None,
    *,
    replace: bool,
    dry_run: bool,
) -> _Outcome:
    from spindle.cli.files import check_source
    from spindle.cli.own_server import same_address, starts_workspace
    from spindle.errors import ConfigurationError
    from spindle.settings.edit import add_source

    outcome = _Outcome(server.name, str(server.file), "skipped", list(server.notes), server.project)
    table = server.table
    if server.left_out is None and table is not None:
        if starts_workspace(table, target.parent):
            server.left_out = "is this workspace itself, which cannot be its own source"
        elif own is not None and same_address(str(table.get("url", "")), own):
            server.left_out = (
                f"is {own}, where this workspace itself serves; if another one does, "
                f"`spindle add {server.name} {own}` adds it"
            )
    if server.left_out is not None:
        outcome.status, outcome.notes = LEFT_OUT, [server.left_out]
        return outcome
    if table is None:
        return outcome
    if server.name in taken and taken[server.name] == table:
        outcome.status, outcome.notes = "there already", []
        return outcome
    if server.name in taken and not replace:
        outcome.notes = [f"there is a source {server.name!r} already; --replace replaces it"]
        return outcome
    try:
        check_source(server.name, table, server.file)
        if not dry_run:
            add_source(target, server.name, table, replace=replace)
    except ConfigurationError as error:
        outcome.notes.append(error.message)
        return outcome
    outcome.status = "replaced" if server.name in taken else "added"
    taken[server.name] = table
    return outcome


def _serve(settings: ClientSettings, target: Path, *, dry_run: bool) -> str | None:
    """Takes over the settings for serving. Returns a note if that cannot be done."""
    from spindle.errors import ConfigurationError
    from spindle.settings.edit import add_table

    try:
        if not dry_run:
            add_table(target, "serve", settings.serve)
    except ConfigurationError as error:
        wanted = ", ".join(f"{key} = {value!r}" for key, value in settings.serve.items())
        return f"{error.message}; this was not taken over: {wanted}"
    return None


def _print(
    cli: CliContext,
    outcomes: Sequence[_Outcome],
    notes: Sequence[str],
    failures: Sequence[ConfigurationError],
    target: Path,
    *,
    dry_run: bool,
) -> None:
    output = cli.output
    for sentence in _sentences(outcomes):
        output.note(sentence)
    for note in notes:
        output.note(note)
    for error in failures:
        output.note(f"not read: {error.message}" + (f"; {hint}" if (hint := error.hint_for("shell")) else ""))
    if output.as_json:
        output.json(
            {
                "file": str(target),
                "dry_run": dry_run,
                "servers": [
                    {"name": item.name, "from": item.file, "status": item.status, "notes": item.notes}
                    for item in outcomes
                ],
                "notes": list(notes),
                "unread": [error.message for error in failures],
            }
        )
        return
    shown = [item for item in outcomes if item.project is None]
    if shown:
        output.table(("SOURCE", "STATUS", "FROM"), [(item.name, item.status, item.file) for item in shown])
    count = sum(item.status in _TAKEN for item in outcomes)
    if dry_run:
        output.aside(f"nothing was written: this would add {count} to {target}")
    elif count:
        output.aside(f"wrote {count} to {target}; `spindle sync` asks them for their tools")


def _sentences(outcomes: Sequence[_Outcome]) -> list[str]:
    found = [f"{item.name}: {note}" for item in outcomes if item.project is None for note in item.notes]
    projects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in outcomes:
        if item.project is not None:
            projects[item.file, item.project].append(item.name)
    return found + [
        f"left out of {file}, because they belong to another project, {project}: {', '.join(names)}"
        for (file, project), names in projects.items()
    ]


async def _sync(cli: CliContext, names: list[str]) -> int:
    from spindle.cli.errors import exit_code
    from spindle.cli.sync_report import print_report

    async with cli.open() as app:
        cli.output.status(f"asking {', '.join(names)} …")
        reports = await app.sync(*names)
    for report in reports:
        if not cli.output.as_json:
            print_report(cli, report)
    failed = next((report.error for report in reports if report.error), None)
    return exit_code(failed["category"]) if failed else 0
