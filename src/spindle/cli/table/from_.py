"""`spindle table from`: writes the tools of sources to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.tables.tool_row import ToolRow


@command("from")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE|URL…", shell_complete=complete_source)
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The suffix chooses the format: .parquet, .feather, .arrow.",
)
@click.option(
    "--strict", is_flag=True, help="Only parameters of simple types, and tools that need no others."
)
@click.option("--bearer-env", metavar="VAR", help="For a URL: the variable that holds its token.")
@click.option("--column", default="tool", show_default=True, help="The name of the column.")
@click.option("--knime", is_flag=True, help="With the kind as int32, for KNIME.")
def from_(
    cli: CliContext,
    sources: tuple[str, ...],
    out: Path,
    strict: bool,
    bearer_env: str | None,
    column: str,
    knime: bool,
) -> None:
    """Write the tools of sources to a file, one row each.

    A SOURCE is one of this workspace, or the URL of an MCP server. Sources are asked for their tools first.
    """
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.output import plural
    from spindle.tables import for_knime, provide, write_table
    from spindle.tables.files import format_for

    format_for(out)  # an unknown suffix is a mistake before any source is asked
    urls = [source for source in sources if "://" in source]
    if bearer_env and not urls:
        raise UsageMistakeError(
            "--bearer-env goes with a URL", "a source of the workspace has `auth` of its own"
        )
    left_out: list[str] = []
    rows = (
        cli.run(_rows(cli, [source for source in sources if source not in urls]))
        if len(urls) < len(sources)
        else []
    )
    for url in urls:
        rows += _rows_of_url(cli, url, bearer_env)
    made = provide(rows, strict=strict, note=left_out.append)
    if column != "tool":
        made = made.rename_columns([column])
    if knime:
        made = made.set_column(0, column, for_knime(made.column(0)))
    write_table(made, out)
    for sentence in left_out:
        cli.output.note(sentence)
    if cli.output.as_json:
        cli.output.json({"file": str(out), "tools": made.num_rows, "left_out": left_out})
    else:
        cli.output.line(f"{plural(made.num_rows, 'tool')} written to {out}")


async def _rows(cli: CliContext, names: list[str]) -> list[ToolRow]:
    from spindle.tables.provider import rows_from

    rows: list[ToolRow] = []
    async with cli.open() as app:
        for name in dict.fromkeys(names):
            cli.output.status(f"asking {name} for its tools …")
            rows += await rows_from(app, name, note=cli.output.note)
    return rows


def _rows_of_url(cli: CliContext, url: str, bearer_env: str | None) -> list[Any]:
    from spindle.tables import tool_provider

    cli.output.status(f"asking {url} for its tools …")
    credential = f"${{{bearer_env}}}" if bearer_env else None
    return tool_provider(url, credential=credential, note=cli.output.note).column(0).to_pylist()
