"""Writes the records of calls, in SQLite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from spindle.errors import StoreError
from spindle.ports.store import DONE
from spindle.stores.spool import (
    INSERT,
    MAX_ROW,
    Row,
    Spool,
    folder_of,
    has_records,
    line_of,
    move,
    move_own,
)
from spindle.stores.sqlite_at_once import WritesAtOnce
from spindle.stores.worker import Worker

FEW: Final = 16
"""Records of a process that go straight into the table: most commands make no more calls than that, and a
file of their own would be more work."""
GROUP: Final = 512
"""Records that are moved into the table together, in a thread: that takes some milliseconds."""
MOVE_AFTER: Final = 1.0
"""Seconds that a record stays in the file, if not so many come that they are moved before."""


class CallRows:
    """Writes the rows of call records. Each `save` returns only after its row would survive this process."""

    def __init__(self, database: str | None, at_once: WritesAtOnce, writer: Worker) -> None:
        self._at_once = at_once
        self._writer = writer
        self._folder: Path | None = folder_of(database) if database is not None else None
        self._spool = Spool(self._folder) if self._folder is not None else None
        self._count = self._unmoved = 0
        self._waiting: list[tuple[bytes, Row, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._moving: asyncio.Task[None] | None = None

    def save(self, row: Row, *, together: bool) -> Awaitable[None]:
        """Raises StoreError at once, or when it is awaited. `together`: it waits for others of this turn of
        the event loop, so that all are written at once and all who wait go on at once."""
        if self._spool is None:
            return self._through_thread(row)
        self._count += 1
        if self._count <= FEW:
            return DONE if self._at_once.insert(INSERT.one, row) else self._through_thread(row)
        line = line_of(row)
        if line is None or len(line) > MAX_ROW:
            return self._through_thread(row)
        if not together:
            self._append(line, (row,))
            return DONE
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._append_waiting)
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((line, row, written))
        return written

    def _append_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        problem: StoreError | None = None
        try:
            self._append(b"".join([line for line, _, _ in waiting]), [row for _, row, _ in waiting])
        except StoreError as error:
            problem = error
        for _, _, written in waiting:
            if written.done():
                continue
            if problem is None:
                written.set_result(None)
            else:
                written.set_exception(problem)

    def _append(self, lines: bytes, rows: Sequence[Row]) -> None:
        assert self._spool is not None
        is_long = self._spool.append(lines, rows)
        self._unmoved += len(rows)
        if is_long:
            self._spool.close()
        if is_long or self._unmoved >= GROUP:
            self._move_now()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOVE_AFTER, self._move_now)

    async def settle(self) -> None:
        """Waits until all records that there are, of all processes, can be read in the table."""
        folder = self._folder
        while folder is not None and has_records(folder):
            if not await self._writer.run(lambda db: move(db, folder)):
                return

    async def settle_to_read(self) -> None:
        """The same for those who look: on a full disk they see what is in the table."""
        try:
            await self.settle()
        except StoreError as error:
            if error.details != "SQLITE_FULL":
                raise

    async def close(self) -> None:
        """Moves what is in the file. If that fails, whoever comes next does it."""
        if self._waiting:
            self._append_waiting()
            await asyncio.sleep(0)
        spool, self._spool = self._spool, None  # from here on nothing more is moved in groups
        if self._timer is not None:
            self._timer.cancel()
        if self._moving is not None:
            await asyncio.gather(self._moving, return_exceptions=True)
        if spool is not None:
            spool.close()
            if self._count > FEW:
                with contextlib.suppress(StoreError):
                    await self.settle()

    def _move_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._moving is None or self._moving.done():
            self._moving = asyncio.ensure_future(self._move())

    async def _move(self) -> None:
        # They are safe where they are. Who reads the table moves them too, and is told why that fails.
        with contextlib.suppress(StoreError):
            while self._spool is not None and self._unmoved:
                own, self._unmoved = self._spool.take(), 0
                if own is None or not await self._writer.run(partial(move_own, own=own)):
                    await self.settle()
                if self._unmoved < GROUP:
                    break
        if self._spool is not None and self._unmoved and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOVE_AFTER, self._move_now)

    async def _through_thread(self, row: Row) -> None:
        await self._writer.run(lambda db: db.execute(INSERT.one, row) and None)
