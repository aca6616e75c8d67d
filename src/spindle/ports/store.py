"""The ports of everything that keeps state. One implementation serves all of these protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast

from spindle.domain.call import CallRecord, Result
from spindle.domain.finding import ToolFinding
from spindle.domain.identity import Secret, SecretKind
from spindle.domain.tool import Effect, LeftOut, Loosened, Tool, ToolSummary
from spindle.errors import StoreError
from spindle.ports.run_store import LEASE as LEASE
from spindle.ports.run_store import Claim as Claim
from spindle.ports.run_store import RunStore, TraceStore
from spindle.ports.schedule_store import ScheduleStore
from spindle.ports.serving_store import AccessStore, AuditStore, QuotaStore
from spindle.ports.trigger_store import TriggerStore
from spindle.ports.vector_store import VectorStore


class _Done:
    def __await__(self) -> Iterator[Any]:
        return iter(())


DONE: Final = cast("Awaitable[None]", _Done())
"""Stands for something that is done. It may be awaited, and need not be."""


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
    left_out: tuple[LeftOut, ...] = ()
    """The tools that the source listed and that cannot be used."""
    loosened: tuple[Loosened, ...] = ()
    """The tools of whose schemas something was dropped."""
    instructions: str | None = None  # how its tools are meant to be used, in its own words
    findings: tuple[ToolFinding, ...] = ()  # texts of its tools that should not be believed
    server: str | None = None  # the name and version of the program behind it


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """The conditions that listed tools must all meet. None: any."""

    source: str | None = None
    kind: str | None = None
    tag: str | None = None
    pattern: str | None = None
    """A glob over the full name."""
    effect: Effect | None = None
    """The effect that they promise."""


Pins = Mapping[str, str]
"""By tool, the fingerprint of the definition that a person has accepted."""


@dataclass(frozen=True, slots=True)
class PinChange:
    """The pins of a source as they were read, and as they are to be. None: it is not pinned."""

    before: Pins | None
    after: Pins | None


class ToolStore(Protocol):
    """Keeps the tools of all sources, and finds them by name and by words."""

    async def catalog_version(self) -> int:
        """Returns a number that changes with the stored tools, whoever changes them. Asked on every call."""
        ...

    def version_at_once(self) -> int | None:
        """Returns the same number if it can be read without waiting; else None."""
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

    async def names_by_source(self) -> dict[str, list[str]]:
        """Returns the same names, sorted, by their source; only sources that have some."""
        ...

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        """Returns the tools that fit the filter, by name."""
        ...

    async def search(self, query: str, limit: int) -> list[ToolSummary]:
        """Returns the tools that fit the words best, best first, each with how much of the query it says."""
        ...

    async def stored_tools(self, source: str) -> list[StoredTool]:
        """Returns all tools of a source, also those that nobody has accepted."""
        ...

    async def sources(self, only: str | None = None) -> dict[str, SourceState]:
        """Returns the states of all sources that were ever asked, by name, or of one of them."""
        ...

    async def pins(self, source: str) -> Pins | None:
        """Returns the pins of a source; None where it is not pinned."""
        ...

    async def replace_tools(
        self, state: SourceState, tools: Sequence[StoredTool], pins: PinChange | None = None
    ) -> bool:
        """Makes these the source's tools, in one transaction. False, and nothing is changed, where its pins
        are no longer what they were. Without `pins` they stay as they are."""
        ...

    async def note_synced(self, state: SourceState) -> None:
        """Keeps that a source was read and has the tools that are stored of it. The version stays."""
        ...

    async def note_failure(self, source: str, kind: str, error: str) -> None:
        """Keeps the reason why a source could not be read. Its tools stay."""
        ...

    async def forget_source(self, source: str) -> None:
        """Deletes a source with all its tools and pins."""
        ...


class Seal(Protocol):
    """Encrypts details for one place in the store, and opens them again."""

    def seal(self, data: bytes, place: str) -> bytes:
        """Returns the data, encrypted."""
        ...

    def open(self, stored: bytes, place: str) -> bytes:
        """Returns what was encrypted for this place, or what was stored in clear. Raises StoreError for what
        cannot be opened."""
        ...


DetailForm = Literal["sealed", "clear", "off"]
"""The form in which details are kept: encrypted, as they are, or not at all."""


class SealedStore(Protocol):
    """Encrypts the details of what it keeps: arguments, errors and results of calls, and cached results."""

    def seal_with(self, seal: Seal) -> None:
        """Encrypts details with this from now on, and opens what was encrypted. What was kept in clear before
        stays readable."""
        ...

    def keep_details(self, *, history: DetailForm, cache: DetailForm) -> None:
        """Keeps the details of records and cached results in these forms from now on: sealed if nothing is
        said."""
        ...


@dataclass(frozen=True, slots=True)
class CallFilter:
    """The conditions that listed calls must all meet. None: any."""

    source: str | None = None
    principal: str | None = None
    since: float | None = None
    until: float | None = None
    slower: float | None = None
    """Seconds that a call took at least."""
    run: str | None = None
    before: str | None = None
    """The key of a call: only those that are older are listed, for the next page."""


ANY_CALL: Final = CallFilter()


@dataclass(frozen=True, slots=True)
class CallTiming:
    """As much of a call as charts show."""

    started_at: float
    duration: float
    outcome: str


class CallStore(Protocol):
    """Keeps the records of calls."""

    def save_call(self, record: CallRecord, *, together: bool = False) -> Awaitable[None]:
        """Waits until the record would survive the death of this process; `DONE` if it would already. If the
        awaiting task is cancelled meanwhile, the record is kept all the same. `together`: others are about
        to come, with which it may share the work."""
        ...

    async def calls(
        self,
        *,
        limit: int,
        tool: str | None = None,
        outcome: str | None = None,
        where: CallFilter = ANY_CALL,
    ) -> list[CallRecord]:
        """Returns records, the newest first."""
        ...

    async def call_timings(
        self, *, limit: int, since: float, principal: str | None = None, source: str | None = None
    ) -> list[CallTiming]:
        """Returns the times of the calls since then among the `limit` newest of all, the newest first."""
        ...

    async def call(self, key: str) -> CallRecord | None:
        """Returns the record with this key, or with a key that begins so if only one does."""
        ...


class CacheStore(Protocol):
    """Keeps results for as long as they stay good."""

    async def cached(self, key: str, now: float, ttl: float | None = None) -> Result | None:
        """Returns the result kept under this key, unless it has expired. One that lasts for more than `ttl`
        seconds is not good any more: since it was kept, the clock was set back, or the settings changed."""
        ...

    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None:
        """Keeps a result under a key until it expires."""
        ...

    async def clear_cache(self) -> int:
        """Deletes all results and returns how many there were."""
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

    async def swap_secret(self, old: Secret, new: Secret | None) -> bool:
        """Replaces `old` by `new`, or removes it, if `old` is still what is stored. False: somebody else was
        faster."""
        ...

    async def delete_secret(self, kind: SecretKind, key: str) -> bool:
        """Deletes a secret and returns True if there was one."""
        ...

    async def forget_secrets(self, now: float) -> int:
        """Deletes secrets that have expired and returns how many there were."""
        ...


class LeaseStore(Protocol):
    """Keeps locks between processes that end by themselves when their holder dies."""

    async def acquire(self, name: str, owner: str, lease: float) -> bool:
        """Returns True when the lease is ours for so many seconds: it was free, had ended, or was ours
        before."""
        ...

    async def release(self, name: str, owner: str) -> None:
        """Gives a lease back before it ends."""
        ...


RecordKind = Literal["calls", "runs", "events", "cache", "audit"]
"""The kinds of record that grow with use, and are pruned. `events` are those of `TraceStore`; the events of a
run go with it."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One record as far as pruning looks at it."""

    place: float
    """The order in which records of a kind are gone through, the newest first."""
    key: int | str
    at: float
    """When it was made; of a run, when it last changed; of a cached result, when it expires."""
    size: int
    """Bytes, about."""
    may_go: bool
    """False for a run that is paused or running: it is never removed."""


