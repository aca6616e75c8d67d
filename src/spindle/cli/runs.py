"""`spindle runs`: runs of flows, of calls that waited for a person, and of what was submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from spindle.cli.completion import complete_run, complete_saved_flow
from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options
from spindle.cli.output import when
from spindle.domain.run import RunStatus

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.run import Run

LOOK = 0.5
"""Seconds between two looks of `--follow`."""


@click.group(
    "runs",
    cls=LazyGroup,
    invoke_without_command=True,
    sections={
        "Commands": {
            "cancel": ("runs", "cancel", "End a run, wherever it is."),
            "retry": ("runs", "retry", "Let a failed or cancelled run go on."),
        }
    },
)
@click.option("--flow", metavar="NAME", shell_complete=complete_saved_flow, help="Only runs of this flow.")
@click.option("--status", type=click.Choice(list(get_args(RunStatus))), help="Only runs with this status.")
@click.option(
    "--limit",
    metavar="COUNT",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The number of runs to show at most.",
)
@click.option("--follow", is_flag=True, help="Print a line each time a run begins, pauses or ends.")
@click.pass_context
def runs(ctx: click.Context, flow: str | None, status: Any, limit: int, follow: bool) -> int | None:
    """List the runs of flows, and of calls that waited for a person, the newest first.

    `spindle trace RUN` shows one, `spindle resume RUN` continues one that was stopped.
    """
    if ctx.invoked_subcommand is not None:
        return None
    cli: CliContext = ctx.obj
    return cli.run(_follow(cli, flow, status) if follow else _list(cli, flow, status, limit))


runs.params.extend(shared_options())


async def _list(cli: CliContext, flow: str | None, status: Any, limit: int) -> int:
    async with cli.open() as app:
        found = await _found(app, flow, status, limit)
    if cli.output.as_json:
        cli.output.json([{**run.to_dict(), "duration": took(run)} for run in found])
    elif not found:
        cli.output.note("there are no runs yet" if not (flow or status) else "no run matches")
    else:
        from spindle.cli.run_names import SHORT

        rows = [
            (run.id[:SHORT], when(run.created_at), f"{took(run):.2f} s", run.status, _what(run), _error(run))
            for run in found
        ]
        headings = ("RUN", "STARTED", "TOOK", "STATUS", "FLOW", "ERROR")
        cli.output.table(headings, rows, drop=("TOOK", "STARTED", "ERROR", "STATUS"))
    return 0


async def _found(app: Spindle, flow: str | None, status: Any, limit: int) -> list[Run]:
    return await app.store.runs(limit=limit, status=status, kind="flow" if flow else None, name=flow)


async def _follow(cli: CliContext, flow: str | None, status: Any) -> int:
    """Prints how runs stand now that have not ended, and each change from then on, until it is stopped."""
    import asyncio

    from spindle.cli.run_names import SHORT

    known: dict[str, str] = {}
    async with cli.open() as app:
        for run in await _found(app, flow, None, 1000):
            if run.status in ("done", "failed", "cancelled"):
                known[run.id] = run.status
        while True:
            for run in reversed(await _found(app, flow, None, 1000)):
                if known.get(run.id) == run.status:
                    continue
                known[run.id] = run.status
                if status not in (None, run.status):
                    continue
                if cli.output.as_json:
                    cli.output.json({**run.to_dict(), "duration": took(run)})
                else:
                    line = (
                        when(run.updated_at),
                        run.id[:SHORT],
                        run.status.ljust(9),
                        _what(run),
                        _error(run),
                    )
                    cli.output.line("  ".join(line).rstrip())
                cli.output.flush()
            await asyncio.sleep(LOOK)


@command("cancel")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=complete_run)
async def cancel(cli: CliContext, runs: tuple[str, ...]) -> None:
    """End runs: those that wait in a queue or for a person at once, one that executes within seconds.

    A step in flight is given up. `spindle runs retry` lets a cancelled run go on.
    """
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.run_names import find_run

    async with cli.open() as app:
        for name in runs:
            run = await find_run(app, name)
            if run.status in ("done", "failed", "cancelled"):
                raise UsageMistakeError(
                    f"run {run.id} is {run.status}", "only one that has not ended is cancelled"
                )
            await app.runner.cancel(run, "cancelled by `spindle runs cancel`")
            _show(cli, await find_run(app, run.id))


@command("retry")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=complete_run)
async def retry(cli: CliContext, runs: tuple[str, ...]) -> int:
    """Let runs go on that failed or were cancelled.

    Steps that are done are not made again, those that failed are. A run that was submitted goes back into its
    queue, any other goes on here.
    """
    from spindle.cli.outcome import conclude
    from spindle.cli.run_names import find_run

    code = 0
    async with cli.open() as app:
        for name in runs:
            run = await find_run(app, name)
            outcome = await app.runner.submissions.retry(run.id)
            if outcome is None:
                _show(cli, await find_run(app, run.id))
            else:
                code = await conclude(cli, app, outcome) or code
    return code


def _show(cli: CliContext, run: Run) -> None:
    if cli.output.as_json:
        cli.output.json(run.to_dict())
    else:
        cli.output.line(f"{run.id}  {run.status}")


def took(run: Run) -> float:
    """Returns the seconds that a run took, or has taken so far."""
    import time

    until = time.time() if run.status in ("queued", "running") else run.updated_at
    return max(until - run.created_at, 0.0)


def _what(run: Run) -> str:
    return run.name if run.kind == "flow" else f"{run.name} ({run.kind})"


def _error(run: Run) -> str:
    return str((run.error or {}).get("message", ""))
