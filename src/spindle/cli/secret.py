"""`spindle secret`: the secrets of a workspace, which flows and sources read by name."""

from __future__ import annotations

import click

from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options
from spindle.cli.output import when

secret = LazyGroup(
    "secret",
    params=[*shared_options()],
    sections={
        "Secrets": {
            "set": ("secret", "set_", "Seal a secret, typed or piped in."),
            "list": ("secret", "listing", "List secrets, never their values."),
            "remove": ("secret", "remove", "Delete a sealed secret."),
        },
    },
    help="Secrets of this workspace. Flows read one as ${secrets.NAME}, settings of a source theirs as"
    " ${secret:SOURCE.KEY}. They are kept encrypted, and are masked in all that is recorded or shown.",
)


@command("set")
@click.argument("name")
@click.option(
    "--for",
    "readers",
    metavar="USER",
    multiple=True,
    help="Whose runs may read it: a user, group:NAME, or '*' for everybody; yours alone if left out.",
)
async def set_(cli: CliContext, name: str, readers: tuple[str, ...]) -> None:
    """Seal a secret under NAME, or replace it. The value is asked for, or piped in; it is never an argument,
    which other users of this machine could see.

    \b
    spindle secret set DEPLOY_KEY
    pass show deploy | spindle secret set DEPLOY_KEY --for group:ops
    spindle secret set github.TOKEN        one of the source github, for ${secret:github.TOKEN}
    """
    from spindle.auth.secrets import OWNER, checked_name, source_and_key
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import NotFoundError, did_you_mean

    of_source = source_and_key(name)
    if of_source is None:
        checked_name(name)
    elif readers:
        raise UsageMistakeError("--for is for secrets of flows", "only its source reads this one")
    async with cli.open() as app:
        if of_source is not None and of_source[0] not in app.catalog.sources.names:
            known = did_you_mean(of_source[0], app.catalog.sources.names, "`spindle sources` lists them")
            raise NotFoundError(f"there is no source {of_source[0]!r}", hint=known)
        value = await _value(cli, name)
        if of_source is None:
            await app.auth.secrets.set(name, value, readers or OWNER)
        else:
            await app.auth.secrets.save(of_source[0], {of_source[1]: value})
    if cli.output.as_json:
        cli.output.json({"name": name, "readers": list(readers or OWNER) if of_source is None else None})
        return
    cli.output.line(f"sealed {name}")
    use = f"${{secrets.{name}}} in flows" if of_source is None else f"${{secret:{name}}} in its settings"
    cli.output.note(f"it is read as {use}")


async def _value(cli: CliContext, name: str) -> str:
    """Returns the value, typed or piped in, without the end of its line."""
    from spindle.cli.stdin import read_stdin
    from spindle.errors import CancelledCallError, InvalidArgumentsError

    if cli.can_ask:
        typed = await cli.ask_hidden(f"{name} (not shown): ")
        if not typed:
            raise CancelledCallError("nothing was sealed")
        return typed
    piped = await read_stdin(None)
    value = (piped or "").removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidArgumentsError(
            f"there is no value for the secret {name}",
            hint=f"pipe it in: … | spindle secret set {name}",
        )
    return value


@command("list")
async def listing(cli: CliContext) -> None:
    """List the secrets of this workspace and who may read them. Never shows a value."""
    async with cli.open() as app:
        found = await app.auth.secrets.list()
    if cli.output.as_json:
        cli.output.json([info.to_dict() for info in found])
        return
    if not found:
        cli.output.note("there are no secrets; `spindle secret set NAME` seals one")
        return
    rows = [
        (
            info.name,
            info.problem or info.place,
            " ".join(info.readers) or f"the source {info.source}",
            when(info.updated_at) if info.updated_at is not None else "-",
        )
        for info in found
    ]
    cli.output.table(("NAME", "WHERE", "READERS", "SET"), rows, drop=("SET",))


@command("remove")
@click.argument("name")
async def remove(cli: CliContext, name: str) -> None:
    """Delete a sealed secret of this workspace."""
    async with cli.open() as app:
        await app.auth.secrets.remove(name)
    if cli.output.as_json:
        cli.output.json({"removed": name})
    else:
        cli.output.line(f"removed {name}")
