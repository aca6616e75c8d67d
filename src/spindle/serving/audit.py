"""The audit log of a server: who called, read and listed what, who was refused and why.

Entries are written together, a moment later: no request waits for them. Changes that administrators make are
written with the change itself, by the store.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.audit import MAX_TEXT, AuditEntry
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import from_json, is_object
from spindle.errors import SpindleError
from spindle.listening.addressing import network
from spindle.runs.waits import shown_path

if TYPE_CHECKING:
    from starlette.types import Scope

    from spindle.domain.call import CallRecord
    from spindle.domain.identity import Principal
    from spindle.listening.response import Response
    from spindle.ports.serving_store import AuditStore
    from spindle.ports.source import Note

WRITE_AFTER: Final = 0.1
"""Seconds after which the entries that came meanwhile are written."""
AT_ONCE: Final = 512
MOST: Final = 20_000
"""Entries that wait while the store does not take them. More are counted and lost."""
STRANGERS: Final = 60
"""Requests of one address in a minute that are noted one by one although nobody was identified."""
REFUSALS: Final = frozenset({"permission", "not_found", "rate_limited", "auth"})
"""Outcomes of calls that were never made."""


class AuditLog:
    """Takes the entries of one server and writes them to its store."""

    def __init__(
        self,
        store: AuditStore,
        note: Note,
        *,
        door: str,
        only_refusals: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._note = note
        self.door = door
        self.only_refusals = only_refusals
        self._now = now
        self._waiting: deque[AuditEntry] = deque()
        self._lost = 0
        self._failed = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._strangers: BoundedMap[str, tuple[int, int]] = BoundedMap()
        """By address, the minute of the last refusal and the refusals in it."""

    # --- what is noted

    def called(self, record: CallRecord) -> None:
        """Notes a call that ended."""
        refused = record.outcome in REFUSALS and not record.attempts
        if self.only_refusals and not refused:
            return
        reason = str((record.error or {}).get("message", "")) if refused else ""
        self.add(
            AuditEntry(
                record.started_at, "call", record.tool, record.principal, not refused,
                record.outcome, reason[:MAX_TEXT], self.door, "", record.key,
            )
        )  # fmt: skip

    def did(self, principal: Principal, action: str, target: str, error: BaseException | None = None) -> None:
        """Notes a request that was answered, or ended with this error."""
        if error is None and self.only_refusals:
            return
        outcome = "ok" if error is None else str(getattr(error, "category", "error"))
        refused = error is not None and outcome in REFUSALS
        reason = str(getattr(error, "message", "")) if refused else ""
        self.add(
            AuditEntry(
                self._now(), action, target[:MAX_TEXT], principal.id, not refused, outcome,
                reason[:MAX_TEXT], self.door,
            )
        )  # fmt: skip

    def unknown(
        self, principal: str, tool: str, reason: str = "there is no such tool for this client"
    ) -> None:
        """Notes a call of a tool that does not exist for the client."""
        self.add(
            AuditEntry(
                self._now(), "call", tool[:MAX_TEXT], principal, False, "not_found", reason, self.door
            )
        )  # fmt: skip

    def turned_away(self, scope: Scope, answer: Response, principal: str = "") -> None:
        """Notes a request that was not let in. Of many from one address only some are noted one by one."""
        if answer.status_code < 400:
            return
        client: Any = scope.get("client")
        address = str(client[0]) if client else ""
        more = self._counted(network(address))
        if more is None:
            return
        body: Any = from_json(bytes(answer.body)) if answer.body else {}
        told: dict[str, Any] = body if is_object(body) else {}
        reason = str(told.get("message", ""))[:MAX_TEXT] + more
        target = f"{scope['method']} {shown_path(scope['path'])}"[:MAX_TEXT]
        outcome = str(told.get("category", answer.status_code))
        self.add(
            AuditEntry(self._now(), "enter", target, principal, False, outcome, reason, self.door, address)
        )

    def _counted(self, address: str) -> str | None:
        """Returns words about refusals that were not noted; None if this one is not noted either."""
        minute = int(self._now() // 60)
        before, count = self._strangers.get(address, (minute, 0))
        if before != minute:
            self._strangers[address] = minute, 1
            return f" ({count - STRANGERS} more before were not noted)" if count > STRANGERS else ""
        self._strangers[address] = minute, count + 1
        return "" if count < STRANGERS else None

    # --- writing

    def add(self, entry: AuditEntry) -> None:
        """Takes an entry, to be written soon."""
        if len(self._waiting) >= MOST:
            self._lost += 1
            return
        self._waiting.append(entry)
        self._write_later()

    def _write_later(self) -> None:
        if self._waiting and self._timer is None and self._writing is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_AFTER, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.create_task(self._write_all(), name="writing the audit log")

    async def _write_all(self) -> None:
        try:
            await self._write()
            while len(self._waiting) >= AT_ONCE:
                await self._write()
            self._writing = None
            self._write_later()
        except SpindleError as error:
            if not self._failed:
                self._note(f"the audit log cannot be written, and is kept for later: {error.message}")
            self._failed = True
            self._writing = None
            self._timer = asyncio.get_running_loop().call_later(1.0, self._begin)

    async def _write(self) -> None:
        batch = [self._waiting[number] for number in range(min(len(self._waiting), AT_ONCE))]
        if self._lost:
            reason = f"{self._lost} entries came while the log could not be written, and are lost"
            batch.append(AuditEntry(self._now(), "audit.lost", allowed=False, reason=reason, door=self.door))
        await self._store.append_audit(batch)
        if self._lost:
            self._lost = 0
            batch.pop()
        for _ in batch:
            self._waiting.popleft()
        if self._failed:
            self._failed = False
            self._note("the audit log is written again")

    async def close(self) -> None:
        """Writes what waits. What cannot be written is said to be lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
            if self._timer is not None:
                self._timer.cancel()
        try:
            while self._waiting:
                await self._write()
        except SpindleError as error:
            self._note(f"{len(self._waiting)} entries of the audit log are lost: {error.message}")
