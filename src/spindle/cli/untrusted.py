"""Listings of a workspace that nobody trusts: stored names and static text, and nothing of it is run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import NotFoundError, StoreError

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.ports.store import ToolStore
    from spindle.settings import Settings


@contextlib.asynccontextmanager
async def stored(settings: Settings) -> AsyncGenerator[ToolStore]:
    """The tools that are stored in the workspace's own folder; none if its state is kept elsewhere."""
    from spindle.stores.sqlite import SqliteStore
    from spindle.stores.untrusted import UntrustedSqliteStore, read_inside

    place = settings.store
    data = None if "://" in place or "$" in place else read_inside(Path(place), settings.root)
    store = SqliteStore(":memory:") if data is None else UntrustedSqliteStore(data)
    try:
        await store.open()
    except StoreError:
        # Made by another version, or by somebody who wants us to stumble: there are no names to list.
        store = await SqliteStore(":memory:").open()
    try:
        yield store
    finally:
        await store.close()


async def stored_tool(settings: Settings, name: str) -> Tool:
    """A stored tool by its name, or by its last part where only one has it."""
    async with stored(settings) as store:
        found = await store.tool(name)
        if found is None:
            ending = await store.names_ending_in(name)
            found = await store.tool(ending[0]) if len(ending) == 1 else None
        if found is None:
            raise NotFoundError(f"no tool {name!r} is stored", tool=name)
        return found
