"""`spindle token`: tokens of clients, made and revoked while servers run."""

from __future__ import annotations

import time

import click

from spindle.cli.access.here import administration
from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options
from spindle.cli.output import when
from spindle.cli.times import Age

SETTINGS = "in spindle.toml"

token = LazyGroup(
    "token",
    params=[*shared_options()],
    sections={
        "Tokens": {
            "create": ("access.token", "create", "Make a token, and show it this once."),
            "list": ("access.token", "listing", "List tokens, without the tokens themselves."),
            "revoke": ("access.token", "revoke", "Make a token good for nothing."),
        },
    },
    help="Tokens that clients of `spindle serve` show. They are in force at once, in all servers of the"
    " workspace; tokens in spindle.toml are changed there.",
)


@command("create")
@click.argument("name")
@click.option("--user", metavar="USER", help="The user it stands for; the name if left out.")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="A group; may be given again.")
@click.option("--admin", is_flag=True, help="It may use the admin API and read the metrics.")
@click.option(
    "--expires", type=Age(), metavar="AGE", help="How long it is good: 12h, 90d. For ever if left out."
)
async def create(
    cli: CliContext, name: str, user: str | None, groups: tuple[str, ...], admin: bool, expires: float | None
) -> None:
    """Make a token for a client, and print it: it cannot be shown again.

    Once a workspace has a token, its servers let nobody in without one.
    """
    async with administration(cli) as (admins, by):
        made, text = await admins.create_token(
            by, name, user=user, groups=groups, admin=admin, expires_in=expires
        )
    if cli.output.as_json:
        cli.output.json({**made.to_dict(time.time()), "token": text})
        return
    cli.output.line(text)
    cli.output.note("clients send it as `Authorization: Bearer …`; only its digest is kept")


@command("list")
async def listing(cli: CliContext) -> None:
    """List the tokens that were made, and those of spindle.toml. Never shows the tokens."""
    now = time.time()
    config = cli.settings().serve()
    async with administration(cli) as (admins, _):
        found = await admins.tokens()
    if cli.output.as_json:
        cli.output.json([item.to_dict(now) for item in found])
        return
    rows = [
        (
            item.name,
            item.user,
            " ".join(item.groups) or "-",
            "yes" if item.admin else "-",
            item.state(now),
            when(item.created_at),
            _end(item.expires_at),
        )
        for item in found
    ]
    rows += [
        (
            name,
            item.user or name,
            " ".join(item.groups) or "-",
            "yes" if item.admin else "-",
            SETTINGS,
            "-",
            "-",
        )
        for name, item in config.tokens.items()
    ]
    if not rows:
        cli.output.note("there are no tokens; `spindle token create NAME` makes one")
        return
    headings = ("NAME", "USER", "GROUPS", "ADMIN", "STATE", "MADE", "EXPIRES")
    cli.output.table(headings, rows, drop=("MADE", "EXPIRES", "ADMIN"))


def _end(expires_at: float | None) -> str:
    return "never" if expires_at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(expires_at))


@command("revoke")
@click.argument("name")
async def revoke(cli: CliContext, name: str) -> None:
    """Make a token good for nothing, in all servers of the workspace and for ever."""
    async with administration(cli) as (admins, by):
        revoked = await admins.revoke_token(by, name)
    if cli.output.as_json:
        cli.output.json(revoked.to_dict(time.time()))
    else:
        cli.output.line(f"the token {name} of {revoked.user} is good for nothing now")
