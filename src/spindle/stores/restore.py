"""Puts a backup in the place of the state of a workspace, after a look at everything in it.

A backup may come from anywhere: nothing of it is written outside of a folder of our own until all of it has
been checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import time
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spindle.errors import ConfigurationError, StoreError
from spindle.owner_only import make_file, make_folder
from spindle.stores.backup import DATABASE, FILES, FORMAT, MANIFEST, Manifest, Member, Status, chunks_of
from spindle.stores.files import NAME
from spindle.stores.migrate import migrate, migrations, schema_version
from spindle.stores.spool import folder_of, forget_all, move_all
from spindle.stores.worker import as_store_error

MAX_MEMBERS: Final = 1_000_000
MAX_MANIFEST: Final = 256 * 1024 * 1024
MAX_RATIO: Final = 100
"""Times the bytes of the backup that may come out of it, above what any may."""
ANY_MAY: Final = 64 * 1024 * 1024
FIRST_SCHEMA: Final = 8
"""The oldest version of which there are backups."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A backup that was put in place."""

    manifest: Manifest
    replaced: Path | None
    """The copy of the state that was there before, if it had anything newer."""


def restore(backup: Path, database: Path, files: Path, *, force: bool, status: Status) -> Restored:
    """Checks the backup and puts it in place of the state, which nobody may be using."""
    if not backup.is_file():
        raise ConfigurationError(f"there is no file {backup}")
    try:
        make_folder(database.parent)
        with (
            zipfile.ZipFile(backup) as archive,
            tempfile.TemporaryDirectory(prefix=".restoring-", dir=database.parent) as made,
        ):
            folder = Path(made)
            manifest = _read_manifest(archive, backup)
            _refuse_too_large(manifest, backup, folder)
            status("unpacking …")
            _unpack(archive, manifest, folder)
            status("checking the database …")
            _check_database(folder / DATABASE, manifest)
            damaged = _move_damaged(database, force=force)
            with _exclusive(database) as db:
                replaced = damaged or _refuse_newer(db, manifest, database, force=force)
                _prepare(folder / DATABASE, db)
                status("putting it in place …")
                _place_files(folder / FILES, files)
                forget_all(folder_of(database))  # of a damaged state; of another one they are in the table
                with contextlib.closing(sqlite3.connect(folder / DATABASE)) as checked:
                    checked.backup(db)
            return Restored(manifest, replaced)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise ConfigurationError(
            f"{backup} is not a backup that can be unpacked: {error}", hint="nothing was changed"
        ) from None
    except OSError as error:
        raise StoreError(
            f"the backup cannot be restored: {error.strerror or error}; nothing was changed"
        ) from None
    except sqlite3.Error as error:
        raise as_store_error(error) from None


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(f"the backup {why}", hint="nothing was changed; use another one")


# --- the archive


