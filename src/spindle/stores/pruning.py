"""Removes what the settings no longer want to be kept: records of calls, runs, cached results, files.

Nothing that a paused or running run needs is removed: neither the run with its steps and pauses, nor a file
that its record names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from spindle.domain.identity import LOCAL
from spindle.errors import StoreError
from spindle.stores.files import NAME, FolderFileStore, KeptFile

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.retention import Keep, KeepWhileGood, RetentionConfig
    from spindle.domain.run import Run
    from spindle.ports.source import Note
    from spindle.ports.store import RecordKind, RunStore, Store, StoredEntry

PAGE: Final = 1000
AT_ONCE: Final = 250
"""Records that one transaction removes, if they are small."""
BYTES_AT_ONCE: Final = 1024 * 1024
FILES_AT_ONCE: Final = 100
GRACE: Final = 3600.0
"""Seconds for which a file stays whatever the limits: a call that has not recorded it may need it."""
ABANDONED: Final = 86400.0
"""Seconds after which a file that is not complete was left by a process that died."""
LONGEST_REST: Final = 0.25

T = TypeVar("T")
OnPruned = Callable[["Pruned"], None]


@dataclass(frozen=True, slots=True)
class Pruned:
    """The number of records or files of a kind that went, or would go, and their bytes."""

    kind: str
    count: int = 0
    size: int = 0

    def to_dict(self) -> dict[str, str | int]:
        """Returns it as JSON."""
        return {"kind": self.kind, "count": self.count, "bytes": self.size}


class Pruner:
    """Prunes the state of a workspace bit by bit, resting as long as it works, so that others get through."""

    def __init__(
        self,
        store: Store,
        runs: RunStore,
        files: FolderFileStore,
        sealer: Sealer,
        note: Note,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._runs = runs
        self._files = files
        self._sealer = sealer
        self._note = note
        self._now = now

    async def prune(
        self, config: RetentionConfig, *, dry_run: bool = False, progress: OnPruned | None = None
    ) -> list[Pruned]:
        """Removes what is over the limits and returns what that was; with `dry_run`, only looks."""
        tell = progress or _unheard
        done = [
            await self._prune_records("calls", config.calls, dry_run, tell),
            await self._prune_records("runs", config.runs, dry_run, tell),
            await self._prune_records("events", config.events, dry_run, tell),
            await self._prune_audit(config.audit, dry_run, tell),
            await self._prune_records("cache", config.cache, dry_run, tell),
            await self._prune_files(config.files, dry_run, tell),
        ]
        if not dry_run:
            await self._store.forget_secrets(self._now())
            await self._store.forget_leases()
        return done

    async def give_space_back(self, *, all_at_once: bool = False) -> None:
        """Gives unused space of the store back to the system, a little at a time."""
        while await _resting(self._store.give_space_back(all_at_once=all_at_once)):
            pass

    async def _prune_audit(self, keep: Keep, dry_run: bool, tell: OnPruned) -> Pruned:
        done = await self._prune_records("audit", keep, dry_run, tell)
        if done.count and not dry_run:
            from spindle.domain.audit import AuditEntry

            target = f"{done.count} entries"
            await self._store.append_audit([AuditEntry(self._now(), "audit.prune", target, LOCAL.id)])
        return done

    async def _prune_records(
        self, kind: RecordKind, keep: Keep | KeepWhileGood, dry_run: bool, tell: OnPruned
    ) -> Pruned:
        limits = _Limits.of(keep, self._now(), expires=kind == "cache")
        done, last = Pruned(kind), None
        while page := await _resting(self._store.entries(kind, last, PAGE)):
            last = page[-1]
            doomed = [entry for entry in page if not limits.admit(entry.at, entry.size) and entry.may_go]
            for batch in _batches(doomed):
                count = len(batch) if dry_run else await self._remove(kind, batch)
                # Less than the batch where another process was faster.
                size = sum(entry.size for entry in batch) * count // len(batch)
                done = Pruned(kind, done.count + count, done.size + size)
                tell(done)
        return done

    async def _remove(self, kind: RecordKind, batch: Sequence[StoredEntry]) -> int:
        keys = [entry.key for entry in batch]
        while (removed := await _resting(self._store.remove(kind, keys))).more:
            pass
        return removed.count

    # --- files

    async def _prune_files(self, keep: Keep, dry_run: bool, tell: OnPruned) -> Pruned:
        now = self._now()
        limits, done = _Limits.of(keep, now), Pruned("files")
        doomed: list[KeptFile] = []
        for file in await asyncio.to_thread(self._files.list_kept):
            if file.is_partial:
                fits = file.at > now - ABANDONED
            else:
                fits = limits.admit(file.at, file.size) or file.at > now - GRACE
            if not fits:
                doomed.append(file)
        needed = await self._needed_files(now) if doomed else None
        doomed = [file for file in doomed if needed is not None and not needed(file)]
        for start in range(0, len(doomed), FILES_AT_ONCE):
            batch = doomed[start : start + FILES_AT_ONCE]
            gone = batch if dry_run else await _resting(asyncio.to_thread(self._remove_files, batch))
            done = Pruned("files", done.count + len(gone), done.size + sum(file.size for file in gone))
            tell(done)
        return done

    def _remove_files(self, batch: Sequence[KeptFile]) -> list[KeptFile]:
        try:
            return [file for file in batch if self._files.remove(file)]
        except OSError as error:
            raise StoreError(f"a kept file cannot be removed: {error}") from None

    async def _needed_files(self, now: float) -> Callable[[KeptFile], bool] | None:
        """Returns the test for a file that an open run needs. None, with a note: what one of them needs
        cannot be read here, so nobody can tell."""
        names, since = set[str](), now
        for status in ("paused", "queued", "running"):
            for run in await self._runs.runs(limit=-1, status=status):
                if run.lease is not None and run.lease > 0:
                    # Executing right now: not all that it keeps is on record yet.
                    since = min(since, run.created_at)
                try:
                    names |= await self._named_by(run)
                except StoreError as error:
                    self._note(
                        f"no file was pruned: run {run.id} is {status}, and what it needs cannot be read:"
                        f" {error.message}"
                    )
                    return None
        return lambda file: file.name in names or file.at >= since

    async def _named_by(self, run: Run) -> set[str]:
        pauses = await self._runs.pauses(run=run.id, waiting=False)
        sealed = [event.sealed for event in await self._runs.history(run.id)]
        sealed += [part for pause in pauses for part in (pause.sealed, pause.answer)]

        def names() -> set[str]:
            opened = (self._sealer.peek(part) for part in sealed if part is not None)
            return {name.decode() for text in opened for name in NAME.findall(text)}

        return await asyncio.to_thread(names)


@dataclass(slots=True)
class _Limits:
    """The limits of a kind while it is gone through, the newest first."""

    oldest: float | None
    count: int | None
    size: int | None

    @classmethod
    def of(cls, keep: Keep | KeepWhileGood, now: float, *, expires: bool = False) -> _Limits:
        age = getattr(keep, "age", None)
        oldest = now if expires else None if age is None else now - age
        return cls(oldest, keep.count, keep.size)

    def admit(self, at: float, size: int) -> bool:
        """Counts one more; False if it is over a limit."""
        if self.count is not None:
            self.count -= 1
        if self.size is not None:
            self.size -= size
        too_old = self.oldest is not None and at <= self.oldest
        return (
            not too_old and (self.count is None or self.count >= 0) and (self.size is None or self.size >= 0)
        )


def _batches(doomed: Sequence[StoredEntry]) -> Iterator[list[StoredEntry]]:
    """The entries in parts that are removed in some milliseconds each."""
    batch, size = list["StoredEntry"](), 0
    for entry in doomed:
        if batch and (len(batch) == AT_ONCE or size + entry.size > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def _unheard(_done: Pruned) -> None:
    pass


async def _resting(work: Awaitable[T]) -> T:
    """Waits for the work, and then as long again, for those who want the store too."""
    began = time.monotonic()
    result = await work
    await asyncio.sleep(min(time.monotonic() - began, LONGEST_REST))
    return result
