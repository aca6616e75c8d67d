"""The options that every command accepts."""

from __future__ import annotations

from collections import deque
from typing import Any

import click

SECONDS = click.FloatRange(min=0, min_open=True)

WORKSPACE = "spindle.workspace"
"""The key in `Context.meta`, for completion, which runs without a `Cli`."""

ONCE = "once"
"""The name of the option `--from`, which opens a source without a workspace."""


def _workspace(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    if path:
        ctx.meta[WORKSPACE] = path
        if ctx.obj is not None:
            ctx.obj.workspace = path


def _json(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and ctx.obj is not None:
        ctx.obj.output.as_json = True


def _once(ctx: click.Context, _param: click.Parameter, place: str | None) -> None:
    if place is not None:
        ctx.meta[ONCE] = place
        if ctx.obj is not None:
            ctx.obj.once = place


once_option = click.option(
    "--from",
    ONCE,
    metavar="COMMAND|URL|FILE",
    expose_value=False,
    callback=_once,
    help="Use this source once, without a workspace. Nothing is written.",
)


def shared_options() -> list[click.Option]:
    """The options that every command accepts too, so that their place does not matter."""
    return [
        click.Option(
            ["-w", "--workspace"],
            metavar="PATH",
            envvar="SPINDLE_WORKSPACE",
            expose_value=False,
            callback=_workspace,
            help="The workspace; by default the nearest one at or above this folder.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_json, help="Print JSON on stdout."
        ),
    ]


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by every name that they have."""
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def take_option(option: click.Option, word: str, waiting: deque[str], before: str) -> list[str]:
    """The words of an option that follows the command's first argument, whose value may be the first of the
    words waiting. Those that say which workspace is meant must come `before` it."""
    from spindle.cli.errors import UsageMistakeError

    if "-w" in option.opts or option.name == ONCE:
        raise UsageMistakeError(f"{word} belongs before {before}", "write it right after the command's name")
    if option.is_flag or "=" in word:
        return [word]
    if not waiting:
        raise UsageMistakeError(f"{word} needs a value")
    return [word, waiting.popleft()]


def with_later(
    ctx: click.Context, words: list[str], options: dict[str, Any], stand_in: str
) -> dict[str, Any]:
    """The options of a command with those that were given later, after its first argument, for which
    `stand_in` stands."""
    from click.core import ParameterSource

    if not words:
        return options
    later = ctx.command.make_context(ctx.info_name, [*words, stand_in], parent=ctx.parent, obj=ctx.obj)
    given = {
        name: value
        for name, value in later.params.items()
        if name in options and later.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    repeated = [name for name in given if isinstance(options[name], tuple)]
    return {**options, **given, **{name: (*options[name], *given[name]) for name in repeated}}
