"""Records of calls on their way into SQLite.

A commit takes longer than all else that is done for a call. So a process that makes many calls appends their
records to a file of its own beside the database, where they survive its death as they would in the database.
From there they are moved into the table in groups: by the process itself, and by all who are about to read
the table. How far that has come for each file is kept in the database, so that it happens once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from spindle.domain.json_schema import from_json, is_array, to_json
from spindle.errors import StoreError
from spindle.owner_only import FILE, make_folder
from spindle.stores.rows import CALL
from spindle.stores.sqlite_insert import Row, RowInsert

ENDING: Final = ".records"
DAMAGED: Final = ".damaged"
MAX_ROW: Final = 256 * 1024
"""Bytes of a record in a file. Larger ones are rare, and go straight into the table."""
MAX_READ: Final = 4 * MAX_ROW
"""Bytes of a file that are moved in one transaction."""
MAX_FILE: Final = 4 * 1024 * 1024
"""Bytes of a file after which a process begins another one."""
MOST_HELD: Final = 4096
"""Records that are held in memory until they are moved. More are read from the file."""
INSERT: Final = RowInsert("calls", CALL, optional=len(CALL) - CALL.index("error"))

_BLOBS = tuple(CALL.index(name) for name in ("arguments", "error", "result"))
_REQUIRED = CALL.index("error")
"""Columns from the left that may not be empty."""
_EARLIER = CALL.index("run")
"""Columns of records that an earlier version has left."""
_STARTED, _DURATION = CALL.index("started_at"), CALL.index("duration")
_MARK = "spool:"
_SET_PLACE = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


def folder_of(database: str | Path) -> Path:
    """The folder with the records that are on their way into this database."""
    return Path(f"{database}-calls")


def line_of(row: Row) -> bytes | None:
    """The row as a line of a file; None if something is missing that the table requires."""
    if None in row[:_REQUIRED]:
        return None
    cells: list[Any] = list(row)
    for place in _BLOBS:
        if cells[place] is not None:
            cells[place] = b2a_base64(cells[place], newline=False).decode()
    return to_json(cells) + b"\n"


class Unmoved:
    """The newest records of a process's own file, which need not be read from there."""

    def __init__(self, path: Path, start: int, groups: list[tuple[int, Sequence[Row]]]) -> None:
        self.path = path
        self.start = start
        """The place in the file at which they begin."""
        self.groups = groups
        """As they were appended, each with the place at which it ends."""