def _read_manifest(archive: zipfile.ZipFile, backup: Path) -> Manifest:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise _unusable("has too many files")
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        raise _unusable("has two files of one name")
    for member in members:
        name, mode = member.filename, member.external_attr >> 16
        is_kept = name.startswith(FILES) and NAME.fullmatch(name.removeprefix(FILES).encode()) is not None
        if name not in (DATABASE, MANIFEST) and not is_kept:
            raise _unusable(f"has a file that does not belong there: {name[:100]!r}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _unusable(f"has something that is no file: {name[:100]!r}")
    if MANIFEST not in names or DATABASE not in names:
        raise _unusable("is another zip: it has no manifest or no database")
    if archive.getinfo(MANIFEST).file_size > MAX_MANIFEST:
        raise _unusable("has a manifest that is too large")
    with archive.open(MANIFEST) as packed:
        text = packed.read(MAX_MANIFEST + 1)
    try:
        manifest = _parsed(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _unusable("has a manifest that cannot be read") from None
    if manifest.format != FORMAT or manifest.schema > len(migrations()):
        raise ConfigurationError(
            f"the backup was made by a newer Spindle ({manifest.spindle[:40]})", hint="upgrade Spindle first"
        )
    if set(manifest.members) != set(names) - {MANIFEST}:
        raise _unusable("does not hold the files that its manifest names")
    return manifest


def _parsed(data: Any) -> Manifest:
    members = {
        str(name): Member(int(about["size"]), str(about["sha256"])) for name, about in data["members"].items()
    }
    if any(member.size < 0 for member in members.values()):
        raise ValueError
    return Manifest(
        float(data["made_at"]), int(data["schema"]), str(data["spindle"]), int(data["format"]), members
    )


def _refuse_too_large(manifest: Manifest, backup: Path, folder: Path) -> None:
    if manifest.size > backup.stat().st_size * MAX_RATIO + ANY_MAY:
        raise _unusable("would unpack to far more than it is")
    if manifest.size * 2 > shutil.disk_usage(folder).free:
        raise StoreError(
            f"there is not enough space to restore {manifest.size} bytes; nothing was changed",
            hint=f"free some on the disk of {folder.parent}",
        )


def _unpack(archive: zipfile.ZipFile, manifest: Manifest, folder: Path) -> None:
    (folder / FILES).mkdir(mode=0o700)
    for name, member in manifest.members.items():
        digest, left = hashlib.sha256(), member.size
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out, archive.open(name) as packed:
            for chunk in chunks_of(packed):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                out.write(chunk)
        if left != 0 or digest.hexdigest() != member.sha256:
            raise _unusable(f"is damaged: {name} is not what its manifest says")
        if name != DATABASE and not name.removeprefix(FILES).startswith(member.sha256[:32]):
            raise _unusable(f"has a file under a wrong name: {name}")


# --- the database


def _check_database(file: Path, manifest: Manifest) -> None:
    """Refuses a database that is damaged, or has anything in its schema that ours has not: a trigger would
    run with each of our statements."""
    try:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("PRAGMA trusted_schema = OFF")
            if schema_version(db) != manifest.schema or manifest.schema < FIRST_SCHEMA:
                raise _unusable("has a database of another version than it says")
            if _schema(db) != _schema_of(manifest.schema):
                raise _unusable("has a database that is not one of Spindle's")
            if db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise _unusable("has a damaged database")
            db.execute("BEGIN IMMEDIATE")
            migrate(db)
            db.execute("COMMIT")
    except sqlite3.Error as error:
        raise _unusable(f"has a damaged database: {error}") from None


def _schema(db: sqlite3.Connection) -> set[tuple[Any, ...]]:
    return set(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall())


def _schema_of(version: int) -> set[tuple[Any, ...]]:
    """The schema that a database of this version has."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, up_to=version)
        return _schema(db)


def _move_damaged(database: Path, *, force: bool) -> Path | None:
    """Moves a file that is no database any more out of the way, if `force` says so, and returns its place."""
    try:
        with contextlib.closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return None
    except sqlite3.OperationalError:
        return None  # not there, or in use
    except sqlite3.DatabaseError as error:
        if not force:
            raise StoreError(
                f"the state is damaged: {error}; nothing was changed",
                hint="--force restores the backup, and keeps what is there beside it",
            ) from None
    for ending in ("-wal", "-shm"):
        Path(f"{database}{ending}").unlink(missing_ok=True)
    return database.replace(_replaced(database))


def _replaced(database: Path) -> Path:
    return database.with_name(f"{database.name}.replaced")


@contextlib.contextmanager
def _exclusive(database: Path) -> Generator[sqlite3.Connection]:
    """The state's own database, which nobody else can use for as long as this is entered."""
    make_file(database)
    db = sqlite3.connect(database, timeout=0.5, isolation_level=None)
    try:
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            # Fails as long as anybody else has the file open.
            is_ours = db.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
            db.execute("BEGIN EXCLUSIVE")
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            is_ours = False
        if not is_ours:
            raise StoreError(
                "another process uses the state; nothing was changed",
                hint="stop `spindle serve`, `spindle up` and all else that uses the workspace, and try again",
            )
        yield db
    finally:
        db.close()


def _refuse_newer(db: sqlite3.Connection, manifest: Manifest, database: Path, *, force: bool) -> Path | None:
    version = schema_version(db)
    if version == 0:
        return None  # nothing is there yet
    move_all(db, folder_of(database))
    newer = {name: db.execute(query, (manifest.made_at,)).fetchone()[0] for name, query in _NEWER.items()}
    found = [f"{count} {name}" for name, count in newer.items() if count]
    if not found:
        return None
    if not force:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.made_at))
        raise StoreError(
            f"the state has what is newer than the backup of {when}: {', '.join(found)}; nothing was changed",
            hint="--force restores all the same, and keeps a copy of the state beside it",
        )
    copy = _replaced(database)
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    db.execute("VACUUM INTO ?", (str(copy),))
    return copy


_NEWER = {
    "calls": "SELECT count(*) FROM calls WHERE started_at > ?",
    "runs": "SELECT count(*) FROM runs WHERE updated_at > ?",
    "secrets": "SELECT count(*) FROM secrets WHERE updated_at > ?",
}


def _prepare(file: Path, db: sqlite3.Connection) -> None:
    """No process holds anything of a state that was just restored, and all see that the tools are others."""
    version = "SELECT value FROM meta WHERE key = 'catalog_version'"
    before = db.execute(version).fetchone()[0] if schema_version(db) else 0
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as restored:
        restored.execute("UPDATE runs SET lease_until = 0 WHERE lease_until IS NOT NULL")
        restored.execute("DELETE FROM leases")
        restored.execute("UPDATE meta SET value = max(value, ?) + 1 WHERE key = 'catalog_version'", (before,))


def _place_files(unpacked: Path, files: Path) -> None:
    """Adds the kept files. One that is there under its name has the same content."""
    for file in unpacked.iterdir():
        make_folder(files)
        file.replace(files / file.name)
