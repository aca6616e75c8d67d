"""Tools in the file of a store, read without opening the store: nothing is written or brought up to date."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.stores.migrate import migrations, schema_version
from spindle.stores.rows import SharedRows, storable, tool_from_row
from spindle.stores.sql import select
from spindle.stores.sql_tools import TOOL
from spindle.stores.sqlite_queries import sql

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

_SELECT = sql(select("tools", TOOL)) + " WHERE name = ? AND definition IS NOT NULL"


def stored_tools(database: Path, names: Iterable[str]) -> dict[str, Tool]:
    """Returns those of the named tools that were accepted at the last sync; none where there is no such file,
    or another version of Spindle wrote it. Raises sqlite3.Error for a file that cannot be read."""
    if not database.is_file():
        return {}
    with contextlib.closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as db:
        if schema_version(db) != len(migrations()):
            return {}
        shared = SharedRows(db)
        found = {name: db.execute(_SELECT, (storable(name),)).fetchone() for name in names}
        return {name: tool_from_row(row, shared) for name, row in found.items() if row is not None}
