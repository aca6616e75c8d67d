"""`spindle table show`: shows the tools in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.tables.tool_row import ToolRow


@command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--column", help="The column of tools, if there are several.")
def show(cli: CliContext, file: Path, column: str | None) -> None:
    """Show the tools in a file: Parquet, Feather or Arrow, of any layout."""
    rows = rows_in_file(file, column)
    if cli.output.as_json:
        cli.output.json([None if row is None else row.to_dict() for row in rows])
        return
    headings = ("KIND", "TOOL", "FROM", "DESCRIPTION")
    cli.output.table(headings, [_line(row) for row in rows], drop=("KIND", "FROM", "DESCRIPTION"))
    empty = rows.count(None)
    if empty:
        from spindle.cli.output import plural

        cli.output.note(f"{plural(empty, 'cell')} without a tool")


def rows_in_file(file: Path, column: str | None) -> list[ToolRow | None]:
    """Reads the tools in a column of a file."""
    from spindle.errors import TableError
    from spindle.tables import read_table, tool_column

    table = read_table(file)
    try:
        return tool_column(table, column).to_pylist()
    except TableError as error:
        hint = "say which with --column" if error.hint == "say which one" else error.hint
        raise TableError(f"{file}: {error.message}", hint=hint) from None


def _line(row: ToolRow | None) -> tuple[str, str, str, str]:
    if row is None:
        return ("-", "-", "-", "")
    settings = (row.source or {}).get("settings", {})
    command = settings.get("command", "")
    place = row.server_uri or (command if isinstance(command, str) else " ".join(map(str, command)))
    return (row.kind.word, row.name, place or (row.source or {}).get("name", "-"), row.description)
