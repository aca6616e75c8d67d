"""Where state lives. One implementation serves all of these protocols."""

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
    """What is known of a source since it was last asked."""

    name: str
    kind: str
    signature: str
    """Of the configuration and, where the source can tell, of its definition."""
    synced_at: float | None
    tool_count: int = 0
    held_count: int = 0
    error: str | None = None
    """Why the last sync failed; the tools are those of the one before."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    source: str | None = None
    kind: str | None = None
    tag: str | None = None
    pattern: str | None = None
    """A glob over the full name."""


class ToolStore(Protocol):
    async def catalog_version(self) -> int:
        """Changes whenever any process changes the stored tools. Cheap: asked on every call."""
        ...

    async def tool(self, name: str) -> Tool | None: ...
    async def names_ending_in(self, local_name: str) -> list[str]: ...
    async def names(self) -> list[str]: ...
    async def tools(self, where: ToolFilter) -> list[ToolSummary]: ...
    async def search(self, query: str, limit: int) -> list[ToolSummary]: ...
    async def stored_tools(self, source: str) -> list[StoredTool]: ...
    async def sources(self) -> dict[str, SourceState]: ...

    async def replace_tools(self, state: SourceState, tools: Sequence[StoredTool]) -> None:
        """Make these the source's tools, in one transaction."""
        ...

    async def note_failure(self, source: str, kind: str, error: str) -> None: ...
    async def forget_source(self, source: str) -> None: ...


class CallStore(Protocol):
    async def save_call(self, record: CallRecord) -> None:
        """Returns once the record would survive the death of this process. Who awaits it may be
        cancelled meanwhile: the record is kept all the same."""
        ...

    async def calls(
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]: ...

    async def call(self, key: str) -> CallRecord | None:
        """By its key, or by a beginning of it that only one record has."""
        ...


class CacheStore(Protocol):
    async def cached(self, key: str, now: float) -> Result | None: ...
    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None: ...
    async def clear_cache(self) -> int: ...


Claim = Literal["claimed", "noted", "unknown", "used", "expired"]
"""What became of an answer to a pause: the run is ours to go on with; another process that executes
the run will find it; there is no such pause; it was answered before; it came too late."""


class RunStore(Protocol):
    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> None:
        """Write the run as it stands, and add events and pauses, in one transaction. A pause that is there
        already, by its token, stays as it is."""
        ...

    async def run(self, id: str) -> Run | None:
        """By its id, or by a beginning of it that only one run has."""
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
        """The newest first."""
        ...

    async def save_events(self, events: Sequence[RunEvent]) -> None:
        """Add these, in one transaction."""
        ...

    async def history(self, run: str) -> list[RunEvent]:
        """In the order in which they were saved."""
        ...

    async def pause(self, token: str) -> Pause | None: ...

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        """The oldest first. `waiting` leaves out those that were answered."""
        ...

    async def claim(
        self, token: str, answer: bytes | None, owner: str, lease_until: float, now: float
    ) -> Claim:
        """Answer a pause, at most once, and take over its run if nobody executes it: one transaction."""
        ...

    async def take_run(self, id: str, owner: str, lease_until: float, now: float) -> bool:
        """Take over a run that nobody executes: it is paused or cancelled, or its owner's lease is over."""
        ...

    async def renew_leases(self, owner: str, lease_until: float) -> None:
        """For all runs that this owner executes."""
        ...


class SecretStore(Protocol):
    """Keeps what others have encrypted."""

    async def secret(self, kind: SecretKind, key: str) -> Secret | None: ...

    async def secrets(self, kind: SecretKind, *, source: str | None = None) -> list[Secret]: ...

    async def save_secret(self, secret: Secret) -> None:
        """In place of what is there under its kind and key."""
        ...

    async def swap_secret(self, old: Secret, new: Secret) -> bool:
        """Replace `old` by `new` if it still is what is stored. False: somebody was faster."""
        ...

    async def delete_secret(self, kind: SecretKind, key: str) -> bool: ...

    async def forget_secrets(self, now: float) -> int:
        """Delete those that have expired."""
        ...


class LeaseStore(Protocol):
    """Locks between processes that end by themselves when their holder dies."""

    async def acquire(self, name: str, owner: str, until: float, now: float) -> bool:
        """True when the lease is ours: it was free, over, or ours before."""
        ...

    async def release(self, name: str, owner: str) -> None: ...


class FileStore(Protocol):
    async def keep(self, data: bytes, mime_type: str | None) -> str:
        """Store binary content and return the path by which a user opens it."""
        ...

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        """The same for content that is still on its way, without holding it in memory. Nothing of it
        stays when `chunks` ends with an error, or who waits is cancelled."""
        ...


class Store(ToolStore, CallStore, CacheStore, RunStore, SecretStore, LeaseStore, Protocol):
    async def close(self) -> None: ...
