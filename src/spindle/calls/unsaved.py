"""Records of calls that found the disk full: kept until there is space, while further calls are refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.domain.call import CallRecord
    from spindle.ports.source import Note
    from spindle.ports.store import CallStore

TRY_EVERY = 0.5
"""Seconds between two attempts to write what waits."""
PATIENCE = 1.0
"""Seconds that a call waits for space."""
_FULL = ("SQLITE_FULL", "SQLITE_IOERR", "ENOSPC", "EDQUOT", "EIO", "53100")


def is_full(error: BaseException) -> bool:
    """True if a store says that it cannot write for lack of space."""
    return isinstance(error, StoreError) and str(error.details).startswith(_FULL)


class UnsavedRecords:
    """The records of calls that had been made when the disk was full. No call is made while there are any:
    it would have no record, and its record could be lost."""

    def __init__(self, store: CallStore, note: Note) -> None:
        self._store = store
        self._note = note
        self.records: deque[CallRecord] = deque()
        """Those that wait, the oldest first."""
        self._reason: StoreError | None = None
        self._written = asyncio.Event()
        self._trying: asyncio.Task[None] | None = None

    def add(self, record: CallRecord, reason: StoreError) -> None:
        """Keeps a record, and tries again and again to write it."""
        if not self.records:
            self._note(f"no more calls are made until there is space for their records: {reason.message}")
        self.records.append(record)
        self._written.clear()
        self._reason = reason
        if self._trying is None:
            self._trying = asyncio.create_task(self._try(), name="records that found the disk full")

    async def wait_for_space(self) -> None:
        """Waits a moment for space. Raises StoreError if there is none: so that those who try again at once
        do not keep the process busy with refusing them."""
        if not self.records:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._written.wait()
        if self.records and self._reason is not None:
            raise StoreError(
                f"the call was not made, since it could not be recorded: {self._reason.message}",
                hint=self._reason.hint, retry_after=1.0, sent=False, details=self._reason.details,
            )  # fmt: skip

    async def close(self) -> None:
        """Tries once more to write what waits, and says how much is lost."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
            await self._write()
        if self.records:
            self._note(f"{len(self.records)} calls could not be recorded: {self._reason}")

    async def _try(self) -> None:
        while self.records:
            await asyncio.sleep(TRY_EVERY)
            await self._write()
        self._trying = None
        self._note("there is space again, and calls are made and recorded")

    async def _write(self) -> None:
        while self.records:
            record = self.records[0]
            try:
                await self._store.save_call(record)
            except StoreError as error:
                self._reason = error
                if is_full(error):
                    return
                self._note(f"the call of {record.tool} could not be recorded: {error}")
            self.records.popleft()
        self._written.set()
