"""`spindle completion SHELL`, and completion of names from the workspace.

TAB is pressed often and by accident: what is offered comes from the settings and the store alone. No source
is asked, no code of the workspace runs, and nothing is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.options import ONCE, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from spindle.ports.store import Store
    from spindle.settings import Settings

PATIENCE = 2.0
"""Seconds that a database on another machine gets to answer."""
_HOW = {
    "bash": 'add to ~/.bashrc: eval "$(spindle completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(spindle completion zsh)"',
    "fish": "write to ~/.config/fish/completions/spindle.fish",
}


@command("completion")
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(ctx: click.Context, cli: CliContext, shell: str) -> None:
    """Print the script that completes words of `spindle` in a shell when you press TAB.

    \b
    bash: add to ~/.bashrc   eval "$(spindle completion bash)"
    zsh:  add to ~/.zshrc    eval "$(spindle completion zsh)"
    fish: spindle completion fish > ~/.config/fish/completions/spindle.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    cli.output.line(found(ctx.find_root().command, {}, "spindle", "_SPINDLE_COMPLETE").source())
    if cli.output.is_terminal:
        cli.output.note(_HOW[shell])


def complete_tool(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of tools that begin with the typed text."""
    return _beginning(incomplete, from_store(ctx, lambda store: store.names()))


def complete_source(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of sources that begin with the typed text."""
    found = _settings(ctx)
    return _beginning(incomplete, sorted(found.sources) if found else [])


def complete_preset(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of presets that begin with the typed text."""
    from spindle.presets import presets

    return _beginning(incomplete, presets())


def complete_pause(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The tokens of pauses, and the ids of stopped runs, that begin with the typed text."""
    from spindle.cli.run_names import SHORT

    async def tokens(store: Store) -> list[str]:
        stopped = [run.id[:SHORT] for run in await store.runs(limit=50, status="cancelled")]
        return [*(pause.token for pause in await store.pauses()), *stopped]

    return _beginning(incomplete, from_store(ctx, tokens))


def complete_flow(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of flows and tools that begin with the typed text."""
    found = [*complete_saved_flow(ctx, param, incomplete), *complete_tool(ctx, param, incomplete)]
    return list(dict.fromkeys(found))


def complete_saved_flow(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The names of saved flows that begin with the typed text."""
    from spindle.flows.library import Library

    found = _settings(ctx)
    return _beginning(incomplete, Library(found.root).names() if found else [])


def complete_run(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The ids of runs that begin with the typed text."""
    from spindle.cli.run_names import LAST, SHORT

    async def ids(store: Store) -> list[str]:
        return [LAST, *(run.id[:SHORT] for run in await store.runs(limit=50))]

    return _beginning(incomplete, from_store(ctx, ids))


def complete_call(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The keys of past calls that begin with the typed text."""

    async def keys(store: Store) -> list[str]:
        return [record.key[:8] for record in await store.calls(limit=50)]

    return _beginning(incomplete, from_store(ctx, keys))


def from_store(ctx: click.Context, ask: Callable[[Store], Awaitable[list[Any]]]) -> list[Any]:
    """Returns what the workspace's store answers; nothing where there is none."""
    import asyncio
    import os
    from pathlib import Path

    from spindle.errors import SpindleError
    from spindle.stores.open import open_store

    found = _settings(ctx)
    if found is None:
        return []

    async def look() -> list[Any]:
        address = found.store_address(os.environ)
        if "://" not in address and not Path(address).is_file():
            return []
        async with asyncio.timeout(PATIENCE):
            store = await open_store(address)
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(store)
        finally:
            await store.close()

    try:
        return asyncio.run(look())
    except (SpindleError, TimeoutError):
        return []  # a half-typed line is no place for an error


def _settings(ctx: click.Context) -> Settings | None:
    from spindle import settings
    from spindle.errors import SpindleError

    if ONCE in ctx.meta:
        return None  # asking that source would start it
    try:
        found = settings.load(ctx.meta.get(WORKSPACE), trusted=False)
        _ = found.sources  # reports a mistake in them
    except SpindleError:
        return None
    return found if found.verdict.trusted else None


def _beginning(incomplete: str, names: Any) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
