"""The database in which DBOS keeps turns, and the names under which it does."""

from __future__ import annotations

import contextlib
import select
import sqlite3
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.engines.alive import FileLocks, Locks, PostgresLocks

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy

APPLICATION = "spindle"
VERSION = "1"
"""Of what a turn is. DBOS would take a digest of the source code, and an edit would leave turns behind."""
WORKFLOW = "turn"
BEGUN = "PENDING"
UNFINISHED = ["ENQUEUED", "DELAYED", BEGUN]
CONNECTIONS = 5
NOTICED = {"keepalives_idle": 3, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
"""As libpq calls them: of connections that wait for hours, and some that nobody asks anything."""
THREAD = "spindle-engine"
BUSY = 30.0
"""Seconds that writers wait for each other, in SQLite."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """The database of an engine: the connection string and schema of PostgreSQL, or the file of SQLite."""

    conninfo: str | None
    schema: str | None
    file: Path

    @classmethod
    def of(cls, conninfo: str | None, schema: str | None, file: Path) -> EnginePlace:
        """Has connections notice within seconds that their cable has no end."""
        if conninfo is None:
            return cls(None, schema, file)
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        usual = {name: value for name, value in NOTICED.items() if name not in conninfo_to_dict(conninfo)}
        return cls(make_conninfo(conninfo, **usual), schema, file)

    def locks(self) -> Locks:
        if self.conninfo is None:
            return FileLocks(self.file.parent / "workers")
        return PostgresLocks(self.conninfo, self.schema or "")

    def engine(self) -> sqlalchemy.Engine:
        """The connections for DBOS, which takes an engine of SQLAlchemy as it is."""
        import sqlalchemy
        from sqlalchemy import event

        if self.conninfo is not None:
            import psycopg

            conninfo = self.conninfo
            engine = sqlalchemy.create_engine(
                "postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo),
                pool_size=CONNECTIONS, max_overflow=0,
            )  # fmt: skip
            event.listen(engine, "checkout", _refuse_lost)
            return engine
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file.touch(mode=0o600)
        engine = sqlalchemy.create_engine(
            f"sqlite:///{self.file}", pool_size=CONNECTIONS, max_overflow=0, connect_args={"timeout": BUSY}
        )

        def set_up(connection: sqlite3.Connection, _: Any) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            # Writers wait for each other at the beginning of a transaction, where that is no deadlock.
            connection.isolation_level = "IMMEDIATE"

        event.listen(engine, "connect", set_up)
        return engine


def _refuse_lost(connection: psycopg.Connection, *_: Any) -> None:
    """Has the pool replace a connection that was lost while nobody used it. To ask the server each time, as
    SQLAlchemy would, costs as much as a statement."""
    import sqlalchemy.exc

    watch = select.poll()
    watch.register(connection.pgconn.socket, select.POLLIN)
    if watch.poll(0):  # it says something unasked: usually that it has hung up
        raise sqlalchemy.exc.DisconnectionError


def close_all(engine: sqlalchemy.Engine) -> None:
    """Closes the connections, and those that a thread still has in hand as soon as it gives them back: the
    pool would keep these for nobody."""
    from sqlalchemy import event

    def close(_: Any, record: Any) -> None:
        record.invalidate()

    event.listen(engine, "checkin", close)
    engine.dispose()


@contextlib.contextmanager
def whole(engine: sqlalchemy.Engine) -> Generator[None]:
    """Has tables of SQLite be made wholly or not at all, and by one process at a time: a transaction would
    else begin with the first row that is written, after some tables are there."""
    from sqlalchemy import event

    def begin(connection: sqlalchemy.Connection) -> None:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", begin)
    try:
        yield
    finally:
        event.remove(engine, "begin", begin)
