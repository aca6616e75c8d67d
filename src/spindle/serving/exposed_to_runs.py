"""The tools that runs of callers reach in a worker: those that the server would let their callers reach."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Final

from spindle.domain.identity import LOCAL, Principal
from spindle.errors import ConfigurationError, SpindleError
from spindle.serving.exposure import Exposed, with_groups

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig
    from spindle.ports.serving_store import AccessStore
    from spindle.ports.source import Note

EVERY: Final = 2.0
"""Seconds between two looks for groups that administrators changed."""


class ExposedToRuns:
    """The lists of `[serve]` and of the groups in the store, for everybody but the owner."""

    def __init__(self, read: Callable[[], ServeConfig], note: Note) -> None:
        self._note = note
        self._config: ServeConfig | None = None
        try:
            self._config = read()
        except ConfigurationError as error:
            note(f"runs of others than the owner reach no tools here: {error.message}")
        self._exposed = None if self._config is None else Exposed(self._config)
        self._version = -1

    def shows(self, principal: Principal, name: str) -> bool:
        """True if a run of this principal may call a tool."""
        return principal.id == LOCAL.id or (
            self._exposed is not None and self._exposed.shows(principal, name)
        )

    async def look(self, store: AccessStore) -> None:
        """Takes over the groups in the store."""
        version = await store.access_version()
        if self._config is not None and version != self._version:
            self._exposed = Exposed(with_groups(self._config, await store.access_entries()))
            self._version = version

    @contextlib.asynccontextmanager
    async def following(self, store: AccessStore) -> AsyncGenerator[None]:
        """Follows what administrators change, meanwhile."""
        await self.look(store)
        task = asyncio.create_task(self._follow(store), name="looking for changed groups")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, store: AccessStore) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look(store)
            except SpindleError as error:
                self._note(f"groups stay as they are: {error.message}")
