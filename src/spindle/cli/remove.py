"""`spindle remove NAME`: removes a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.settings import Settings


@command("remove")
@click.argument("name", shell_complete=complete_source)
def remove(cli: CliContext, name: str) -> None:
    """Remove a source from its spindle.toml, and its tools from the catalog.

    \b
    spindle remove time
    """
    from spindle.settings.edit import remove_source

    before = cli.settings()
    if name not in before.origins and name not in before.sources and cli.run(_forget_stored(cli, name)):
        if cli.output.as_json:
            cli.output.json({"removed": name, "file": None})
        else:
            cli.output.line(f"removed the tools of {name}, which the settings no longer had")
        return
    file, own = _file_of(before, name), before.own_files.get(name)
    remove_source(file, name)
    again = cli.run(_forget(cli, name))
    if cli.output.as_json:
        cli.output.json({"removed": name, "file": str(file)})
        return
    cli.output.line(f"removed {name} from {file}")
    if own is not None and own.exists():
        cli.output.note(f"{own}, which described it, is still there")
    if again:
        cli.output.note(f"{name} is still there: {again} has one of that name too")


def _file_of(settings: Settings, name: str) -> Path:
    from spindle.errors import NotFoundError, did_you_mean
    from spindle.settings import FOLDERS

    if name in settings.origins:
        return Path(settings.origins[name])
    if name in FOLDERS and name in settings.sources:
        folder = settings.root / name
        if not folder.is_dir():
            hint = f"take the tables [{name}.NAME] out of the settings to remove them"
            raise NotFoundError(f"{name!r} is not in [sources]: they are installed", hint=hint, source=name)
        hint = f"move {folder} away to remove it"
        raise NotFoundError(f"{name!r} is the workspace's own folder, not in a file", hint=hint, source=name)
    hint = did_you_mean(name, settings.origins, "`spindle sources` lists them")
    raise NotFoundError(f"there is no source {name!r}", hint=hint, source=name)


async def _forget(cli: CliContext, name: str) -> str | None:
    """Forgets what is stored of a source. Returns the file that still has the name, if any."""
    from spindle import opening

    after = cli.load()
    async with opening.open(settings=after, note=cli.output.note) as app:
        again = after.origins.get(name)
        if again is None:
            await app.catalog.forget(name)
            await app.auth.secrets.forget(name)
        return again


async def _forget_stored(cli: CliContext, name: str) -> bool:
    """Forgets a source that the settings no longer have. False where nothing is stored of it."""
    async with cli.open() as app:
        return await app.catalog.forget(name)
