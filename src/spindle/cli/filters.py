"""The options that choose some of the tools, and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from spindle.app import Spindle
    from spindle.domain.tool import ToolSummary
    from spindle.ports.store import ToolFilter


def filters(function: Any) -> Any:
    """Adds the options `only` (a source), `kind`, `tag` and `pattern` to a command."""
    for option in reversed(
        (
            click.option(
                "--source",
                "only",
                metavar="NAME",
                shell_complete=complete_source,
                help="Only tools of this source.",
            ),
            click.option(
                "--kind", metavar="KIND", help="Only tools of this kind of source, such as mcp or python."
            ),
            click.option("--tag", metavar="TAG", help="Only tools with this tag."),
            click.option(
                "--filter",
                "pattern",
                metavar="GLOB",
                help="Only tools whose name matches: 'fs.*', read. The name of a kind finds those of it too.",
            ),
        )
    ):
        function = option(function)
    return function


def as_glob(pattern: str | None) -> str | None:
    """The pattern as a glob: a word without wildcards is looked for anywhere in the name."""
    return f"*{pattern}*" if pattern and not any(sign in pattern for sign in "*?[") else pattern


async def filtered(
    ask: Callable[[ToolFilter], Awaitable[list[ToolSummary]]],
    source: str | None,
    kind: str | None,
    tag: str | None,
    pattern: str | None,
) -> list[ToolSummary]:
    """The tools that pass: a pattern that names a kind of source lets those of that kind pass as well."""
    from spindle.plugins import kinds
    from spindle.ports.store import ToolFilter

    found = await ask(ToolFilter(source, kind, tag, as_glob(pattern)))
    if pattern is None or kind is not None or pattern not in kinds():
        return found
    there = {tool.name for tool in found}
    others = [tool for tool in await ask(ToolFilter(source, pattern, tag)) if tool.name not in there]
    return sorted([*found, *others], key=lambda tool: tool.name)


def require_source(app: Spindle, source: str | None) -> None:
    """Refuses the name of an unknown source."""
    if source is not None:
        app.catalog.sources.table(source)  # refuses a name that is not there


def require_kind(kind: str | None) -> None:
    """Refuses an unknown kind of source."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import suggest
    from spindle.plugins import kinds

    known = kinds()
    if kind is not None and kind not in known:
        meant = suggest(kind, known)
        hint = f"did you mean {meant}?" if meant else f"known are {', '.join(known)}"
        raise UsageMistakeError(f"there is no kind of source {kind!r}", hint)
