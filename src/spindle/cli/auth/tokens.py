"""`spindle auth list` and `spindle auth revoke`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.output import when

if TYPE_CHECKING:
    from spindle.auth.oauth import Revoked, TokenInfo


@command("list")
async def listing(cli: CliContext) -> None:
    """List the access that users have given, and how long it is valid. Never shows the tokens."""
    async with cli.open() as app:
        found = await app.auth.list()
    if cli.output.as_json:
        cli.output.json([item.to_dict() for item in found])
    elif not found:
        cli.output.note("nobody has logged in to a source yet; use `spindle auth login SOURCE`")
    else:
        rows = [
            (item.source, item.principal, item.provider or "-", " ".join(item.scopes) or "-", _state(item))
            for item in found
        ]
        headings = ("SOURCE", "USER", "PROVIDER", "SCOPES", "ACCESS")
        cli.output.table(headings, rows, drop=("SCOPES", "PROVIDER"))


def _state(item: TokenInfo) -> str:
    if item.problem:
        return f"unreadable: {item.problem}"
    since = f"since {when(item.obtained_at)}"
    if item.refreshable:
        return f"renewed automatically, {since}"
    if item.expires_at is None:
        return f"without expiry, {since}"
    left = item.expires_at - time.time()
    return f"for {max(int(left // 60), 1)} min, {since}" if left > 0 else "expired: log in again"


@command("revoke")
@click.argument("source", shell_complete=complete_source)
@click.option("--as", "user", metavar="USER", help="The access of this user instead of yours.")
@click.option("--all", "everybody", is_flag=True, help="Every user's access to this source.")
async def revoke(cli: CliContext, source: str, user: str | None, everybody: bool) -> None:
    """Revoke access: at the provider if it supports that, and by deleting the tokens here in any case."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.domain.identity import LOCAL
    from spindle.errors import NotFoundError, suggest

    if user and everybody:
        raise UsageMistakeError("give either --as or --all")
    done: list[Revoked] = []
    async with cli.open() as app:
        known = await app.auth.list()
        users = [item.principal for item in known if item.source == source]
        for principal in users if everybody else [user or LOCAL.id]:
            revoked = await app.auth.revoke(source, principal)
            if revoked is not None:
                done.append(revoked)
        names = {item.source for item in known} | set(app.catalog.sources.names)
    if not done:
        meant = suggest(source, names - {source}) if source not in names else None
        others = f"; others have: {', '.join(users)}" if users else ""
        raise NotFoundError(
            f"{user or LOCAL.id!r} has no access to {source!r} that could be revoked{others}",
            hint=f"did you mean {meant!r}?" if meant else "`spindle auth list` shows what there is",
            source=source,
        )
    if cli.output.as_json:
        cli.output.json([item.to_dict() for item in done])
        return
    for item in done:
        cli.output.line(f"{item.principal} has no access to {item.source} any more")
        if item.problem:
            cli.output.note(f"the tokens may stay valid at the provider until they expire: {item.problem}")
