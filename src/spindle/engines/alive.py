"""Locks by which workers know that another is dead: each ends with the process or connection that holds it.

They need no signs of life, so a worker whose event loop is busy is not taken for dead, and a death is seen at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.AsyncConnection[tuple[bool]]

AGAIN = 0.2
"""Seconds before the next try to hold the own lock."""
LOOK = 0.5
"""Seconds after which the connection that holds the lock is looked at."""
ANSWER = 5.0
"""Seconds in which a database answers, or counts as lost."""


class Locks(Protocol):
    """The locks of the workers of one workspace, by their ids."""

    def held(self, worker: str) -> AbstractAsyncContextManager[None]:
        """Holds the lock of this worker as long as it is entered. One that is lost is taken again."""
        ...

    def taken_if_dead(self, worker: str) -> AbstractAsyncContextManager[bool]:
        """Enters with True, holding its lock, if another worker is dead."""
        ...


class FileLocks:
    """Locked files, for workers of one machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.asynccontextmanager
    async def held(self, worker: str) -> AsyncGenerator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{worker}.lock"
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            # Another may be just looking if we are dead.
            while not _is_locked(file):  # noqa: ASYNC110 - the file tells nobody
                await asyncio.sleep(AGAIN)
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(file)

    @contextlib.asynccontextmanager
    async def taken_if_dead(self, worker: str) -> AsyncGenerator[bool]:
        path = self._folder / f"{worker}.lock"
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            yield True  # a worker has its file before its first turn: it has ended since
            return
        try:
            is_dead = _is_locked(file)
            yield is_dead
            if is_dead:
                path.unlink(missing_ok=True)
        finally:
            os.close(file)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class PostgresLocks:
    """Advisory locks, held by one connection of each worker."""

    def __init__(self, conninfo: str, schema: str) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._connection: Connection | None = None
        self._using = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def held(self, worker: str) -> AsyncGenerator[None]:
        await self._connect(worker)
        keeping = asyncio.create_task(self._keep(worker), name="lock of this worker")
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            if self._connection is not None:
                await self._connection.close()
                self._connection = None

    async def _keep(self, worker: str) -> None:
        """Looks after the connection, and replaces it when it is lost."""
        import psycopg

        while True:
            await asyncio.sleep(LOOK)
            try:
                async with self._using, asyncio.timeout(ANSWER):
                    if self._connection is not None:
                        await self._connection.execute("SELECT 1")
                        continue
                    await self._connect(worker)
            except (psycopg.Error, TimeoutError):
                connection, self._connection = self._connection, None
                if connection is not None:
                    await connection.close()

    async def _connect(self, worker: str) -> None:
        import psycopg

        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        try:
            # The lock of a machine that is gone without a word must not stay for hours.
            await connection.execute(
                "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3"
            )
            # Another may be just looking if we are dead.
            while not await self._is_ours(connection, worker):  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(AGAIN)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection

    @contextlib.asynccontextmanager
    async def taken_if_dead(self, worker: str) -> AsyncGenerator[bool]:
        async with self._using, asyncio.timeout(ANSWER):
            if self._connection is None:
                yield False  # who has lost the database cannot tell who else has
                return
            is_dead = await self._is_ours(self._connection, worker)
            try:
                yield is_dead
            finally:
                if is_dead:
                    await self._connection.execute(
                        "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (self._name(worker),)
                    )

    async def _is_ours(self, connection: Connection, worker: str) -> bool:
        found = await connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (self._name(worker),)
        )
        row = await found.fetchone()
        return row is not None and row[0]

    def _name(self, worker: str) -> str:
        return f"spindle.worker.{self._schema}.{worker}"
