"""`spindle audit`: shows the audit log, and exports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command
from spindle.cli.times import Moment

if TYPE_CHECKING:
    from spindle.domain.audit import AuditEntry, AuditFilter

PAGE = 1000
DROPPED = ("ADDRESS", "OUTCOME", "WHY")
"""The columns that a narrow terminal can spare, in the order in which they go."""


@command("audit")
@click.option("--as", "principal", metavar="USER", help="Only what this user did.")
@click.option("--action", metavar="ACTION", help="Only this: call, read, list, enter, token, group, quota …")
@click.option("--target", metavar="NAME", help="Only what concerns this tool, resource or name.")
@click.option("--refused/--allowed", "refused", default=None, help="Only what was refused, or allowed.")
@click.option(
    "--since", type=Moment(), metavar="TIME", help="From then on: 2026-11-17T09:30, or 15m ago: 15m."
)
@click.option("--until", type=Moment(), metavar="TIME", help="Before then.")
@click.option(
    "--limit",
    metavar="COUNT",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="At most this many.",
)
@click.option("--export", is_flag=True, help="All of them as lines of JSON, the oldest first.")
async def audit(
    cli: CliContext,
    principal: str | None,
    action: str | None,
    target: str | None,
    refused: bool | None,
    since: float | None,
    until: float | None,
    limit: int,
    export: bool,
) -> None:
    """Show who did what through the servers of this workspace, the newest first: calls, reads, lists,
    requests that were refused, and changes of tokens, groups and quotas.

    The log is only ever added to; [retention] says for how long it is kept.
    """
    from spindle.domain.audit import AuditFilter

    allowed = None if refused is None else not refused
    where = AuditFilter(principal, action, target, allowed, since, until)
    if export:
        await _export(cli, where)
        return
    async with cli.open() as app:
        found = await app.store.audit(where, limit=limit)
    if cli.output.as_json:
        cli.output.json([entry.to_dict() for entry in found])
    elif not found:
        cli.output.note("the audit log has nothing that fits" if where != AuditFilter() else _EMPTY)
    else:
        headings = ("WHEN", "WHO", "", "ACTION", "TARGET", "OUTCOME", "ADDRESS", "WHY")
        cli.output.table(headings, [_row(entry) for entry in found], drop=DROPPED)


async def _export(cli: CliContext, where: AuditFilter) -> None:
    import json

    after = 0
    async with cli.open() as app:
        while page := await app.store.audit(where, limit=PAGE, after=after):
            for entry in page:
                cli.output.line(json.dumps(entry.to_dict()))
            after = page[-1].id


def _row(entry: AuditEntry) -> tuple[str, ...]:
    import time

    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    verdict = "allowed" if entry.allowed else "refused"
    return (
        moment, entry.principal or "-", verdict, entry.action, entry.target or "-", entry.outcome,
        entry.address or "-", entry.reason,
    )  # fmt: skip


_EMPTY = "the audit log is empty: `spindle serve` writes it"
