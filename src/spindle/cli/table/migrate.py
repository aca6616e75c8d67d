"""`spindle table migrate`: converts a file of an older layout."""

from __future__ import annotations

from pathlib import Path

import click

from spindle.cli.context import CliContext, command


@command("migrate")
@click.argument("file", type=click.Path(path_type=Path))
def migrate(cli: CliContext, file: Path) -> None:
    """Convert the columns of tools in a file to the current layout.

    Other columns stay as they are. The file is replaced at once and as a whole, or not at all.
    """
    from spindle.cli.output import plural
    from spindle.tables import migrate as bring_up_to_date

    done = bring_up_to_date(file)
    if cli.output.as_json:
        cli.output.json(done.to_dict())
        return
    for change in done.changes:
        cli.output.line(f"{change.column}: {plural(change.rows, 'row')}, which were {change.layout}")
    if not done.changes:
        cli.output.line(f"{file} is up to date: nothing was changed")
    elif done.kept:
        cli.output.line(f"kept as they were: {', '.join(done.kept)}")
