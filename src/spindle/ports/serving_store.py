"""The ports of what servers of one workspace share: the audit log, and what administrators change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Some of a quota that fills again steadily. `seconds` is the time in which what is taken comes back, and
    `room` that in which an empty quota is whole."""

    key: str
    seconds: float
    room: float


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """One of `most` places."""

    key: str
    most: int


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """The quota that has not enough left, and the seconds until it has."""

    key: str
    wait: float


class QuotaStore(Protocol):
    """Counts what principals use, for all processes that share the store."""

    is_server: bool
    """True for a database that processes on several machines share."""

    async def take_quota(
        self, uses: Sequence[QuotaUse], holds: Sequence[QuotaHold], holder: str, lease: float, now: float
    ) -> QuotaRefusal | None:
        """Takes all of it, and the places for `lease` seconds, or nothing. A quota that is whole gives also
        more than it has."""
        ...

    async def charge_quota(self, use: QuotaUse, now: float) -> None:
        """Takes what was used already, also if that is more than there was."""
        ...

    async def renew_quota_holds(self, holders: Sequence[str], lease: float, now: float) -> None:
        """Keeps the places of these holders for longer."""
        ...

    async def release_quota_holds(self, holder: str) -> None:
        """Gives the places of a holder back."""
        ...

    async def forget_quotas(self, now: float) -> None:
        """Deletes what says no more than that a quota is whole, and places of the dead."""
        ...
