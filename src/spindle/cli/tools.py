"""`spindle tools`: lists the stored catalog, without contacting any source but the workspace's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.filters import filtered, filters, require_kind, require_source
from spindle.cli.once import once_option

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.tool import ToolSummary
    from spindle.ports.store import SourceState, ToolFilter


class _ToolsCommand(click.Command):
    """Lists the tools, also as `tools list`; with `connect` it is another name for `spindle add`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["list"]:
            return super().make_context(f"{info_name} list", args[1:], parent, **extra)
        if args[:1] != ["connect"]:
            return super().make_context(info_name, args, parent, **extra)
        from spindle.cli.add import add

        return add.make_context(f"{info_name} connect", args[1:], parent, **extra)


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

    `spindle tools list` is the same, and `spindle tools connect PRESET` is `spindle add PRESET`.
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
    if (untrusted := cli.untrusted()) is not None:
        from spindle.cli.untrusted import stored

        async with stored(untrusted) as store:
            print_tools(cli, await filtered(store.tools, source, kind, tag, pattern))
        return
    async with cli.open() as app:
        require_source(app, source)

        async def ask(wanted: ToolFilter) -> list[ToolSummary]:
            return await app.tools(
                source=wanted.source, kind=wanted.kind, tag=wanted.tag, pattern=wanted.pattern
            )

        found = await filtered(ask, source, kind, tag, pattern)
        if not found:
            require_kind(kind)
        states = await app.catalog.states()
        print_tools(cli, found, states)
        if not found and not cli.output.as_json:
            cli.output.note(_why_none(app, filtered=any((source, kind, tag, pattern))))
        if not cli.output.as_json:
            _note_findings(cli, states, source)
        await note_unsynced(cli, app)


def print_tools(
    cli: CliContext, found: Sequence[ToolSummary], states: Mapping[str, SourceState] | None = None
) -> None:
    """Prints tools as a table or JSON. `states` are those of their sources, which know what is loosened."""
    loosened = {item.name: item.reason for state in (states or {}).values() for item in state.loosened}
    if cli.output.as_json:
        cli.output.json([tool.to_dict() | {"loosened": loosened.get(tool.name)} for tool in found])
    elif found:
        rows = [(tool.name, tool.kind, _headline(tool, tool.name in loosened)) for tool in found]
        cli.output.table(("TOOL", "KIND", "WHAT IT DOES"), rows, drop=("KIND",))


def _note_findings(cli: CliContext, states: Mapping[str, SourceState], only: str | None) -> None:
    """Notes which tools are not there, or not as their sources gave them."""
    for name, state in states.items():
        found = [f"{count} {word}" for count, word in
                 ((len(state.left_out), "left out"), (len(state.loosened), "loosened")) if count]  # fmt: skip
        if found and only in (None, name):
            cli.output.note(f"{name}: {' and '.join(found)}; `spindle sync {name}` says why")


async def note_unsynced(cli: CliContext, app: Spindle) -> None:
    """Notes which sources must be synced, and which could not be."""
    unsynced, untried = app.catalog.unsynced(), app.catalog.untried()
    failed = {name: state.error for name, state in (await app.catalog.states()).items() if state.error}
    for name, why in failed.items():
        if name not in unsynced or name in untried:  # otherwise it failed just now, and that was noted
            cli.output.note(f"{name} failed at its last sync: {why}; `spindle doctor {name}` says more")
    names = [name for name in unsynced if name not in failed]
    if names:
        verb = "was" if len(names) == 1 else "were"
        cli.output.note(f"{', '.join(names)} {verb} not synced since added or changed; run `spindle sync`")


def _headline(tool: ToolSummary, is_loosened: bool) -> str:
    if tool.held:
        return f"(a changed definition is held) {tool.headline}"
    return f"(loosened) {tool.headline}" if is_loosened else tool.headline


def _why_none(app: Spindle, *, filtered: bool) -> str:
    if not app.catalog.sources.names:
        return "there are no sources yet; `spindle add --presets` shows some that are ready to use"
    return "no tool passes the filters" if filtered else "there are no tools yet"
