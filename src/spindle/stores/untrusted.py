"""Reads the tools in the state of a workspace that nobody trusts.

The file may have been made by anybody. It is read once, whole, within a bound, and not through a link; SQLite
gets a copy in memory, so that it opens no file beside it, and runs nothing that the file says.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from spindle.errors import StoreError
from spindle.stores.migrate import migrations, schema_version
from spindle.stores.sqlite import SqliteStore

MAX_SIZE = 256_000_000
MAX_STEPS = 2000
"""Tens of thousands of instructions that one connection may take: a view can be made to never end."""


class UntrustedSqliteStore(SqliteStore):
    """A copy in memory of a state that may be hostile, to read from."""

    def __init__(self, data: bytes) -> None:
        super().__init__(":memory:")
        self._data = data
        self._steps = 0

    async def open(self) -> UntrustedSqliteStore:
        """Refuses a state of another version, and what is none."""
        try:
            if await self._reader.run(schema_version) != len(migrations()):
                raise StoreError("the stored state is of another version of Spindle")
        except BaseException:
            await self.close()
            raise
        return self

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            # The mode of the file, of which a copy in memory knows only the plain one.
            connection.deserialize(self._data[:18] + b"\x01\x01" + self._data[20:])
        except sqlite3.Error:
            connection.close()
            raise
        connection.set_progress_handler(self._count, 10_000)
        return connection

    def _count(self) -> bool:
        self._steps += 1
        return self._steps > MAX_STEPS


def read_inside(file: Path, root: Path) -> bytes | None:
    """The bytes of a file inside of a folder; None if it is not there, lies elsewhere or is too large."""
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        return None
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as handle:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not 100 <= status.st_size <= MAX_SIZE:
            return None
        return handle.read(MAX_SIZE)
