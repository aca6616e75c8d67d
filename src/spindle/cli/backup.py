"""`spindle backup` and `spindle restore`: the state of a workspace in one file, and back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command
from spindle.cli.output import plural, size

if TYPE_CHECKING:
    from spindle.auth.keys import Keys
    from spindle.settings import Settings

FILE = click.Path(dir_okay=False, path_type=Path)


@command("backup")
@click.argument("file", type=FILE)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
async def backup(cli: CliContext, file: Path, force: bool) -> None:
    """Copy the state into FILE: the database and the kept files, as they are at one moment.

    Others may use the workspace meanwhile. The key that opens what is sealed is not in it: keep a copy of
    that in another place.
    """
    from spindle.stores.backup import back_up, counts
    from spindle.stores.files import FolderFileStore

    settings = cli.settings()
    database = _database(settings)
    files = FolderFileStore(settings.state_folder / "files")
    made = await asyncio.to_thread(back_up, database, files, file, replace=force, status=cli.output.status)
    key = _keys(settings).place
    if cli.output.as_json:
        found = await asyncio.to_thread(counts, database)
        facts = {
            "file": str(file.absolute()),
            "bytes": file.stat().st_size,
            "files": made.file_count,
            **found,
        }
        cli.output.json({**facts, "made_at": made.made_at, "key": key})
        return
    what = f"the database and {plural(made.file_count, 'file')}"
    cli.output.line(f"wrote {what} to {file} ({size(file.stat().st_size)})")
    cli.output.note(f"the key is not in it, and without it what is sealed is lost; it is in {key}")


@command("restore")
@click.argument("file", type=FILE)
@click.option("--force", is_flag=True, help="Also over what is newer than the backup, or damaged.")
async def restore(cli: CliContext, file: Path, force: bool) -> None:
    """Put the backup in FILE in the place of the state. No other process may be using the workspace.

    Everything in FILE is checked first. If the state has anything newer, it stays unless --force is given,
    and then a copy of it is kept beside it.
    """
    from spindle.stores.restore import restore as put_back

    settings = cli.settings()
    database = _database(settings)
    done = await asyncio.to_thread(
        put_back, file, database, settings.state_folder / "files", force=force, status=cli.output.status
    )
    readable = await _can_read(settings)
    if cli.output.as_json:
        replaced = str(done.replaced) if done.replaced else None
        facts = {"restored": str(file.absolute()), "made_at": done.manifest.made_at, "replaced": replaced}
        cli.output.json({**facts, "files": done.manifest.file_count, "readable": readable})
        return
    cli.output.line(f"restored the database and {plural(done.manifest.file_count, 'file')} from {file}")
    if done.replaced:
        cli.output.note(f"what was there before is in {done.replaced}")
    if not readable:
        cli.output.note(
            f"some of what is sealed in it cannot be opened with the key of {_keys(settings).place}:"
            " give the key of the workspace that it comes from"
        )


def _database(settings: Settings) -> Path:
    """The file of the state. Raises ConfigurationError where it is not in one."""
    from spindle.errors import ConfigurationError
    from spindle.stores.open import shown

    address = settings.store_address(os.environ)
    if "://" in address:
        schema = shown(address).partition("?schema=")[2] or "spindle"
        raise ConfigurationError(
            f"the state is in PostgreSQL ({shown(address)}), which has tools of its own for this",
            hint=f"`pg_dump --schema={schema} --format=custom --file=FILE DATABASE`, and `pg_restore`;"
            f" the kept files are in {settings.state_folder / 'files'}",
        )
    if address == ":memory:":
        raise ConfigurationError("the state is in memory: there is nothing to copy or to put back")
    return Path(address)


def _keys(settings: Settings) -> Keys:
    from spindle.auth.keys import Keys
    from spindle.settings import data_folder

    return Keys(settings.auth, os.environ, data_folder())


async def _can_read(settings: Settings) -> bool:
    """True if the secrets, the newest run and the newest call can be opened with the key that is here."""
    from spindle.auth.access import KINDS
    from spindle.auth.details import DetailSealer
    from spindle.auth.encryption import Sealer
    from spindle.errors import SpindleError
    from spindle.stores.sqlite import SqliteStore

    keys = _keys(settings)
    sealer = Sealer(keys)
    async with SqliteStore(_database(settings)) as store:
        store.seal_with(DetailSealer(keys))
        sealed = [secret.sealed for kind in KINDS for secret in await store.secrets(kind)]
        for run in await store.runs(limit=1):
            sealed += [event.sealed for event in await store.history(run.id) if event.sealed is not None]
        calls = await store.calls(limit=1)
    try:
        for part in sealed:
            sealer.peek(part)
    except SpindleError:
        return False
    return not any((record.error or {}).get("category") == "store" for record in calls)
