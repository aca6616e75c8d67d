"""`spindle runs`: runs of flows, and of calls that waited for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from spindle.cli.completion import complete_saved_flow
from spindle.cli.context import CliContext, command
from spindle.cli.output import when
from spindle.domain.run import RunStatus

if TYPE_CHECKING:
    from spindle.domain.run import Run


@command("runs")
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
async def runs(cli: CliContext, flow: str | None, status: Any, limit: int) -> None:
    """List the runs of flows, and of calls that waited for a person, the newest first.

    `spindle trace RUN` shows one, `spindle resume RUN` continues one that was stopped.
    """
    async with cli.open() as app:
        kind = "flow" if flow else None
        found = await app.store.runs(limit=limit, status=status, kind=kind, name=flow)
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


def took(run: Run) -> float:
    """Returns the seconds that a run took, or has taken so far."""
    import time

    until = time.time() if run.status == "running" else run.updated_at
    return max(until - run.created_at, 0.0)


def _what(run: Run) -> str:
    return run.name if run.kind == "flow" else f"{run.name} ({run.kind})"


def _error(run: Run) -> str:
    return str((run.error or {}).get("message", ""))
