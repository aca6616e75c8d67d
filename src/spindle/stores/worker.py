"""A thread that owns a SQLite connection, so that a lock held elsewhere never stops the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from spindle.errors import StoreAwayError, StoreError

T = TypeVar("T")

MAX_BATCH = 256


@dataclass(slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    outcome: Any = None
    error: BaseException | None = None


class Worker:
    """Runs functions on its own connection, in order.

    With `transactions`, all functions that wait at one moment share one commit: a hundred parallel
    calls are recorded with one, and each still returns only after it.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, name: str, transactions: bool) -> None:
        self._connect = connect
        self._name = name
        self._transactions = transactions
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a function with the connection in the thread and returns its result."""
        if self._closed:
            raise StoreError("the store was closed", hint="open Spindle again")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, future))
        return await future

    async def close(self) -> None:
        """Finishes the waiting work, then ends the thread."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _serve(self) -> None:
        connection: sqlite3.Connection | None = None
        open_ = True
        while open_:
            batch: list[_Job] = []
            job = self._jobs.get()
            while True:
                if job is None:
                    open_ = False
                    break
                batch.append(job)
                if not self._transactions or len(batch) >= MAX_BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            if batch:
                try:
                    connection = connection or self._connect()
                    self._run_batch(connection, batch)
                except BaseException as error:  # noqa: BLE001 - a thread's top: handed to those who wait
                    for job in batch:
                        job.error = error
                _answer(batch)
        if connection is not None:
            connection.close()

    def _run_batch(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        if not self._transactions:
            for job in batch:
                _run_job(connection, job)
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            for job in batch:
                connection.execute("SAVEPOINT job")
                _run_job(connection, job)
                if job.error is not None:
                    if not connection.in_transaction:
                        raise job.error  # such as a full disk: SQLite has undone the whole batch
                    connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def _run_job(connection: sqlite3.Connection, job: _Job) -> None:
    try:
        job.outcome = job.work(connection)
    except Exception as error:  # noqa: BLE001 - belongs to the one who asked, who gets it
        job.error = error


def _answer(batch: list[_Job]) -> None:
    loops = {job.future.get_loop() for job in batch}
    for loop in loops:
        jobs = [job for job in batch if job.future.get_loop() is loop]
        with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits any more
            loop.call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(as_store_error(job.error))
        else:
            job.future.set_result(job.outcome)


_HINTS = {
    "SQLITE_FULL": "free some space on the disk that holds the workspace",
    "SQLITE_IOERR": "check the disk that holds the workspace, and its free space",
    "SQLITE_READONLY": "the state file or its folder cannot be written; check its permissions",
    "SQLITE_CANTOPEN": "the state file or its folder cannot be opened; check its permissions",
    "SQLITE_BUSY": "another process holds the state file; try again",
    "SQLITE_NOTADB": "the state file is damaged; move it away and run `spindle sync`",
    "SQLITE_CORRUPT": "the state file is damaged; move it away and run `spindle sync`",
}


def as_store_error(error: BaseException) -> BaseException:
    """The error of SQLite as a StoreError with a hint; any other error as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code: str = getattr(error, "sqlite_errorname", "")
    # The name may say more than is needed here: SQLITE_IOERR_WRITE, SQLITE_READONLY_DIRECTORY.
    hint = next((hint for name, hint in _HINTS.items() if code.startswith(name)), None)
    kind = StoreAwayError if code.startswith("SQLITE_BUSY") else StoreError
    return kind(f"the workspace's state could not be used: {error}", hint=hint, details=code or None)
