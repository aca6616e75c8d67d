"""Options of a command that follow its first argument, among words that are for something else."""

from __future__ import annotations

from collections import deque
from typing import Any

import click
from click.core import ParameterSource

from spindle.cli.errors import UsageMistakeError
from spindle.cli.options import ONCE
from spindle.cli.tape_options import TAPE


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by every name that they have."""
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def comes_first(option: click.Option) -> bool:
    """True if it says where the tools are, which must be known before the rest is read."""
    return bool({"-w", "--trust"} & set(option.opts)) or (option.name or "").startswith((ONCE, TAPE))


def take_option(option: click.Option, word: str, waiting: deque[str], before: str) -> list[str]:
    """The words of an option that follows the command's first argument, whose value may be the first of the
    words waiting. Those that say which workspace is meant must come `before` it."""
    if comes_first(option):
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
