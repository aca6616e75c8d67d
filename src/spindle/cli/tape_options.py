"""`--record`, `--replay` and `--record-once`: a tape that a command's calls go on, or come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

TAPE = "tape"
"""The beginning of the names of these options."""

_HELP = {
    "record": "Record all calls, and what servers and models answer, on this tape.",
    "replay": "Answer from this tape, without any server or model.",
    "once": "Record this tape if it does not exist, else play it.",
}


def _keep(mode: str) -> Any:
    def callback(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
        if path is None or ctx.obj is None:
            return
        from spindle.cli.errors import UsageMistakeError

        if ctx.obj.tape:
            raise UsageMistakeError("--record, --replay and --record-once exclude each other", "use one")
        ctx.obj.tape = {mode: path}

    return callback


def tape_options(function: Any) -> Any:
    """Adds the options to a command."""
    for mode, text in reversed(_HELP.items()):
        name = "--record-once" if mode == "once" else f"--{mode}"
        function = click.option(
            name,
            f"{TAPE}_{mode}",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_keep(mode),
            help=text,
        )(function)
    return function


def refuse_tape(tape: Mapping[str, Path]) -> None:
    """Raises UsageMistakeError for a run that another process executes, where its calls are on no tape."""
    if tape:
        from spindle.cli.errors import UsageMistakeError

        raise UsageMistakeError(f"--{next(iter(tape))} does not go with --detach")
