"""Tools found by meaning: their vectors, made in the background, and the nearest of them to a question.

Nothing here can fail a search: without a model, or with one that is away or slow, tools are found by their
words, and that is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from spindle.catalog.tool_texts import digest_of, texts_of
from spindle.domain.ids import new_id
from spindle.errors import CallTimeoutError, SpindleError
from spindle.ports.store import LeaseStore, ToolStore
from spindle.ports.vector_store import ToolVector, VectorStore
from spindle.threads import in_short_turn, in_thread, in_turn

if TYPE_CHECKING:
    from spindle.catalog.vectors import Floats, Vectors
    from spindle.domain.tool import Tool, ToolSummary
    from spindle.ports.embedder import Embedder
    from spindle.ports.source import Note

LEASE = 20.0
"""Seconds after which another process goes on where one that made vectors has died."""
LOOK_AGAIN = 0.5
KEPT_DAYS = 30
"""Vectors of a model that nobody has used for so long are deleted."""
AWAY = 30.0
"""Seconds for which a model that failed is not asked again."""
LONGEST_QUERY = 1000
LEAST_SPREAD = 1e-3
"""Tools that are nearer together are so by accident."""

OnProgress = Callable[[int, int], None]
"""Called with the number of tools that have their vectors, and of all that lacked them."""


class VectorShelf(ToolStore, VectorStore, LeaseStore, Protocol):
    """A store whose tools are found by meaning."""


class MeaningSearch:
    """The model of a workspace, and the vectors of its tools in one or more stores."""

    def __init__(
        self,
        make: Callable[[], Embedder],
        stores: Sequence[VectorShelf],
        note: Note,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`patience`: seconds that a search waits for the model, and the first one for vectors."""
        self._make = make
        self._shelves = [_Shelf(store, note) for store in stores]
        self._note = note
        self._patience = patience
        self._clock = clock
        self._embedder: Embedder | None = None
        self._loading: asyncio.Task[Embedder] | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_wanted = self._has_waited = False
        self._seen: int | None = None
        self._away_until = 0.0
        self._told: str | None = None
        self._last: tuple[str, Floats] | None = None
        self.on_progress: OnProgress | None = None

    # --- searching

    async def near(self, query: str, count: int, version: int) -> list[ToolSummary]:
        """Returns the tools that are nearest in meaning, the nearest first; none where the model is away.
        `version` is that of the stored tools."""
        if self._clock() < self._away_until:
            return []
        try:
            # To read libraries and weights takes as long as it takes, which says nothing of the model.
            await self._ready()
            async with asyncio.timeout(self._patience):
                await self._make_up(version)
                vector = await self._vector_of(query[:LONGEST_QUERY])
        except TimeoutError:
            self._is_away(CallTimeoutError(f"the model did not answer within {self._patience:g} s"))
            return []
        except SpindleError as error:
            self._is_away(error)
            return []
        self._told = None
        found: list[tuple[float, ToolSummary]] = []
        spread, most = 0.0, 0
        for shelf in self._shelves:
            there, its_spread = await shelf.near((await self._ready()).model, vector, count, version)
            found += there
            if len(there) > most:  # a few tools tell little of how far apart all are
                spread, most = its_spread, len(there)
        found = sorted(found, key=lambda item: -item[0])[:count]
        return [
            replace(tool, near=(score - found[-1][0]) / max(spread, LEAST_SPREAD)) for score, tool in found
        ]

    async def _make_up(self, version: int) -> None:
        """Begins to make vectors if tools have changed, and waits a while where none are there yet."""
        if version == self._seen:
            return
        self._seen = version
        work = self.wake()
        if not self._has_waited:
            self._has_waited = True
            await asyncio.wait({work}, timeout=self._patience / 2)

    async def _vector_of(self, query: str) -> Floats:
        if self._last is not None and self._last[0] == query:
            return self._last[1]
        from spindle.catalog.vectors import checked

        embedder = await self._ready()
        vector = checked(await embedder.embed([query], "query"), 1)[0]
        self._last = (query, vector)
        return vector

    async def _ready(self) -> Embedder:
        if self._embedder is not None:
            return self._embedder
        # In a thread, as libraries and weights take a while to load; and once, however many give up waiting.
        loading = self._loading
        if loading is None:
            loading = self._loading = asyncio.create_task(in_thread(self._make, "spindle-embedder"))
            loading.add_done_callback(_seen_by_others)
        try:
            self._embedder = made = await asyncio.shield(loading)
        finally:
            if loading.done() and self._loading is loading:
                self._loading = None
        return made

    def _is_away(self, error: SpindleError) -> None:
        self._away_until = self._clock() + AWAY
        if self._told != error.message:
            self._told = error.message
            hint = f" ({error.hint})" if error.hint else ""
            self._note(f"tools are found by their words alone: {error.message}{hint}")

    # --- making vectors

    def wake(self) -> asyncio.Task[None]:
        """Has the vectors made that are missing, in the background; those of now, too, where it is at it."""
        self._is_wanted = True
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._make_vectors(), name="vectors of tools")
        return self._work

    async def settled(self, on_progress: OnProgress | None = None) -> None:
        """Waits until all tools have their vectors, or the model cannot be used."""
        self.on_progress = on_progress
        try:
            await self.wake()
        finally:
            self.on_progress = None

    async def close(self) -> None:
        """Ends the making of vectors, and gives the model back. What is made stays, and others go on."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._loading is not None:
            self._loading.cancel()
        if self._embedder is not None:
            await self._embedder.close()

    async def _make_vectors(self) -> None:
        try:
            embedder = await self._ready()
            while self._is_wanted:
                self._is_wanted = False
                for shelf in self._shelves:
                    await shelf.fill(embedder, self._tell)
        except SpindleError as error:
            self._seen = None  # the next search that asks the model also goes on here
            self._is_away(error)

    def _tell(self, done: int, of: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, of)


class _Shelf:
    """The vectors of the tools in one store."""

    def __init__(self, store: VectorShelf, note: Note) -> None:
        self._store = store
        self._note = note
        self._vectors: Vectors | None = None
        self._model: str | None = None
        self._dimensions = self._version = 0
        self._catalog = -1
        self._has_dropped = self._has_told = False
        self._reading = asyncio.Lock()

    async def near(
        self, model: str, vector: Floats, count: int, catalog: int
    ) -> tuple[list[tuple[float, ToolSummary]], float]:
        """The tools nearest to a vector, each with how near it is, and how far apart all are in this.
        `catalog` is the version of the tools."""
        vectors: Vectors | None = None
        reach = count
        while True:
            nearest = await self._store.nearest(model, vector.tolist(), reach) if vectors is None else None
            if nearest is None:
                if vectors is None:
                    vectors = await self._current(model, len(vector), catalog)
                nearest = await in_short_turn(vectors.nearest, vector, reach)
            found = nearest.found
            known = {tool.name: tool for tool in await self._store.summaries([name for _, name in found])}
            gone = [name for _, name in found if name not in known]
            there = [(score, known[name]) for score, name in found if name in known]
            if gone and vectors is not None:
                # They must not take the places of others. When tools change, they may be back.
                await in_short_turn(vectors.drop, gone)
                self._has_dropped = True
            if len(there) >= count or len(found) < reach:
                return there[:count], nearest.spread
            reach *= 4  # a whole source may be gone

    async def _current(self, model: str, dimensions: int, catalog: int) -> Vectors:
        from spindle.catalog.vectors import Vectors

        async with self._reading:
            if (self._model, self._dimensions) != (model, dimensions):
                self._vectors = None
            if self._has_dropped and catalog != self._catalog:
                self._vectors = None
            if self._vectors is None:
                self._vectors, self._version, self._has_dropped = Vectors(), 0, False
                self._model, self._dimensions = model, dimensions
            self._catalog = catalog
            version = await self._store.vector_version()
            if version != self._version:
                new = await self._store.vectors(model, self._version)
                await in_short_turn(self._vectors.take, new, dimensions)
                self._version = version
                if self._vectors.left_out and not self._has_told:
                    self._has_told = True
                    self._note(
                        f"{self._vectors.left_out} tools are found by their words alone: there are too many"
                    )
            return self._vectors

    async def fill(self, embedder: Embedder, tell: OnProgress) -> None:
        """Makes the vectors that are missing, and deletes those of tools that are gone."""
        store, model, today = self._store, embedder.model, int(time.time() // 86400)
        # Before anything is kept: whoever deletes the vectors of unused models must not take these for such.
        is_new_day = await store.use_model(model, today)
        missing = len(await store.without_vectors(model))
        if missing:
            lease, owner = f"vectors of {model}", new_id()
            tell(0, missing)
            while not await store.acquire(lease, owner, LEASE):  # noqa: ASYNC110 - another process has it
                await asyncio.sleep(LOOK_AGAIN)
            try:
                await self._fill(embedder, tell, lambda: store.acquire(lease, owner, LEASE))
            finally:
                with contextlib.suppress(SpindleError):  # it ends by itself
                    await store.release(lease, owner)
        if missing or is_new_day:
            await store.forget_vectors(today - KEPT_DAYS)
        await store.index_vectors(model)

    async def _fill(
        self, embedder: Embedder, tell: OnProgress, hold: Callable[[], Awaitable[object]]
    ) -> None:
        # Asked again: what another process has made meanwhile is there.
        missing = await self._store.without_vectors(embedder.model)
        done = 0
        by_source: dict[str, dict[str, str]] = {}
        for source, name, fingerprint in missing:
            by_source.setdefault(source, {})[name] = fingerprint
        for source, wanted in by_source.items():
            stored = await self._store.stored_tools(source)
            tools = [item.current for item in stored if item.current and item.name in wanted]
            for start in range(0, len(tools), embedder.batch):
                part = tools[start : start + embedder.batch]
                await self._make(embedder, part, wanted)
                done += len(part)
                tell(done, len(missing))
                await hold()

    async def _make(self, embedder: Embedder, tools: Sequence[Tool], marks: dict[str, str]) -> None:
        texts = await in_turn(lambda: {tool.name: texts_of(tool) for tool in tools})
        digests = {name: digest_of(pair) for name, pair in texts.items()}
        known = await self._store.vectors_of_texts(embedder.model, list(set(digests.values())))
        new = {digests[name]: pair for name, pair in texts.items() if digests[name] not in known}
        if new:
            flat = [text for pair in new.values() for text in pair]
            made = await embedder.embed(flat, "tool")
            known |= zip(new, await in_turn(_middles, made, len(flat)), strict=True)
        await self._store.save_vectors(
            embedder.model,
            [ToolVector(name, marks[name], digest, known[digest]) for name, digest in digests.items()],
        )


def _middles(vectors: Sequence[Sequence[float]], count: int) -> list[bytes]:
    """The middle of each two vectors, as it is stored."""
    from spindle.catalog.vectors import checked, packed

    made = checked(vectors, count)
    return [packed((one + other) / 2) for one, other in zip(made[::2], made[1::2], strict=True)]


def _seen_by_others(task: asyncio.Task[Embedder]) -> None:
    """Nobody may be left who waits for it."""
    if not task.cancelled():
        task.exception()
