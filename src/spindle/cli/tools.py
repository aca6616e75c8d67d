"""`spindle tools`: the stored catalog, without contacting any source but the workspace's own files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import Cli, command
from spindle.cli.group import LazyGroup

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.tool import ToolSummary


class _ToolsGroup(LazyGroup):
    """Lists when no command follows."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        sections = {"Commands": {"connect": ("add", "add", "Another name for `spindle add PRESET`.")}}
        super().__init__(*args, sections=sections, invoke_without_command=True, **rest)


def _filters(function: Any) -> Any:
    for option in reversed(
        (
            click.option("--source", shell_complete=complete_source, help="Of this source only."),
            click.option("--kind", help="Of this kind of source only, such as mcp or python."),
            click.option("--tag", help="With this tag only."),
            click.option("--filter", "pattern", metavar="GLOB", help="With such a name only: 'fs.*', read."),
        )
    ):
        function = option(function)
    return function


@command("tools", cls=_ToolsGroup)
@_filters
@click.pass_context
def tools(
    ctx: click.Context,
    cli: Cli,
    source: str | None,
    kind: str | None,
    tag: str | None,
    pattern: str | None,
) -> None:
    """List the tools."""
    if ctx.invoked_subcommand is None:
        cli.run(_tools(cli, source, kind, tag, pattern))


@command("list")
@_filters
def listing(cli: Cli, source: str | None, kind: str | None, tag: str | None, pattern: str | None) -> None:
    """List the tools."""
    cli.run(_tools(cli, source, kind, tag, pattern))


async def _tools(
    cli: Cli, source: str | None, kind: str | None, tag: str | None, pattern: str | None
) -> None:
    if pattern is not None and not any(sign in pattern for sign in "*?["):
        pattern = f"*{pattern}*"
    async with cli.open() as app:
        if source is not None:
            app.catalog.sources.table(source)  # refuses a name that is not there
        found = await app.tools(source=source, kind=kind, tag=tag, pattern=pattern)
        if kind is not None and not found:
            _require_kind(kind)
        print_tools(cli, found)
        if not found and not cli.output.as_json:
            cli.output.note(_why_none(app, filtered=any((source, kind, tag, pattern))))
        note_unsynced(cli, app)


def print_tools(cli: Cli, found: Sequence[ToolSummary]) -> None:
    if cli.output.as_json:
        cli.output.json([tool.to_dict() for tool in found])
    elif found:
        rows = [(tool.name, tool.kind, _headline(tool)) for tool in found]
        cli.output.table(("TOOL", "KIND", "WHAT IT DOES"), rows)


def note_unsynced(cli: Cli, app: Spindle) -> None:
    names = app.catalog.unsynced()
    if names:
        verb = "was" if len(names) == 1 else "were"
        cli.output.note(
            f"{', '.join(names)} {verb} not asked for tools since added or changed; run `spindle sync`"
        )


def _headline(tool: ToolSummary) -> str:
    return f"(a changed definition is held) {tool.headline}" if tool.held else tool.headline


def _why_none(app: Spindle, *, filtered: bool) -> str:
    if not app.catalog.sources.names:
        return "there are no sources yet; `spindle add --presets` shows some that are ready to use"
    return "no tool passes the filters" if filtered else "there are no tools yet"


def _require_kind(kind: str) -> None:
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import suggest
    from spindle.plugins import kinds

    known = kinds()
    if kind not in known:
        meant = suggest(kind, known)
        hint = f"did you mean {meant}?" if meant else f"known are {', '.join(known)}"
        raise UsageMistakeError(f"there is no kind of source {kind!r}", hint)