class Spool:
    """The file of one process. The lock on it tells others that it may still grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._path = folder
        self._start = self._size = 0
        self._groups: list[tuple[int, Sequence[Row]]] = []
        self._held = 0
        self._has_left = False
        """True if there may be records that are only in files."""

    def append(self, lines: bytes, rows: Sequence[Row]) -> bool:
        """Adds the lines of some rows, all or none. Once this returns, they survive this process. True if the
        file has become long: another one should be begun, so that it can be removed."""
        try:
            if self._file is None:
                self._begin()
            assert self._file is not None
            written = os.write(self._file, lines)
            if written < len(lines):
                self._take_back()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise _as_store_error(error) from None
        self._size += written
        if self._held >= MOST_HELD:
            self._let_go()
        self._groups.append((self._size, rows))
        self._held += len(rows)
        return self._size > MAX_FILE

    def _take_back(self) -> None:
        """Removes the part of a line that was written."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self.close()  # what comes next must not become the rest of that line
            raise

    def take(self) -> Unmoved | None:
        """The records since the last time. If they do not get into the table, they are read from the file.
        None if there are others, which can only be read."""
        own = None if self._has_left else Unmoved(self._path, self._start, self._groups)
        self._let_go()
        self._start, self._has_left = self._size, False
        return own

    def _let_go(self) -> None:
        """Holds the records no longer, which must then be read from the file."""
        self._groups, self._held, self._has_left = [], 0, True

    def close(self) -> None:
        """Lets go of the file. Whoever moves the last of its records removes it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._let_go()

    def _begin(self) -> None:
        make_folder(self._folder)
        path = self._folder / secrets.token_hex(8)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody may see it without its lock: a file that nobody holds is removed.
        self._file, self._path = file, path.rename(path.with_suffix(ENDING))
        self._start = self._size = 0


def has_records(folder: Path) -> bool:
    """True if there may be records to be moved."""
    try:
        with os.scandir(folder) as found:
            return any(entry.name.endswith(ENDING) for entry in found)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(folder, error) from None


def move_own(db: sqlite3.Connection, own: Unmoved) -> bool:
    """Moves the newest records of this process, those that others have not moved meanwhile. False if they
    must be read from the file."""
    mark = f"{_MARK}{own.path.name}"
    found = db.execute("SELECT value FROM meta WHERE key = ?", (mark,)).fetchone()
    if found is None and not own.path.exists():
        return True  # others have moved all of it, and removed it
    place = found[0] if found is not None else 0
    starts = [own.start, *(end for end, _ in own.groups)]
    if place not in starts:
        return place > starts[-1]
    left = own.groups[starts.index(place) :]
    if left:
        INSERT.add(db, [row for _, rows in left for row in rows])
        db.execute(_SET_PLACE, (mark, left[-1][0]))
    return True


def move(db: sqlite3.Connection, folder: Path) -> bool:
    """Moves records into the table, as a part of the transaction that is open. True if there are more."""
    known = "SELECT key, value FROM meta WHERE key > ? AND key < ?"
    places = dict(db.execute(known, (_MARK, f"{_MARK}~")).fetchall())
    rows: list[Row] = []
    has_more = False
    for path in sorted(folder.glob(f"*{ENDING}")):
        mark = f"{_MARK}{path.name}"
        before = places.pop(mark, 0)
        found = _read_or_say(path, before)
        rows += found.rows
        has_more = has_more or found.has_more
        if found.is_over and found.end == before:
            # All of it was committed by an earlier transaction.
            path.unlink(missing_ok=True)
            db.execute("DELETE FROM meta WHERE key = ?", (mark,))
        elif found.end != before:
            db.execute(_SET_PLACE, (mark, found.end))
            has_more = has_more or found.is_over
    rows.sort(key=lambda row: row[_STARTED] + row[_DURATION])
    INSERT.add(db, rows)
    db.executemany("DELETE FROM meta WHERE key = ?", [(gone,) for gone in places])
    return has_more


def move_all(db: sqlite3.Connection, folder: Path) -> None:
    """Moves all records into the table, with a connection that has no transaction open."""
    has_more = has_records(folder)
    while has_more:
        db.execute("BEGIN IMMEDIATE")
        try:
            has_more = move(db, folder)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def forget_all(folder: Path) -> None:
    """Removes all files of a database that is no more, in a folder that nobody uses."""
    for path in folder.glob(f"*{ENDING}"):
        path.unlink(missing_ok=True)


class _Found:
    """A part of a file."""

    def __init__(self, rows: list[Row], end: int, *, has_more: bool, is_over: bool) -> None:
        self.rows = rows
        self.end = end
        """The place in the file up to which it was read."""
        self.has_more = has_more
        self.is_over = is_over
        """True if the file cannot grow, and has nothing behind that place."""


def _read_or_say(path: Path, start: int) -> _Found:
    try:
        return _read(path, start)
    except OSError as error:
        raise _unreadable(path, error) from None


def _read(path: Path, start: int) -> _Found:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        is_left = _is_left(file)
        data = os.pread(file, MAX_READ, start)
    finally:
        os.close(file)
    end = data.rfind(b"\n") + 1
    rows: list[Row] = []
    damaged: list[bytes] = []
    for line in data[:end].splitlines():
        row = _row_of(line)
        if row is None:
            damaged.append(line)
        else:
            rows.append(row)
    has_more = len(data) == MAX_READ
    if has_more and not end:
        damaged, end = [data], len(data)
    if is_left and not has_more:
        # What its process began to write, and did not end.
        damaged += [data[end:]] if data[end:].strip(b"\0") else []
        end = len(data)
    _set_aside(path, damaged)
    return _Found(rows, start + end, has_more=has_more, is_over=is_left and not has_more)


def _is_left(file: int) -> bool:
    """True if the process of a file is gone or has begun another: nobody holds it. The lock that shows this
    goes with the descriptor."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _row_of(line: bytes) -> Row | None:
    """The row in a line; None if it is damaged."""
    try:
        cells: Any = from_json(line)
        if not is_array(cells) or len(cells) not in (_EARLIER, len(CALL)):
            return None
        cells += [None] * (len(CALL) - len(cells))
        for place in _BLOBS:
            if cells[place] is not None:
                cells[place] = a2b_base64(cells[place])
        cells[_STARTED], cells[_DURATION] = float(cells[_STARTED]), float(cells[_DURATION])
    except (ValueError, TypeError, NotBase64, OverflowError):
        return None
    row = tuple(cells)
    return row if None not in row[:_REQUIRED] and all(_is_cell(cell) for cell in row) else None


def _is_cell(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, str | bytes | float)
        or (isinstance(value, int) and abs(value) < 2**63)
    )


def _set_aside(path: Path, damaged: Sequence[bytes]) -> None:
    """Keeps what cannot be read beside the file, for a person to look at."""
    if damaged:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        aside = os.open(path.with_suffix(DAMAGED), flags, FILE)
        with os.fdopen(aside, "wb") as out:
            out.writelines(line + b"\n" for line in damaged)


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the records of calls in {path} cannot be read: {error.strerror or error}",
        hint="see to its permissions, or move it away",
    )


def _as_store_error(error: OSError) -> StoreError:
    why, hint = error.strerror or error, "check the disk that holds the workspace, and the permissions there"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        why, hint = "the disk is full", "free some space on the disk that holds the workspace"
    code = errno.errorcode.get(error.errno or 0)
    return StoreError(f"the record of a call could not be written: {why}", hint=hint, details=code)
