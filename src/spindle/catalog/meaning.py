"""Tools found by meaning: their vectors, made in the background, and the nearest of them to a question.

Nothing here can fail a search: without a model, or with one that is away or slow, tools are found by their
words, and that is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from spindle.catalog.tool_texts import digest_of, texts_of
from spindle.domain.ids import new_id
from spindle.errors import CallTimeoutError, SpindleError
from spindle.ports.store import LeaseStore, ToolStore
from spindle.ports.vector_store import ToolVector, VectorStore
from spindle.threads import in_short_turn, in_thread

if TYPE_CHECKING:
    from spindle.catalog.vectors import Floats, Vectors
    from spindle.domain.tool import Tool, ToolSummary
    from spindle.ports.embedder import Embedder
    from spindle.ports.source import Note

LEASE = 60.0
"""Seconds after which another process goes on where one that made vectors has died."""
LOOK_AGAIN = 0.5
KEPT_DAYS = 30
"""Vectors of a model that nobody has used for so long are deleted."""
AWAY = 30.0
"""Seconds for which a model that failed is not asked again."""
LONGEST_QUERY = 1000

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
        self._shelves = [_Shelf(store) for store in stores]
        self._note = note
        self._patience = patience
        self._clock = clock
        self._embedder: Embedder | None = None
        self._making = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
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
        for shelf in self._shelves:
            found += await shelf.near(self._opened().model, vector, count, version)
        found.sort(key=lambda item: -item[0])
        return [tool for _, tool in found[:count]]

    async def _make_up(self, version: int) -> None:
        """Begins to make vectors if tools have changed, and waits a while where none are there yet."""
        if version == self._seen:
            return
        is_first, self._seen = self._seen is None, version
        work = self.wake()
        if is_first:
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
        if self._embedder is None:
            # In a thread: libraries and weights take a while to load.
            async with self._making:
                if self._embedder is None:
                    self._embedder = await in_thread(self._make, "spindle-embedder")
        return self._embedder

    def _opened(self) -> Embedder:
        assert self._embedder is not None
        return self._embedder

    def _is_away(self, error: SpindleError) -> None:
        self._away_until = self._clock() + AWAY
        if self._told != error.message:
            self._told = error.message
            hint = f" ({error.hint})" if error.hint else ""
            self._note(f"tools are found by their words alone: {error.message}{hint}")

    # --- making vectors

    def wake(self) -> asyncio.Task[None]:
        """Has the vectors made that are missing, in the background."""
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._make_vectors(), name="vectors of tools")
        return self._work

    async def settled(self, on_progress: OnProgress | None = None) -> None:
        """Waits until all tools have their vectors, or the model cannot be used."""
        self.on_progress = on_progress
        try:
            while self._work is not None and not self._work.done():
                await asyncio.shield(self._work)
            await self.wake()
        finally:
            self.on_progress = None

    async def close(self) -> None:
        """Ends the making of vectors, and gives the model back. What is made stays, and others go on."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._embedder is not None:
            await self._embedder.close()

    async def _make_vectors(self) -> None:
        try:
            embedder = await self._ready()
            for shelf in self._shelves:
                await shelf.fill(embedder, self._tell)
        except SpindleError as error:
            self._is_away(error)

    def _tell(self, done: int, of: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, of)


class _Shelf:
    """The vectors of the tools in one store."""

    def __init__(self, store: VectorShelf) -> None:
        self._store = store
        self._vectors: Vectors | None = None
        self._model: str | None = None
        self._dimensions = self._version = 0
        self._catalog = -1
        self._has_dropped = False
        self._reading = asyncio.Lock()

    async def near(
        self, model: str, vector: Floats, count: int, catalog: int
    ) -> list[tuple[float, ToolSummary]]:
        """The tools nearest to a vector, each with how near it is. `catalog` is the version of the tools."""
        vectors = await self._current(model, len(vector), catalog)
        while True:
            found = await in_short_turn(vectors.nearest, vector, count)
            known = {tool.name: tool for tool in await self._store.summaries([name for _, name in found])}
            gone = [name for _, name in found if name not in known]
            if not gone:
                return [(score, known[name]) for score, name in found]
            # They must not take the places of others. When tools change, they may be back.
            vectors.drop(gone)
            self._has_dropped = True

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
            return self._vectors

    async def fill(self, embedder: Embedder, tell: OnProgress) -> None:
        """Makes the vectors that are missing, and deletes those of tools that are gone."""
        store, model = self._store, embedder.model
        if not await store.without_vectors(model):
            return
        lease, owner = f"vectors of {model}", new_id()
        while not await store.acquire(lease, owner, LEASE):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(LOOK_AGAIN)
        try:
            missing = await store.without_vectors(model)  # what another process has made meanwhile is there
            done = 0
            by_source: dict[str, dict[str, str]] = {}
            for source, name, fingerprint in missing:
                by_source.setdefault(source, {})[name] = fingerprint
            for source, wanted in by_source.items():
                stored = await store.stored_tools(source)
                tools = [item.current for item in stored if item.current and item.name in wanted]
                for start in range(0, len(tools), embedder.batch):
                    part = tools[start : start + embedder.batch]
                    await self._make(embedder, part, wanted)
                    done += len(part)
                    tell(done, len(missing))
                    await store.acquire(lease, owner, LEASE)
            await store.forget_vectors(model, int(time.time() // 86400), KEPT_DAYS)
        finally:
            with contextlib.suppress(SpindleError):  # it ends by itself
                await store.release(lease, owner)

    async def _make(self, embedder: Embedder, tools: Sequence[Tool], marks: dict[str, str]) -> None:
        from spindle.catalog.vectors import checked, packed

        texts = {tool.name: texts_of(tool) for tool in tools}
        digests = {name: digest_of(pair) for name, pair in texts.items()}
        known = await self._store.vectors_of_texts(embedder.model, list(set(digests.values())))
        new = {digests[name]: pair for name, pair in texts.items() if digests[name] not in known}
        if new:
            flat = [text for pair in new.values() for text in pair]
            made = checked(await embedder.embed(flat, "tool"), len(flat))
            for place, digest in enumerate(new):
                known[digest] = packed((made[2 * place] + made[2 * place + 1]) / 2)
        await self._store.save_vectors(
            embedder.model,
            [ToolVector(name, marks[name], digest, known[digest]) for name, digest in digests.items()],
        )
