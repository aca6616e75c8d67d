"""Options of commands that put a run into a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.times import Later

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.cli.context import CliContext
    from spindle.domain.run import Run
    from spindle.runs.placing import Placing

MAX_PRIORITY = 1_000_000
_PLACING = ("queue", "priority", "at", "dedup")
_HERE = {
    "only": "--only", "start": "--from", "key": "--output", "timeout": "--timeout", "yes": "--yes",
    "continued": "--continue", "stream": "--stream",
}  # fmt: skip


def submit_options(function: Any) -> Any:
    """Adds `--detach`, and what says how a run is submitted, to a command."""
    for option in (
        click.option("--dedup", metavar="KEY", help="With --detach: one run for all who give this key."),
        click.option(
            "--at",
            type=Later(),
            metavar="TIME",
            help="With --detach: not before 2026-11-17T09:30, or in 15m.",
        ),
        click.option(
            "--priority",
            type=click.IntRange(1, MAX_PRIORITY),
            metavar="NUMBER",
            help="With --detach: a smaller number is sooner. Usually 100.",
        ),
        click.option("--queue", metavar="NAME", help="With --detach: the queue."),
        click.option(
            "--detach", is_flag=True, help="Put it into a queue for `spindle worker`, print its id."
        ),
    ):
        function = option(function)
    return function


def refuse_mixed(options: Mapping[str, Any]) -> None:
    """Raises UsageMistakeError for options that say how to submit a run which is not, and the reverse."""
    from spindle.cli.errors import UsageMistakeError

    if not options["detach"]:
        for name in _PLACING:
            if options[name] is not None:
                raise UsageMistakeError(f"--{name} is for runs in a queue", "add --detach")
        return
    for name, option in _HERE.items():
        if options.get(name):
            raise UsageMistakeError(f"{option} and --detach do not go together", f"leave out {option}")


def placing_of(options: Mapping[str, Any]) -> Placing:
    """Returns how the run is to be submitted."""
    from spindle.runs.placing import Placing

    return Placing(**{name: options[name] for name in _PLACING if options[name] is not None})


def show_submitted(cli: CliContext, run: Run) -> None:
    """Prints the id of a run that was submitted, and how it stands."""
    if cli.output.as_json:
        cli.output.json(run.to_dict())
        return
    cli.output.line(run.id)
    if run.status == "queued":
        cli.output.note(f"it waits in the queue {run.queue!r} for `spindle worker`")
    else:
        cli.output.note(f"it was submitted before, and is {run.status}")
