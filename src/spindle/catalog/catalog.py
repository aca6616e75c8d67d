"""All tools under one set of names. Opens from the store; contacts a source only to sync it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from spindle.catalog.connections import Connections
from spindle.catalog.diff import SyncReport, merge, synced_together
from spindle.catalog.discovery import ToolDiscovery
from spindle.catalog.naming import Sees, name_tools, not_found, sees_all
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.tool import Tool, ToolSummary
from spindle.errors import (
    AuthError,
    AuthorizationRequired,
    NameConflictError,
    NotFoundError,
    SpindleError,
    StoreError,
    suggest,
)
from spindle.ports.store import SourceState, ToolFilter, ToolStore
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.catalog.sources import SourceSet
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.source import Note, Session

Listener = Callable[[SyncReport], None]


class Catalog:
    """All tools of a workspace: found by name, searched, and kept up to date with their sources."""

    def __init__(self, sources: SourceSet, store: ToolStore, credentials: Credentials, note: Note) -> None:
        self.sources = sources
        self._store = store
        self._credentials = credentials
        self._note = note
        self.connections = Connections(self._source_changed, sources.workspace)
        self._discovery = ToolDiscovery(self.connections, credentials, note)
        self._known: dict[str, Tool] = {}
        self._version = -1
        self._marks: dict[str, str] = {}
        """By source, the signature that its stored tools stand for."""
        self._failed: dict[str, str] = {}
        """By source, the signature with which it last could not be read."""
        self._reasons: dict[str, JsonObject] = {}
        """By source, why it last could not be read, as data."""
        self.conflicts: dict[str, NameConflictError] = {}
        """By source, why its tools could not be taken: another has one of the same name."""
        self._listeners: list[Listener] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._dirty: set[str] = set()
        self._refreshes: dict[str, asyncio.Task[None]] = {}
        self._syncing: dict[str, asyncio.Lock] = {}
        self._pending: dict[tuple[str, str], asyncio.Task[SyncReport]] = {}
        self._synced_as: dict[str, Principal] = {}
        """By source, on whose behalf it was last asked; a refresh asks in the same name."""

    async def open(self) -> None:
        """Forgets sources that are no longer configured, and reads what the stored tools stand for."""
        for name, state in (await self._store.sources()).items():
            # One that was synced since the settings were read was added meanwhile, by another process.
            added_since = state.synced_at is not None and state.synced_at > self.sources.read_at
            if name not in self.sources.names and not added_since:
                await self._store.forget_source(name)
        await self._see_other_processes()

    async def close(self) -> None:
        """Ends all refreshes and closes all sessions."""
        tasks: list[asyncio.Task[Any]] = [*self._refreshes.values(), *self._pending.values(), *self._closing]
        for task in tasks:
            task.cancel()
        await self.connections.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- looking

    async def find(self, name: str, principal: Principal = LOCAL, sees: Sees = sees_all) -> Tool:
        """The tool of this full name, or of this last part where only one has it. A source that has to be
        asked for its tools first is asked on behalf of the principal, whose consent that may take.
        What `sees` hides is as if it were not there, also where names are suggested."""
        tool = await self._lookup(name, sees)
        if tool is not None:
            stale = await self._freshen([tool.source], principal, local_only=True)
        elif "." in name and not sees(name):
            raise await not_found(self._store, name, sees)
        else:
            named = name.partition(".")[0]
            if named in self.sources.names:
                # Asked for by name, so it is tried again even if it could not be read before.
                self._failed.pop(named, None)
                stale = await self._freshen([named], principal, may_interrupt=True)
            else:
                stale = await self._freshen(self.sources.names, principal)
        if stale or tool is None:
            # Also when nothing was stale: another call may have synced the source since the first look.
            tool = await self._lookup(name, sees)
        if tool is None:
            raise await not_found(self._store, name, sees, self._reasons)
        return tool

    async def version(self) -> int:
        """A number that changes whenever the tools change, in any process."""
        return await self._store.catalog_version()

    async def look_again(self) -> None:
        """Take note of what other processes changed, and of edits to definitions on this machine."""
        await self._see_other_processes()
        await self._freshen(self.sources.names, local_only=True)

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        """Returns the tools that fit the filter, after a look at definitions on this machine."""
        await self.look_again()
        return await self._store.tools(where)

    async def whole_tools(self, where: ToolFilter) -> list[Tool]:
        """The same, each with all that is known of it; not those that nobody has accepted yet."""
        wanted = {summary.name: summary.source for summary in await self.tools(where)}
        found: list[Tool] = []
        for source in sorted(set(wanted.values())):
            stored = await self._store.stored_tools(source)
            found += [item.current for item in stored if item.current and item.name in wanted]
        return sorted(found, key=lambda tool: tool.name)

    async def search(self, query: str, limit: int = 10) -> list[ToolSummary]:
        """The tools that fit the words best, best first."""
        await self.look_again()
        return await self._store.search(query, limit)

    async def states(self) -> dict[str, SourceState]:
        """Returns the state of every configured source, synced or not."""
        await self._freshen(self.sources.names, local_only=True)
        stored = await self._store.sources()
        return {
            name: stored.get(name) or SourceState(name, self.sources.kind(name), "", None)
            for name in self.sources.names
        }

    def unsynced(self) -> list[str]:
        """Sources whose stored tools are missing, or belong to other settings than those in force."""
        return [name for name in self.sources.names if self._marks.get(name) != self.sources.signature(name)]

    def untried(self) -> list[str]:
        """The unsynced sources, without those that have just failed with the current settings."""
        return [name for name in self.unsynced() if self._failed.get(name) != self.sources.signature(name)]

    async def make_ready(self, names: Sequence[str], principal: Principal, *, may_interrupt: bool) -> None:
        """Ask those of these sources for their tools whose stored ones are missing or of other settings.
        `may_interrupt`: where that takes the principal's consent, raise the request for it."""
        await self._freshen(names, principal, may_interrupt=may_interrupt)

    def on_change(self, listener: Listener) -> None:
        """Call `listener` after the tools of a source changed while this process runs, and after a
        source's own notice also when nothing did."""
        self._listeners.append(listener)

    # --- other settings

    async def replace_sources(self, sources: SourceSet) -> None:
        """Take over other settings while in use. Sources that are gone are forgotten and their sessions
        closed; those that are new or changed are asked for their tools, in the background."""
        before, self.sources = self.sources, sources
        same = sources.unchanged_from(before)
        for name in before.names:
            if name not in sources.names:
                await self._forget(name)
        for name in sources.names:
            if name not in same:
                self.connections.retire_source(name)
                self._failed.pop(name, None)
                self._source_changed(name)

    async def _forget(self, name: str) -> None:
        report = SyncReport(name)
        try:
            report.removed += [item.name for item in await self._store.stored_tools(name)]
            await self._store.forget_source(name)
        except StoreError as error:
            # It is forgotten when a workspace is next opened.
            self._note(f"{name}: its tools could not be forgotten: {error.message}")
        self._marks.pop(name, None)
        self._failed.pop(name, None)
        self.conflicts.pop(name, None)
        closing = asyncio.create_task(self.connections.close_source(name), name=f"end of {name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self.tell(report)

    # --- looking up

    async def _lookup(self, name: str, sees: Sees) -> Tool | None:
        await self._see_other_processes()
        tool = self._known.get(name)
        if tool is None:
            tool = await self._store.tool(name)
            if tool is not None:
                self._known[name] = tool
        if tool is None or not sees(tool.name):
            full = [other for other in await self._store.names_ending_in(name) if sees(other)]
            if len(full) > 1:
                raise NotFoundError(
                    f"several tools are called {name!r}", hint=f"say which: {', '.join(full)}", tool=name
                )
            tool = await self._store.tool(full[0]) if full else None
        return tool

    async def _see_other_processes(self) -> None:
        """Drops the cached tools if another process has changed the stored ones."""
        version = await self._store.catalog_version()
        if version != self._version:
            self._known.clear()
            self._marks = {
                name: state.signature
                for name, state in (await self._store.sources()).items()
                if state.synced_at is not None
            }
            self._version = version

    @contextlib.asynccontextmanager
    async def session(self, name: str, principal: Principal) -> AsyncGenerator[tuple[Session, Credential]]:
        """The session of a source under a principal's credential, for what is not a call of a tool."""
        config = self.sources.config(name)
        credential = await self._credentials.for_call(name, config, principal)
        source = self.sources.get(name)
        async with self.connections.session(name, source, config, credential) as session:
            yield session, credential

    # --- syncing

    async def sync(
        self,
        names: Sequence[str] | None = None,
        accept: Collection[str] | bool = (),
        principal: Principal = LOCAL,
    ) -> list[SyncReport]:
        """Ask sources for their tools, all at once; one that fails, or that the principal has not given
        consent to, keeps its last known tools. `accept` names tools of pinned sources whose new
        definitions are trusted; True: all."""
        self.sources.validate()
        wanted = self.sources.names if names is None else list(dict.fromkeys(names))
        for name in wanted:
            self.sources.table(name)
        sync = functools.partial(self._sync_one, principal=principal, accept=accept)
        reports = await synced_together(wanted, sync, self.conflicts)
        await self._check_accepted(accept)
        return reports

    async def _check_accepted(self, accept: Collection[str] | bool) -> None:
        named = () if isinstance(accept, bool) else accept
        known = await self._store.names() if named else []
        for name in (name for name in named if name not in known):
            meant = suggest(name, known)
            self._note(f"no tool {name!r} was accepted" + (f"; did you mean {meant!r}?" if meant else ""))

    async def _sync_one(
        self,
        name: str,
        principal: Principal,
        accept: Collection[str] | bool = (),
        *,
        may_interrupt: bool = False,
    ) -> SyncReport:
        started = time.perf_counter()
        async with self._syncing.setdefault(name, asyncio.Lock()):
            signature = self.sources.signature(name)
            try:
                report = await self._sync(name, principal, signature, accept)
                self._marks[name] = signature
                self._synced_as[name] = principal
                self._failed.pop(name, None)
                self.conflicts.pop(name, None)
            except (SpindleError, AuthorizationRequired) as error:
                kind: dict[str, str] = {}
                if isinstance(error, AuthorizationRequired):
                    if may_interrupt:
                        raise
                    kind = {"category": error.kind}
                    error = AuthError(error.message, remedy=Remedy("login", name))
                error.about(source=name)
                if name in self.sources.names:
                    await self._store.note_failure(name, self.sources.kind(name), error.message)
                    self._failed[name] = signature
                    self._reasons[name] = error.to_dict()
                    if isinstance(error, NameConflictError):
                        self.conflicts[name] = error
                report = SyncReport(name, error=error.to_dict() | kind)
        report.seconds = time.perf_counter() - started
        return report

    async def _sync(
        self, name: str, principal: Principal, signature: str, accept: Collection[str] | bool
    ) -> SyncReport:
        config = self.sources.config(name)
        found = name_tools(name, config, await self._discovery.of(name, principal, self.sources))
        self.sources.table(name)  # it may have been removed meanwhile
        known = await self._store.stored_tools(name)
        state = (await self._store.sources()).get(name)
        # Adding a pinned source is to trust what it offers then, and nothing that comes later.
        trusted = not config.pinned or state is None or state.synced_at is None
        merged, report = merge(name, known, found, trusted=trusted, accept=accept)
        await self._store.replace_tools(SourceState(name, config.kind, signature, time.time()), merged)
        if report.differs:
            self.tell(report)
        return report

    async def _freshen(
        self,
        names: Sequence[str],
        principal: Principal = LOCAL,
        *,
        local_only: bool = False,
        may_interrupt: bool = False,
    ) -> bool:
        """Sync those of these sources whose settings or definition changed. True when any was. One
        that failed is not tried again until it changes."""
        stale: list[str] = []
        for name in names:
            if name in self.sources.names and not (local_only and self.sources.local_signature(name) is None):
                signature = self.sources.signature(name)
                if signature not in (self._marks.get(name), self._failed.get(name)):
                    stale.append(name)
        if stale:
            sync = functools.partial(self._shared_sync, principal=principal, may_interrupt=may_interrupt)
            for report in await synced_together(stale, sync, self.conflicts):
                if report.error:
                    self._note(f"{report.source}: {report.error['message']}")
        return bool(stale)

    async def _shared_sync(self, name: str, principal: Principal, *, may_interrupt: bool) -> SyncReport:
        """One sync for all who find the source stale at the same moment; none of them can cancel it."""
        key = (name, principal.id)
        task = self._pending.get(key)
        if task is None:
            sync = self._sync_one(name, principal, may_interrupt=may_interrupt)
            task = self._pending[key] = asyncio.create_task(sync, name=f"sync of {name}")
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)

    def _source_changed(self, name: str) -> None:
        """A source said that its tools changed. Several notices in a row cause one refresh."""
        self._dirty.add(name)
        if name not in self._refreshes:
            task = asyncio.create_task(self._refresh(name), name=f"refresh of {name}")
            self._refreshes[name] = task
            task.add_done_callback(lambda _: self._refreshes.pop(name, None))

    async def _refresh(self, name: str) -> None:
        while name in self._dirty and name in self.sources.names:
            self._dirty.discard(name)
            report = await self._sync_one(name, self._synced_as.get(name, LOCAL))
            if report.error:
                self._note(f"{name}: could not refresh its tools: {report.error['message']}")
            if not report.differs:
                self.tell(report)

    def tell(self, report: SyncReport) -> None:
        """Tell those who listen for changes."""
        for listener in self._listeners:
            try:
                listener(report)
            except Exception as error:  # noqa: BLE001 - a listener's mistake must not stop the sync
                self._note(f"a listener failed on the changes of {report.source}: {error!r}")
