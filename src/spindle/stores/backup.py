"""Copies the state of a workspace in SQLite into one file, also while it is used.

The file is a zip with `state.db`, the kept files, and a manifest with the size and hash of each. The key that
opens what is sealed is not in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from spindle.errors import ConfigurationError, StoreError
from spindle.stores.files import FolderFileStore
from spindle.stores.migrate import schema_version
from spindle.stores.spool import folder_of, move_all
from spindle.stores.worker import as_store_error
from spindle.version import __version__

FORMAT: Final = 1
DATABASE: Final = "state.db"
MANIFEST: Final = "manifest.json"
FILES: Final = "files/"
CHUNK: Final = 1024 * 1024
PATIENCE: Final = 60.0

Status = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a backup."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about a backup."""

    made_at: float
    schema: int
    spindle: str = __version__
    format: int = FORMAT
    members: dict[str, Member] = field(default_factory=dict[str, Member])

    @property
    def size(self) -> int:
        """Bytes of all that is in it."""
        return sum(member.size for member in self.members.values())

    @property
    def file_count(self) -> int:
        """Kept files that are in it."""
        return sum(name.startswith(FILES) for name in self.members)


def back_up(
    database: Path, files: FolderFileStore, target: Path, *, replace: bool, status: Status
) -> Manifest:
    """Writes the backup, whole or not at all, and readable by its owner alone."""
    if not database.is_file():
        raise ConfigurationError(f"there is no state yet: no file {database}")
    target = target.absolute()
    if target.exists() and not replace:
        raise ConfigurationError(f"{target} exists already", hint="choose another name, or give --force")
    try:
        # Beside the target: there is space where the backup is to be, and a rename is one step.
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as made:
            folder = Path(made)
            status("copying the database …")
            copy_database(database, folder / DATABASE)
            partial = folder / "whole"
            manifest = _pack(folder / DATABASE, files, partial, status)
            if not replace and target.exists():
                raise ConfigurationError(f"{target} was made meanwhile; nothing was changed")
            partial.replace(target)
            return manifest
    except OSError as error:
        raise StoreError(
            f"the backup cannot be written to {target}: {error.strerror or error}",
            hint="name a folder that exists, can be written and has space",
        ) from None


def copy_database(database: Path, target: Path) -> None:
    """Writes the database as it stands at one moment into a new file. Others may read and write meanwhile."""
    try:
        place = f"{database.absolute().as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=PATIENCE)) as db:
            db.isolation_level = None
            move_all(db, folder_of(database))
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            # Not a copy of its pages: what was deleted is not in it.
            db.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error as error:
        raise as_store_error(error) from None


def _pack(database: Path, files: FolderFileStore, target: Path, status: Status) -> Manifest:
    with contextlib.closing(sqlite3.connect(database)) as db:
        schema = schema_version(db)
    manifest = Manifest(time.time(), schema)
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w+b") as whole:
        with zipfile.ZipFile(whole, "w", compresslevel=1) as archive:
            with database.open("rb") as content:
                _add(archive, manifest, DATABASE, content, zipfile.ZIP_DEFLATED)
            kept = [file.name for file in files.list_kept() if not file.is_partial]
            for number, name in enumerate(kept):
                status(f"adding file {number + 1} of {len(kept)} …")
                # One that was pruned meanwhile is left out, as if that had been before.
                with contextlib.suppress(FileNotFoundError), files.open_kept(name) as content:
                    _add(archive, manifest, f"{FILES}{name}", content, zipfile.ZIP_STORED)
            archive.writestr(_info(MANIFEST, zipfile.ZIP_DEFLATED), json.dumps(asdict(manifest), indent=1))
        whole.flush()
        os.fsync(whole.fileno())
    return manifest


def _add(archive: zipfile.ZipFile, manifest: Manifest, name: str, content: IO[bytes], method: int) -> None:
    digest, size = hashlib.sha256(), 0
    with archive.open(_info(name, method), "w", force_zip64=True) as packed:
        for chunk in chunks_of(content):
            digest.update(chunk)
            size += len(chunk)
            packed.write(chunk)
    manifest.members[name] = Member(size, digest.hexdigest())


def _info(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    info.compress_type = method
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    return info


def chunks_of(content: IO[bytes]) -> Iterator[bytes]:
    """The content of a file, bit by bit."""
    while chunk := content.read(CHUNK):
        yield chunk


def counts(database: Path) -> dict[str, int]:
    """The numbers of the records in a database, by their tables."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        return {table: _count(db, table) for table in ("tools", "calls", "runs", "secrets")}


def _count(db: sqlite3.Connection, table: str) -> Any:
    return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
