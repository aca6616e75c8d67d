"""All tools under one set of names. Opens from the store; contacts a source only to sync it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from spindle.catalog.connections import Connections
from spindle.catalog.consents import Consents, missing
from spindle.catalog.diff import SyncReport, synced_together
from spindle.catalog.discovery import ToolDiscovery
from spindle.catalog.marks import OPENLY, SourceMarks
from spindle.catalog.naming import Sees, not_found, sees_all
from spindle.catalog.own_tools import OwnTools
from spindle.catalog.pace import Refreshes
from spindle.catalog.version import StoredVersion
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.tool import Tool, ToolSummary
from spindle.errors import AuthorizationRequired, NotFoundError, SpindleError, StoreError
from spindle.plugins import checkers
from spindle.ports.store import SourceState, ToolFilter, ToolStore
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.catalog.meaning import MeaningSearch
    from spindle.catalog.sources import SourceSet
    from spindle.domain.identity import Credential
    from spindle.domain.peer import SessionHolder
    from spindle.ports.source import Note, Session

Listener = Callable[[SyncReport], None]


class Catalog:
    """All tools of a workspace: found by name, searched, and kept up to date with their sources."""

    meaning: MeaningSearch | None = None

    def __init__(self, sources: SourceSet, store: ToolStore, credentials: Credentials, note: Note) -> None:
        self.sources = sources
        self._store = store
        self._own = OwnTools(store, lambda name: name in self.sources)
        self._credentials = credentials
        self._note = note
        self._refreshes = Refreshes(self._refresh)
        self.connections = Connections(
            self._refreshes.want,
            sources.workspace,
            lambda: self.sources.require_trust(),  # noqa: PLW0108 - sources are replaced
        )
        self._discovery = ToolDiscovery(self.connections, credentials, note)
        self._known: dict[str, Tool] = {}
        self._version = -1
        self.stored_version = StoredVersion(store)
        self._marks = SourceMarks()
        self.conflicts, self.reasons = self._marks.conflicts, self._marks.reasons
        self.consents = Consents(lambda: self.sources, self._marks, credentials)
        self._listeners: list[Listener] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._syncing: dict[str, asyncio.Lock] = {}
        self._pending: dict[tuple[str, str, bool], asyncio.Task[SyncReport]] = {}
        self._synced_as: dict[str, Principal] = {}
        """By source, on whose behalf it was last asked; a refresh asks in the same name."""

    async def open(self) -> None:
        """Reads what the stored tools stand for."""
        await self._see_other_processes()

    async def close(self) -> None:
        """Ends all refreshes and closes all sessions."""
        tasks: list[asyncio.Task[Any]] = [*self._refreshes.stop(), *self._pending.values(), *self._closing]
        for task in tasks:
            task.cancel()
        if self.meaning is not None:
            await self.meaning.close()
        await self.connections.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- looking

    async def find(self, name: str, principal: Principal = LOCAL, sees: Sees = sees_all) -> Tool:
        """The tool of this full name, or of this last part where only one has it. A source that has to be
        asked for its tools first is asked on behalf of the principal, whose consent that may take.
        What `sees` hides is as if it were not there, also where names are suggested."""
        if (tool := self.at_hand(name)) is not None and sees(tool.name):
            return tool
        tool = await self._lookup(name, sees)
        if tool is not None:
            stale = await self._freshen([tool.source], principal, local_only=True)
        elif "." in name and not sees(name):
            raise await not_found(self._own, name, sees)
        else:
            named = name.partition(".")[0]
            if named in self.sources:
                # Asked for by name, so it is tried again even if it could not be read before.
                self._marks.try_again(named)
                stale = await self._freshen([named], principal, may_interrupt=True)
            else:
                stale = await self._freshen(self.sources.names, principal)
        if stale or tool is None:
            # Also when nothing was stale: another call may have synced the source since the first look.
            tool = await self._lookup(name, sees)
        if tool is None:
            raise await not_found(self._own, name, sees, self._marks.reasons)
        return tool

    def at_hand(self, name: str) -> Tool | None:
        """The tool of this full name, if that is known without reading or asking anything."""
        tool = self._known.get(name)
        if tool is None or not self.stored_version.is_still(self._version):
            return None
        return tool if tool.source in self.sources.elsewhere else None

    async def look_again(self) -> None:
        """Take note of what other processes changed, and of edits to definitions on this machine."""
        await self._see_other_processes()
        await self._freshen(self.sources.names, local_only=True)

    async def tools(self, where: ToolFilter) -> list[ToolSummary]:
        """Returns the tools that fit the filter, after a look at definitions on this machine."""
        await self.look_again()
        return await self._own.tools(where)

    async def names_by_source(self) -> dict[str, list[str]]:
        """Returns the full names of the tools of each source that has some, after the same look."""
        await self.look_again()
        return await self._own.names_by_source()

    async def whole_tools(self, where: ToolFilter) -> list[Tool]:
        """The same, each with all that is known of it; not those that nobody has accepted yet."""
        await self.look_again()
        return await self._own.whole_tools(where)

    async def search(self, query: str, limit: int = 10) -> list[ToolSummary]:
        """The tools that fit the words best, best first."""
        await self.look_again()
        return await self._own.search(query, limit, self.meaning)

    async def states(self) -> dict[str, SourceState]:
        """Returns the state of every configured source, synced or not."""
        await self._freshen(self.sources.names, local_only=True)
        stored = await self._own.sources()
        return {
            name: stored.get(name) or SourceState(name, self.sources.kind(name), "", None)
            for name in self.sources.names
        }

    def unsynced(self) -> list[str]:
        """Sources whose stored tools are missing, or belong to other settings than those in force."""
        return [name for name in self.sources.names if not self._is_listed(name)]

    def untried(self) -> list[str]:
        """The unsynced sources, without those that have just failed with the current settings."""
        failed = self._marks.has_failed
        return [name for name in self.unsynced() if not failed(name, self.sources.signature(name))]

    async def make_ready(self, names: Sequence[str], principal: Principal, *, may_interrupt: bool) -> None:
        """Ask those of these sources for their tools whose stored ones are missing or of other settings.
        `may_interrupt`: where that takes the principal's consent, raise the request for it."""
        await self._freshen(names, principal, may_interrupt=may_interrupt)

    async def connect(self, name: str, principal: Principal) -> None:
        """Make the tools of a source known to a principal, whose consent that may take: raises the request
        for it, also where somebody else's has made them known before."""
        self._marks.try_again(name)
        await self._freshen([name], principal, may_interrupt=True)
        await self.consents.require(name, principal)
        if not self._is_listed(name):
            raise self._marks.reason(name)

    def _is_listed(self, name: str) -> bool:
        return self._marks.is_listed(name, self.sources.signature(name))

    def on_change(self, listener: Listener) -> None:
        """Call `listener` after the tools of a source changed while this process runs, and after a
        source's own notice also when nothing did."""
        self._listeners.append(listener)

    # --- other settings

    async def replace_sources(self, sources: SourceSet) -> None:
        """Take over other settings while in use. Sources that are gone are no longer seen and their sessions
        closed; those that are new or changed are asked for their tools, in the background."""
        before, self.sources = self.sources, sources
        same = sources.unchanged_from(before)
        for name in before.names:
            if name not in sources:
                await self._leave(name)
        for name in sources.names:
            if name not in same:
                self.connections.retire_source(name)
                self._marks.try_again(name)
                self._refreshes.want_now(name)

    async def forget(self, name: str) -> bool:
        """Deletes the tools and pins of a source that a person has removed. False where none are stored."""
        known = name in await self._store.sources() or await self._store.pins(name) is not None
        if known:
            await self._store.forget_source(name)
            self.stored_version.changed()
        return known

    async def _leave(self, name: str) -> None:
        """Closes a source that is no longer configured here. What is stored of it may be in use elsewhere."""
        report = SyncReport(name)
        try:
            report.removed += [item.name for item in await self._store.stored_tools(name)]
        except StoreError as error:
            self._note(f"{name}: its tools could not be read: {error.message}")
        self._known.clear()
        self._refreshes.forget(name)
        self._marks.forget(name)
        self._synced_as.pop(name, None)
        self._syncing.pop(name, None)
        closing = asyncio.create_task(self.connections.close_source(name), name=f"end of {name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self.tell(report)

    # --- looking up

    async def _lookup(self, name: str, sees: Sees) -> Tool | None:
        await self._see_other_processes()
        tool = self._known.get(name)
        if tool is None:
            tool = await self._own.tool(name)
            if tool is not None:
                self._known[name] = tool
        if tool is None or not sees(tool.name):
            full = [other for other in await self._own.names_ending_in(name) if sees(other)]
            if len(full) > 1:
                raise NotFoundError(
                    f"several tools are called {name!r}", hint=f"say which: {', '.join(full)}", tool=name
                )
            tool = await self._own.tool(full[0]) if full else None
        return tool

    async def _see_other_processes(self) -> None:
        """Drops the cached tools if another process has changed the stored ones."""
        version = await self.stored_version.number()
        if version != self._version:
            self._known.clear()
            self._marks.read(await self._store.sources())
            self._version = version

    @contextlib.asynccontextmanager
    async def session(
        self, name: str, principal: Principal, client: SessionHolder | None = None
    ) -> AsyncGenerator[tuple[Session, Credential]]:
        """The session of a source under a principal's credential, for what is not a call of a tool."""
        config = self.sources.config(name)
        credential = await self._credentials.for_call(name, config, principal)
        source = self.sources.get(name)
        holder = source.holder_of(principal, client)
        async with self.connections.session(name, source, config, credential, holder) as session:
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
        for line in await self._own.not_accepted(accept):
            self._note(line)
        return reports

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
                self._synced_as[name] = principal
            except AuthorizationRequired as asked:
                error = missing(name, asked)
                self._marks.refused(name, signature, error.to_dict())
                if may_interrupt:
                    raise
                await self._store.note_failure(name, self.sources.kind(name), error.message)
                report = SyncReport(name, error=error.to_dict() | {"category": asked.kind})
            except SpindleError as error:
                error.about(source=name)
                if name in self.sources:
                    await self._store.note_failure(name, self.sources.kind(name), error.message)
                    self._marks.failed(name, signature, error, self.sources.trust_mark)
                report = SyncReport(name, error=error.to_dict())
        report.seconds = time.perf_counter() - started
        return report

    async def _sync(
        self, name: str, principal: Principal, signature: str, accept: Collection[str] | bool
    ) -> SyncReport:
        from spindle.catalog.screening import MAX_FINDINGS, take
        from spindle.catalog.storing import instructions_after, store_tools

        config = self.sources.config(name)
        # What a consent has shown is not given up for what is shown without one.
        known = self._marks.is_listed(name, signature) and not self._marks.is_open(name, signature)
        listed = await self._discovery.of(name, principal, self.sources, openly=not known)
        others = await self._own.names_besides(name)
        taken = await in_turn(take, name, config, listed.specs, listed.instructions, others, checkers())
        self.sources.table(name)  # it may have been removed meanwhile
        mark = signature + OPENLY if listed.openly else signature
        now = SourceState(
            name, config.kind, mark, time.time(), findings=tuple(taken.findings[:MAX_FINDINGS]),
            left_out=tuple(taken.left_out), loosened=tuple(taken.loosened), server=listed.server,
            instructions=await instructions_after(self._store, name, listed.instructions, taken, accept),
        )  # fmt: skip
        report = await store_tools(self._store, now, config, taken, accept, self.sources, self._note)
        self.stored_version.changed()
        self._marks.listed(name, mark)
        if report.differs:
            if self.meaning is not None:
                self.meaning.wake()
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
            if name not in self.sources:
                continue
            local = self.sources.local_signature(name)
            if local_only and local is None:
                continue
            if self._marks.is_untrusted(name):
                self._marks.trusted(name, self.sources.trust_mark)
            signature = self.sources.signature_with(name, local)
            if await self.consents.is_stale(name, signature, principal, may_interrupt=may_interrupt):
                stale.append(name)
        if stale:
            sync = functools.partial(self._shared_sync, principal=principal, may_interrupt=may_interrupt)
            for report in await synced_together(stale, sync, self.conflicts):
                for line in report.complaints():
                    self._note(f"{report.source}: {line}")
        return bool(stale)

    async def _shared_sync(self, name: str, principal: Principal, *, may_interrupt: bool) -> SyncReport:
        """One sync for all who find the source stale at the same moment; none of them can cancel it."""
        key = (name, principal.id, may_interrupt)
        quiet = self._pending.get((name, principal.id, False)) if may_interrupt else None
        if quiet is not None and (report := await asyncio.shield(quiet)).error is None:
            return report
        task = self._pending.get(key)
        if task is None:
            sync = self._sync_one(name, principal, may_interrupt=may_interrupt)
            task = self._pending[key] = asyncio.create_task(sync, name=f"sync of {name}")
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)

    async def _refresh(self, name: str) -> None:
        """Asks a source again that said that its tools changed."""
        if name not in self.sources:
            return
        report = await self._sync_one(name, self._synced_as.get(name, LOCAL))
        for line in report.complaints():
            self._note(f"{name}: {'could not refresh its tools: ' if report.error else ''}{line}")
        if not report.differs:
            self.tell(report)

    def tell(self, report: SyncReport) -> None:
        """Tell those who listen for changes."""
        for listener in self._listeners:
            try:
                listener(report)
            except Exception as error:  # noqa: BLE001 - a listener's mistake must not stop the sync
                self._note(f"a listener failed on the changes of {report.source}: {error!r}")