class RetentionStore(Protocol):
    """Goes through what was recorded, and removes it bit by bit."""

    async def entries(self, kind: RecordKind, after: StoredEntry | None, limit: int) -> list[StoredEntry]:
        """Returns the next entries after this one, the newest first."""
        ...

    async def remove(self, kind: RecordKind, keys: Sequence[int | str]) -> Removed:
        """Removes the records with these keys, as far as they may go by now, in one short transaction. A run
        goes with its events and pauses."""
        ...

    async def forget_leases(self) -> int:
        """Deletes leases that have ended and returns how many there were."""
        ...

    async def size(self) -> int:
        """Returns the bytes that all of it takes, about."""
        ...

    async def give_space_back(self, *, all_at_once: bool = False) -> bool:
        """Gives a part of the unused space back to the system, and returns True while there is more.
        `all_at_once`: also where that takes rewriting the whole store, while others wait."""
        ...


@dataclass(frozen=True, slots=True)
class Removed:
    """The effect of removing records."""

    count: int
    more: bool = False
    """True if the same must be asked for again: there was too much for one short transaction."""


class Store(
    ToolStore,
    CallStore,
    CacheStore,
    RunStore,
    ScheduleStore,
    TriggerStore,
    TraceStore,
    SecretStore,
    LeaseStore,
    RetentionStore,
    AuditStore,
    AccessStore,
    QuotaStore,
    SealedStore,
    VectorStore,
    Protocol,
):
    """All of these ports at once, except for files."""

    async def newer(self) -> StoreError | None:
        """Returns the error to end with if a newer Spindle has changed the form of what is stored since this
        one opened it."""
        ...

    async def close(self) -> None:
        """Writes all that is not written yet, and closes the store."""
        ...
