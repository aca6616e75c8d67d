"""The ports of everything that keeps state. One implementation serves all of these protocols."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from spindle.domain.call import CallRecord, Result
from spindle.domain.identity import Secret, SecretKind
from spindle.domain.run import Pause, Run, RunEvent, RunStatus
from spindle.domain.tool import Tool, ToolSummary


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A tool as stored. `held` is a newer definition that waits for a person to accept it; a tool
    that was never accepted has no `current`."""

    name: str
    current: Tool | None
    held: Tool | None = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source as of its last sync."""

    name: str
    kind: str
    signature: str
    """Of the configuration and, where the source can tell, of its definition."""
    synced_at: float | None
    tool_count: int = 0
    held_count: int = 0
    error: str | None = None
    """The reason why the last sync failed; the tools are those of the one before."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """The conditions that listed tools must all meet. None: any."""

    source: str | None = None
    kind: str | None = None
    tag: str | None = None
    pattern: str | None = None
    """A glob over the full name."""


class ToolStore(Protocol):
    """Keeps the tools of all sources, and finds them by name and by words."""

    async def catalog_version(self) -> int:
        """Returns a number that changes with the stored tools, whoever changes them. Asked on every call."""
        ...

    async def tool(self, name: str) -> Tool | None:
        """Returns the accepted tool of this full name."""
        ...

    async def names_ending_in(self, local_name: str) -> list[str]:
        """Returns the full names of which this is the last part."""
        ...

    async def names(self) -> list[str]:
        """Returns the full names of all accepted tools."""
        ...

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        """Returns the tools that fit the filter, by name."""
        ...

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        """Returns the tools that fit the words best, best first."""
        ...

    async def stored_tools(self, source: str) -> list[StoredTool]:
        """Returns all tools of a source, also those that nobody has accepted."""
        ...

    async def sources(self) -> dict[str, SourceState]:
        """Returns the states of all sources that were ever asked, by name."""
        ...

    async def replace_tools(self, state: SourceState, tools: Sequence[StoredTool]) -> None:
        """Makes these the source's tools, in one transaction."""
        ...

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        """Keeps the reason why a source could not be read. Its tools stay."""
        ...

    async def forget_source(self, source: str) -> None:
        """Deletes a source with all its tools."""
        ...


class CallStore(Protocol):
    """Keeps the records of calls."""

    async def save_call(self, record: CallRecord) -> None:
        """Returns once the record would survive the death of this process. If the awaiting task is cancelled
        meanwhile, the record is kept all the same."""
        ...

    async def calls(
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        """Returns records, the newest first."""
        ...

    async def call(self, key: str) -> CallRecord | None:
        """Returns the record with this key, or with a key that begins so if only one does."""
        ...


class CacheStore(Protocol):
    """Keeps results for as long as they stay good."""

    async def cached(self, key: str, now: float) -> Result | None:
        """Returns the result kept under this key, unless it has expired."""
        ...

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        """Keeps a result under a key until it expires."""
        ...

    async def clear_cache(self) -> int:
        """Deletes all results and returns how many there were."""
        ...


Claim = Literal["claimed", "noted", "unknown", "used", "expired"]
"""The effect of an answer to a pause: the run is ours to continue; another process that executes the run
will find it; there is no such pause; it was answered before; it came too late."""


class RunStore(Protocol):
    """Keeps runs, their events, and the pauses in which they wait for people."""

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        """Writes the run as it stands, and adds events and pauses, in one transaction. A pause that is
        already stored, by its token, stays as it is."""
        ...

    async def run(self, id: str) -> Run | None:
        """Returns the run with this id, or with an id that begins so if only one does."""
        ...

    async def runs(
        self,
        *,
        limit: int,
        status: RunStatus | None = None,
        principal: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[Run]:
        """Returns runs, the newest first."""
        ...

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        """Adds these events, in one transaction."""
        ...

    async def history(self, run: str) -> list[RunEvent]:
        """Returns a run's events in the order in which they were saved."""
        ...

    async def pause(self, token: str) -> Pause | None:
        """Returns the pause with this token, answered or not."""
        ...

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        """Returns pauses, the oldest first. `waiting` leaves out those that were answered."""
        ...

    async def claim(
        self, token: str, answer: bytes | None, owner: str, lease_until: float, now: float
    ) -> Claim:
        """Answers a pause, at most once, and takes over its run if nobody executes it: one transaction."""
        ...

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        """Takes over a run that nobody executes: it is paused or cancelled, or its owner's lease ended."""
        ...

    async def renew_leases(self, owner: str, lease_until: float) -> None:
        """Renews the leases of all runs that this owner executes."""
        ...


class SecretStore(Protocol):
    """Keeps secrets that its callers have encrypted."""

    async def secret(self, kind: SecretKind, key: str) -> Secret | None:
        """Returns the secret of this kind and key."""
        ...

    async def secrets(self, kind: SecretKind, *, source: str | None = None) -> list[Secret]:
        """Returns all secrets of a kind, or those of one source."""
        ...

    async def save_secret(self, secret: Secret) -> None:
        """Stores a secret in place of the one with its kind and key."""
        ...

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        """Replaces `old` by `new` if `old` is still what is stored. False: somebody else was faster."""
        ...

    async def delete_secret(self, kind: SecretKind, key: str) -> bool:
        """Deletes a secret and returns True if there was one."""
        ...

    async def forget_secrets(self, now: float) -> int:
        """Deletes secrets that have expired and returns how many there were."""
        ...


class LeaseStore(Protocol):
    """Keeps locks between processes that end by themselves when their holder dies."""

    async def acquire(self, name: str, owner: str, until: float, now: float) -> bool:
        """Returns True when the lease is ours: it was free, had ended, or was ours before."""
        ...

    async def release(self, name: str, owner: str) -> None:
        """Gives a lease back before it ends."""
        ...


class FileStore(Protocol):
    """Keeps binary content that is too large for a result."""

    async def keep(self, data: bytes, mime_type: str | None) -> str:
        """Stores binary content and returns the path by which a user opens it."""
        ...

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        """Stores content that is still arriving, without holding it in memory, and returns its path.
        Nothing of it stays when `chunks` ends with an error or the awaiting task is cancelled."""
        ...


class Store(ToolStore, CallStore, CacheStore, RunStore, SecretStore, LeaseStore, Protocol):
    """All of these ports at once, except for files."""

    async def close(self) -> None:
        """Writes all that is not written yet, and closes the store."""
        ...
