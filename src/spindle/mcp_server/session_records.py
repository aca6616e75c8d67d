"""Keeps in the store what every process must know of sessions of the handshake era: the things that their
clients have set since the handshake, and which of them have ended."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.auth.details import DetailSealer
    from spindle.mcp_server.session_ids import SessionFacts
    from spindle.ports.store import Store

MAX_RECORDS: Final = 50_000
"""Entries of all sessions. The oldest make room; those of sessions that ended are gone with their ids."""
LOOK_AFTER: Final = 1000
"""Entries that a process writes between two looks at their number."""
CLIENT, LEVEL, WATCHED, ENDED = "client", "level", "watched", "ended"


@dataclass(slots=True)
class SessionRecord:
    """All that is kept of one session."""

    ended: bool = False
    client: JsonObject | None = None
    level: str | None = None
    """The severity of the messages that the client wants to see."""
    watched: set[str] = field(default_factory=set[str])
    """The resources that the client subscribed to."""


class SessionRecords:
    """One entry for each thing that a client set, so that two processes never overwrite each other's."""

    def __init__(self, store: Store, sealer: DetailSealer, now: Callable[[], float]) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now
        self._written = 0

    async def load(self, facts: SessionFacts) -> SessionRecord:
        record = SessionRecord()
        for entry in await self._store.secrets("session", source=facts.key):
            if entry.used:
                record.ended = True
                continue
            try:
                what, value = from_json(self._sealer.open(entry.sealed, f"session {entry.key}"))
            except StoreError:
                continue  # of a key that is gone: the client sets it again
            if what == CLIENT:
                record.client = value
            elif what == LEVEL:
                record.level = value
            elif what == WATCHED:
                record.watched.add(value)
        return record

    async def keep_client(self, facts: SessionFacts, client: JsonObject) -> None:
        await self._save(facts, _name(facts, CLIENT), [CLIENT, client])

    async def set_level(self, facts: SessionFacts, level: str) -> None:
        await self._save(facts, _name(facts, LEVEL), [LEVEL, level])

    async def watch(self, facts: SessionFacts, uri: str) -> None:
        await self._save(facts, _name(facts, WATCHED, uri), [WATCHED, uri])

    async def unwatch(self, facts: SessionFacts, uri: str) -> None:
        await self._store.delete_secret("session", _name(facts, WATCHED, uri))

    async def end(self, facts: SessionFacts) -> None:
        """Notes that a session has ended, for as long as its id would be good."""
        await self._save(facts, _name(facts, ENDED), [], ended=True)
        for entry in await self._store.secrets("session", source=facts.key):
            if not entry.used:
                await self._store.delete_secret("session", entry.key)

    async def _save(
        self, facts: SessionFacts, name: str, entry: list[object], *, ended: bool = False
    ) -> None:
        sealed = self._sealer.seal(to_json(entry), f"session {name}")
        now = self._now()
        kept = Secret("session", name, sealed, facts.key, "", facts.expires, ended, now)
        await self._store.save_secret(kept)
        self._written += 1
        if self._written % LOOK_AFTER == 0:
            await self.prune()

    async def prune(self, most: int = MAX_RECORDS) -> None:
        """Removes the oldest entries where there are too many."""
        entries = [entry for entry in await self._store.secrets("session") if entry.expires_at is not None]
        entries.sort(key=lambda entry: entry.updated_at)
        for entry in entries[: max(0, len(entries) - most)]:
            await self._store.delete_secret("session", entry.key)


def _name(facts: SessionFacts, what: str, which: str = "") -> str:
    mark = f" {hashlib.sha256(which.encode()).hexdigest()[:24]}" if which else ""
    return f"{facts.key} {what}{mark}"
