"""`spindle completion SHELL`, and completion of names from the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.options import WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Callable

_HOW = {
    "bash": 'add to ~/.bashrc: eval "$(spindle completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(spindle completion zsh)"',
    "fish": "write to ~/.config/fish/completions/spindle.fish",
}


@command("completion")
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(ctx: click.Context, cli: CliContext, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    cli.output.line(found(ctx.find_root().command, {}, "spindle", "_SPINDLE_COMPLETE").source())
    if cli.output.is_terminal:
        cli.output.note(_HOW[shell])


def complete_tool(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of tools that begin with the typed text."""
    return _names(ctx, incomplete, lambda app: app.store.names())


def complete_source(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of sources that begin with the typed text."""

    async def names(app: Any) -> list[str]:
        return app.catalog.sources.names

    return _names(ctx, incomplete, names)


def complete_pause(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The tokens of pauses, and the ids of stopped runs, that begin with the typed text."""
    from spindle.cli.run_names import SHORT

    async def tokens(app: Any) -> list[str]:
        stopped = [run.id[:SHORT] for run in await app.store.runs(limit=50, status="cancelled")]
        return [*(pause.token for pause in await app.store.pauses()), *stopped]

    return _names(ctx, incomplete, tokens)


def complete_flow(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of flows and tools that begin with the typed text."""

    async def names(app: Any) -> list[str]:
        return [*app.flows.library.names(), *await app.store.names()]

    return list(dict.fromkeys(_names(ctx, incomplete, names)))


def complete_saved_flow(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of saved flows that begin with the typed text."""

    async def names(app: Any) -> list[str]:
        return app.flows.library.names()

    return _names(ctx, incomplete, names)


def complete_run(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The ids of runs that begin with the typed text."""
    from spindle.cli.run_names import LAST, SHORT

    async def ids(app: Any) -> list[str]:
        return [LAST, *(run.id[:SHORT] for run in await app.store.runs(limit=50))]

    return _names(ctx, incomplete, ids)


def _names(ctx: click.Context, incomplete: str, ask: Callable[[Any], Any]) -> list[str]:
    import asyncio

    from spindle import opening
    from spindle.errors import SpindleError

    async def look() -> list[str]:
        async with opening.open(ctx.meta.get(WORKSPACE)) as app:
            return await ask(app)

    try:
        return [name for name in asyncio.run(look()) if name.startswith(incomplete)]
    except SpindleError:
        return []  # a half-typed line is no place for an error
