"""The ports of what servers of one workspace share: the audit log, and what administrators change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spindle.domain.access_entry import AccessEntry, AccessKind
from spindle.domain.audit import AuditEntry, AuditFilter


class AuditStore(Protocol):
    """Keeps the audit log. Nothing changes an entry; pruning removes the oldest."""

    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Adds entries, in one transaction."""
        ...

    async def audit(self, where: AuditFilter, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        """Returns entries, the newest first; with `after`, those that came after the one with this id, the
        oldest first."""
        ...


class AccessStore(Protocol):
    """Keeps the tokens, groups and quotas that administrators made. Every change is one of the audit log too,
    in the same transaction."""

    async def access_version(self) -> int:
        """Returns a number that changes with the entries, whoever changes them."""
        ...

    async def access_entries(self) -> list[AccessEntry]:
        """Returns all entries, by kind and name."""
        ...

    async def put_access_entry(self, entry: AccessEntry, audit: AuditEntry, *, new: bool = False) -> bool:
        """Keeps an entry in place of the one of its kind and name. With `new`, False and nothing is changed
        if there is one."""
        ...

    async def delete_access_entry(self, kind: AccessKind, name: str, audit: AuditEntry) -> bool:
        """Deletes an entry. False, and nothing is changed, if there is none."""
        ...
