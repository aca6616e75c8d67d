"""`spindle tools`: lists the stored catalog, without contacting any source but the workspace's own files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.filters import as_glob, filters, require_kind, require_source
from spindle.cli.once import once_option

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.tool import ToolSummary


class _ToolsCommand(click.Command):
    """Lists the tools, unless `connect` follows, which is another name for `spindle add`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != ["connect"]:
            return super().make_context(info_name, args, parent, **extra)
        from spindle.cli.add import add

        return add.make_context("connect", args[1:], parent, **extra)


@command("tools", cls=_ToolsCommand)
@once_option
@click.argument("source", required=False, shell_complete=complete_source)
@filters
def tools(
    cli: CliContext,
    source: str | None,
    kind: str | None,
    tag: str | None,
    pattern: str | None,
    only: str | None,
) -> None:
    """List the tools: all of them, or those of SOURCE.

    \b
    spindle tools
    spindle tools github --filter issue
    spindle tools --from "npx -y @modelcontextprotocol/server-everything"
    """
    cli.run(_tools(cli, _one_source(cli, source, only), kind, tag, pattern))


def _one_source(cli: CliContext, named: str | None, only: str | None) -> str | None:
    from spindle.cli.errors import UsageMistakeError

    if named is not None and only is not None and named != only:
        raise UsageMistakeError(f"{named} and --source {only} are two sources", "name one of them")
    if cli.once is not None and (named or only):
        raise UsageMistakeError("--from is the only source", f"leave out {named or only}")
    return named or only


@command("list")
@filters
def listing(
    cli: CliContext, kind: str | None, tag: str | None, pattern: str | None, only: str | None
) -> None:
    """List the tools."""
    cli.run(_tools(cli, only, kind, tag, pattern))


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
        await note_unsynced(cli, app)


def print_tools(cli: CliContext, found: Sequence[ToolSummary]) -> None:
    """Prints tools as a table or JSON."""
    if cli.output.as_json:
        cli.output.json([tool.to_dict() for tool in found])
    elif found:
        rows = [(tool.name, tool.kind, _headline(tool)) for tool in found]
        cli.output.table(("TOOL", "KIND", "WHAT IT DOES"), rows, drop=("KIND",))


async def note_unsynced(cli: CliContext, app: Spindle) -> None:
    """Notes which sources must be synced, and which could not be."""
    unsynced, untried = app.catalog.unsynced(), app.catalog.untried()
    failed = {name: state.error for name, state in (await app.store.sources()).items() if state.error}
    for name, why in failed.items():
        if name not in unsynced or name in untried:  # otherwise it failed just now, and that was noted
            cli.output.note(f"{name} failed at its last sync: {why}; `spindle doctor {name}` says more")
    names = [name for name in unsynced if name not in failed]
    if names:
        verb = "was" if len(names) == 1 else "were"
        cli.output.note(f"{', '.join(names)} {verb} not synced since added or changed; run `spindle sync`")


def _headline(tool: ToolSummary) -> str:
    return f"(a changed definition is held) {tool.headline}" if tool.held else tool.headline


def _why_none(app: Spindle, *, filtered: bool) -> str:
    if not app.catalog.sources.names:
        return "there are no sources yet; `spindle add --presets` shows some that are ready to use"
    return "no tool passes the filters" if filtered else "there are no tools yet"
