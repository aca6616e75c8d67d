"""`spindle tools`: lists the stored catalog, without contacting any source but the workspace's own files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.filters import as_glob, filters, require_kind, require_source
from spindle.cli.group import LazyGroup

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.tool import ToolSummary


class _ToolsGroup(LazyGroup):
    """Lists the tools if no command follows."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        sections = {"Commands": {"connect": ("add", "add", "Another name for `spindle add PRESET`.")}}
        super().__init__(*args, sections=sections, invoke_without_command=True, **rest)


@command("tools", cls=_ToolsGroup)
@filters
@click.pass_context
def tools(
    ctx: click.Context,
    cli: CliContext,
    source: str | None,
    kind: str | None,
    tag: str | None,
    pattern: str | None,
) -> None:
    """List the tools."""
    if ctx.invoked_subcommand is None:
        cli.run(_tools(cli, source, kind, tag, pattern))


@command("list")
@filters
def listing(
    cli: CliContext, source: str | None, kind: str | None, tag: str | None, pattern: str | None
) -> None:
    """List the tools."""
    cli.run(_tools(cli, source, kind, tag, pattern))


async def _tools(
    cli: CliContext, source: str | None, kind: str | None, tag: str | None, pattern: str | None
) -> None:
    async with cli.open() as app:
        require_source(app, source)
        found = await app.tools(source=source, kind=kind, tag=tag, pattern=as_glob(pattern))
        if not found:
            require_kind(kind)
        print_tools(cli, found)
        if not found and not cli.output.as_json:
            cli.output.note(_why_none(app, filtered=any((source, kind, tag, pattern))))
        note_unsynced(cli, app)


def print_tools(cli: CliContext, found: Sequence[ToolSummary]) -> None:
    """Prints tools as a table or JSON."""
    if cli.output.as_json:
        cli.output.json([tool.to_dict() for tool in found])
    elif found:
        rows = [(tool.name, tool.kind, _headline(tool)) for tool in found]
        cli.output.table(("TOOL", "KIND", "WHAT IT DOES"), rows)


def note_unsynced(cli: CliContext, app: Spindle) -> None:
    """Notes which sources must be synced."""
    names = app.catalog.unsynced()
    if names:
        verb = "was" if len(names) == 1 else "were"
        cli.output.note(f"{', '.join(names)} {verb} not synced since added or changed; run `spindle sync`")


def _headline(tool: ToolSummary) -> str:
    return f"(a changed definition is held) {tool.headline}" if tool.held else tool.headline


def _why_none(app: Spindle, *, filtered: bool) -> str:
    if not app.catalog.sources.names:
        return "there are no sources yet; `spindle add --presets` shows some that are ready to use"
    return "no tool passes the filters" if filtered else "there are no tools yet"
