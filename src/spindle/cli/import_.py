"""`spindle import`: imports the servers of other MCP clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.cli.clients import ImportedServer


@dataclass(slots=True)
class _Outcome:
    name: str
    file: str
    status: str
    notes: list[str] = field(default_factory=list[str])


@command("import")
@click.argument("files", nargs=-1, metavar="[FILE]…", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace sources of the same names.")
@click.option("--user", is_flag=True, help="For all your workspaces, in your own spindle.toml.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--sync", "sync_after", is_flag=True, help="Ask the new sources for their tools.")
def import_(
    cli: CliContext, files: tuple[Path, ...], replace: bool, user: bool, dry_run: bool, sync_after: bool
) -> int:
    """Import MCP servers from Claude Desktop, Claude Code, Cursor, Windsurf or VS Code.

    Without FILE, the usual settings files of these programs are read.
    """
    from spindle.cli.clients import read_servers, usual_places

    target, existing = _target(cli, user)
    places = files or tuple(place for place in usual_places(target.parent) if place.is_file())
    if not places:
        cli.output.note("no settings of Claude, Cursor, Windsurf or VS Code were found; name a FILE")
    taken = dict(existing)
    outcomes = [
        _take(server, place, target, taken, replace=replace, dry_run=dry_run)
        for place in places
        for server in read_servers(place, target.parent)
    ]
    _print(cli, outcomes, target, dry_run=dry_run)
    added = [outcome.name for outcome in outcomes if outcome.status in ("added", "replaced")]
    if not sync_after or dry_run or not added:
        return 0
    return cli.run(_sync(cli, added))


def _target(cli: CliContext, user: bool) -> tuple[Path, dict[str, Any]]:
    """The file to write to, and the sources in it."""
    from spindle import settings
    from spindle.cli.files import file_to_edit

    file = file_to_edit(cli, user=user)
    known = settings.load(file.parent)
    here = {name for name, origin in known.origins.items() if Path(origin) == file}
    return file, {name: known.raw["sources"][name] for name in here}


def _take(
    server: ImportedServer, place: Path, target: Path, taken: dict[str, Any], *, replace: bool, dry_run: bool
) -> _Outcome:
    from spindle.cli.files import check_source
    from spindle.errors import ConfigurationError
    from spindle.settings.edit import add_source

    outcome = _Outcome(server.name, str(place), "skipped", list(server.notes))
    if server.table is None:
        return outcome
    if server.name in taken and taken[server.name] == server.table:
        outcome.status, outcome.notes = "there already", []
        return outcome
    if server.name in taken and not replace:
        outcome.notes = [f"there is a source {server.name!r} already; --replace replaces it"]
        return outcome
    try:
        check_source(server.name, server.table, place)
        if not dry_run:
            add_source(target, server.name, server.table, replace=replace)
    except ConfigurationError as error:
        outcome.notes.append(error.message)
        return outcome
    outcome.status = "replaced" if server.name in taken else "added"
    taken[server.name] = server.table
    return outcome


def _print(cli: CliContext, outcomes: Sequence[_Outcome], target: Path, *, dry_run: bool) -> None:
    output = cli.output
    for outcome in outcomes:
        for note in outcome.notes:
            output.note(f"{outcome.name}: {note}")
    if output.as_json:
        output.json(
            {
                "file": str(target),
                "dry_run": dry_run,
                "servers": [
                    {"name": item.name, "from": item.file, "status": item.status, "notes": item.notes}
                    for item in outcomes
                ],
            }
        )
        return
    if outcomes:
        output.table(("SOURCE", "STATUS", "FROM"), [(item.name, item.status, item.file) for item in outcomes])
    count = sum(item.status in ("added", "replaced") for item in outcomes)
    if dry_run:
        output.aside(f"nothing was written: this would add {count} to {target}")
    elif count:
        output.aside(f"wrote {count} to {target}; `spindle sync` asks them for their tools")


async def _sync(cli: CliContext, names: list[str]) -> int:
    from spindle.cli.errors import exit_code
    from spindle.cli.sync import print_report

    async with cli.open() as app:
        cli.output.status(f"asking {', '.join(names)} …")
        reports = await app.sync(*names)
    for report in reports:
        if not cli.output.as_json:
            print_report(cli, report)
    failed = next((report.error for report in reports if report.error), None)
    return exit_code(failed["category"]) if failed else 0
