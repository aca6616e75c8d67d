"""The composition root: builds the parts of Spindle, owns their lifetimes, has no behaviour."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spindle import settings as settings_module
from spindle.auth.credentials import CredentialProvider, Credentials
from spindle.calls.caller import DEFAULT_OPTIONS, Caller, CallOptions, Clock
from spindle.calls.permissions import Permission, allow_all
from spindle.catalog.catalog import Catalog
from spindle.catalog.sources import SourceSet
from spindle.domain.call import CallRecord, Result
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.tool import Tool, ToolSummary
from spindle.ports.store import Store, ToolFilter, ToolStore
from spindle.sources.events.bus import Subscription, bus_of
from spindle.stores.files import FolderFileStore
from spindle.stores.layered import LayeredToolStore
from spindle.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from spindle.catalog.diff import SyncReport
    from spindle.domain.event import Event
    from spindle.ports.source import Note
    from spindle.settings import Settings

logger = logging.getLogger("spindle")

SETTLE_TIMEOUT = 5.0


class Spindle:
    """An open workspace. Made by `spindle.open`."""

    def __init__(
        self, settings: Settings, store: Store, private: SqliteStore, catalog: Catalog, caller: Caller
    ) -> None:
        self.settings = settings
        self.store = store
        self.catalog = catalog
        self._private = private
        self._caller = caller
        self._bus = bus_of(settings.root)
        self._subscriptions: WeakSet[Subscription] = WeakSet()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Result:
        """Call a tool with arguments by name, or as one mapping: `call("fs.read", path="x")`."""
        return await self._caller.call(tool, {**(arguments or {}), **named}, options)

    async def tools(
        self,
        *,
        source: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        pattern: str | None = None,
    ) -> list[ToolSummary]:
        return await self.catalog.tools(ToolFilter(source, kind, tag, pattern))

    async def search(self, query: str, *, limit: int = 10) -> list[ToolSummary]:
        return await self.catalog.search(query, limit)

    async def show(self, tool: str) -> Tool:
        return await self.catalog.find(tool)

    async def sync(
        self, *sources: str, accept: Sequence[str] | bool = (), principal: Principal = LOCAL
    ) -> list[SyncReport]:
        return await self.catalog.sync(sources or None, accept, principal)

    def events(self, pattern: str = "*") -> Subscription:
        """Events of this process from now on, whose channel or type fits the pattern:
        `async for event in app.events("orders/*")`."""
        subscription = self._bus.subscribe(pattern)
        self._subscriptions.add(subscription)
        return subscription

    async def emit(self, channel: str, data: Any = None, **attributes: Any) -> Event:
        """Put an event on the bus of this process. `attributes` are those of `Event`: `type`, `subject`,
        `extensions`…"""
        from spindle.domain.event import Event

        fields: dict[str, Any] = {"type": channel, "source": "/spindle", "subject": channel, **attributes}
        event = Event(data=data, channel=channel, **fields)
        self._bus.publish(event)
        return event

    async def history(
        self, *, limit: int = 50, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        return await self.store.calls(limit=limit, tool=tool, outcome=outcome)

    async def close(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.close()
        await self.catalog.close()
        # Calls that were running end with their sessions, and are recorded like any other.
        await self._caller.settle(SETTLE_TIMEOUT)
        await self._private.close()
        await self.store.close()


async def build(
    path: Path | str | None = None,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    settings: Settings | None = None,
    store: Store | None = None,
    credentials: CredentialProvider | None = None,
    permission: Permission = allow_all,
    note: Note = logger.warning,
    environ: Mapping[str, str] | None = None,
    clock: Clock = Clock(),  # noqa: B008 - frozen
) -> Spindle:
    """Put the parts together. The arguments are explained at `spindle.open`."""
    loaded = settings or settings_module.load(path, environ)
    opened = store or await SqliteStore(loaded.store).open()
    private = SqliteStore(":memory:")
    try:
        sources = SourceSet(loaded, note, environ)
        known: ToolStore = opened
        if tools:
            from spindle.sources.python import PythonSource

            own = "python" if "python" not in sources.names else "python-functions"
            sources.add(own, *PythonSource.of_functions(own, tools, loaded.root, note))
            known = LayeredToolStore(opened, await private.open(), {own})
        chosen = Credentials(credentials)
        catalog = Catalog(sources, known, chosen, note)
        files = FolderFileStore(loaded.state_folder / "files")
        caller = Caller(catalog, opened, files, chosen, note, permission=permission, clock=clock)
        await catalog.open()
    except BaseException:
        await private.close()
        await opened.close()
        raise
    return Spindle(loaded, opened, private, catalog, caller)
