"""`spindle prune`: removes what the settings no longer want to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command
from spindle.cli.output import plural, size

if TYPE_CHECKING:
    from spindle.stores.pruning import Pruned


@command("prune")
@click.option("--dry-run", is_flag=True, help="Remove nothing: only say what would go.")
async def prune(cli: CliContext, dry_run: bool) -> None:
    """Remove records of calls, ended runs, cached results and files over the limits in [retention].

    A run that is paused or running is never removed, nor a file that it needs. While `spindle serve` runs, it
    does the same by itself.
    """
    verb = "would remove" if dry_run else "removed"

    def tell(done: Pruned) -> None:
        cli.output.status(f"{done.kind}: {done.count} {verb} …")

    settings = cli.settings()
    config = settings.retention()
    async with cli.open() as app:
        pruner = app.pruner
        done = await pruner.prune(config, dry_run=dry_run, progress=tell)
        if not dry_run:
            cli.output.status("giving space back …")
            await pruner.give_space_back(all_at_once=True)
    if cli.output.as_json:
        cli.output.json({"dry_run": dry_run, "removed": [kind.to_dict() for kind in done]})
        return
    if not any(kind.count for kind in done):
        cli.output.note("nothing is over the limits in [retention]")
        return
    for kind in done:
        if kind.count:
            cli.output.line(f"{verb} {plural(kind.count, _NAMES[kind.kind])} ({size(kind.size)})")


_NAMES = {
    "calls": "call record",
    "runs": "run",
    "events": "event",
    "audit": "audit record",
    "cache": "cached result",
    "files": "file",
}
