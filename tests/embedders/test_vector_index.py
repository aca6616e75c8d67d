"""More vectors than are compared one by one: PostgreSQL's own index, where the extension is there."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest
from counting import CountingEmbedder
from test_search_by_meaning import TOOLS, Workspace, put

from spindle.stores.postgres import PostgresStore


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(postgres_url) as opened:
        opened.exact = 3
        await put(opened, TOOLS)
        yield opened


@pytest.fixture
def extension(postgres_url: str) -> None:
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


class Sphere(CountingEmbedder):
    """Vectors in all directions, each the same for the same text."""

    async def embed(self, texts: Sequence[str], purpose: object) -> Sequence[Sequence[float]]:
        made = [random.Random(text) for text in texts]
        return [[chance.gauss(0, 1) for _ in range(32)] for chance in made]


@pytest.fixture
def no_extension(postgres_url: str) -> None:
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        connection.execute("DROP EXTENSION IF EXISTS vector CASCADE")


@pytest.mark.usefixtures("no_extension")
async def test_without_the_extension_all_vectors_are_compared(store: PostgresStore) -> None:
    search = Workspace(store)
    await search.meaning.settled()
    assert await store.nearest("counting@1", [0.0, 0.0, 1.0, 0.0, 0.0], 1) is None
    assert (await search("do I need an umbrella"))[0] == "sky.ahead"
    await search.meaning.close()


@pytest.mark.usefixtures("extension")
async def test_the_index_answers_as_the_comparison_does(store: PostgresStore) -> None:
    many = {f"band.play_{number}": f"song {number}" for number in range(600)}
    await put(store, many)
    search = Workspace(store, embedder=Sphere(batch=200))
    await search.meaning.settled()
    by_index, by_scan = [], []
    for question in ("tune", "letter", "rain"):
        vector = (await search.embedder.embed([question], "query"))[0]
        length = sum(number * number for number in vector) ** 0.5
        found = await store.nearest("counting@1", [number / length for number in vector], 10)
        assert found is not None
        assert found.found == sorted(found.found, key=lambda item: -item[0])
        assert found.spread == pytest.approx(1 / math.sqrt(32), rel=0.2)
        by_index += [name for _, name in found.found]
        store.exact = 10**6
        store._indexed = None
        by_scan += [item.name for item in await search.meaning.near(question, 10, 1)]
        store.exact = 3
        store._indexed = None
        assert [item.name for item in await search.meaning.near(f"{question}", 10, 1)] == by_index[-10:]
    # An index of this kind may miss one now and then.
    assert len(set(by_index) & set(by_scan)) >= 27
    await search.meaning.close()


@pytest.mark.usefixtures("extension")
async def test_the_index_follows_the_tools(store: PostgresStore) -> None:
    search = Workspace(store)
    await search.meaning.settled()
    assert await store.nearest("counting@1", [0.0, 0.0, 1.0, 0.0, 0.0], 1) is not None
    assert (await search("do I need an umbrella"))[0] == "sky.ahead"
    await put(store, {"sky.ahead": "What is in a folder", "sky.now": "rain rain rain"})
    assert "sky.now" not in [item.name for item in await search.meaning.near("umbrella", 1, 2)]
    await search.meaning.settled()
    assert (await search("an umbrella"))[0] == "sky.now"
    await put(store, {"sky.ahead": "What is in a folder"})
    assert (await search("rain"))[0] != "sky.now"
    await search.meaning.close()


@pytest.mark.usefixtures("extension")
async def test_an_index_that_is_not_whole_is_not_asked(store: PostgresStore) -> None:
    search = Workspace(store)
    await search.meaning.settled()
    await store._change("DELETE FROM {schema}.vector_places WHERE name = 'sky.ahead'")
    store._indexed = None
    assert await store.nearest("counting@1", [0.0, 0.0, 1.0, 0.0, 0.0], 1) is None
    assert (await search("do I need an umbrella"))[0] == "sky.ahead"
    await store.index_vectors("counting@1")
    store._indexed = None
    found = await store.nearest("counting@1", [0.0, 0.0, 1.0, 0.0, 0.0], 1)
    assert found is not None
    assert found.found == [(pytest.approx(1, abs=0.01), "sky.ahead")]
    await search.meaning.close()
