"""Whether people and models find the right one of thousands of real tools."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from real_catalog import figures, places, questions, sync

from servers.postgres import PostgresServer
from spindle.ports.store import SourceState, Store, StoredTool
from spindle.stores.postgres import PostgresStore
from spindle.stores.sqlite import SqliteStore

pytestmark = pytest.mark.npm
Synced = list[tuple[SourceState, list[StoredTool]]]


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Synced:
    """Every source with its tools, as they were synced."""
    folder = tmp_path_factory.mktemp("real")

    async def make() -> Synced:
        file = folder / "state.db"
        await sync(folder, str(file))
        async with SqliteStore(file) as store:
            found = await store.sources()
            return [(state, await store.stored_tools(name)) for name, state in found.items()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINDLE_KEY", base64.urlsafe_b64encode(bytes(32)).decode())
        return asyncio.run(make())


async def fill(store: Store, synced: Synced) -> None:
    for state, tools in synced:
        await store.replace_tools(state, tools)


@pytest.fixture(scope="module")
def filled(
    synced: Synced, tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> dict[str, str]:
    """The same catalog in both stores, which no test changes."""
    addresses = {
        "sqlite": str(tmp_path_factory.mktemp("filled") / "state.db"),
        "postgres": postgres_server.url(schema="real_tools"),
    }

    async def make() -> None:
        for kind, address in addresses.items():
            async with opened(kind, address) as store:
                await fill(store, synced)

    asyncio.run(make())
    return addresses


def opened(kind: str, address: str) -> SqliteStore | PostgresStore:
    return PostgresStore(address) if kind == "postgres" else SqliteStore(address)


@pytest.fixture(params=["sqlite", "postgres"])
async def catalog(request: pytest.FixtureRequest, filled: dict[str, str]) -> AsyncIterator[Store]:
    async with opened(request.param, filled[request.param]) as store:
        yield store


def test_the_set_is_as_large_as_is_claimed(synced: Synced) -> None:
    names = {tool.name for _, tools in synced for tool in tools}
    assert len(names) >= 4000
    asked = questions()
    assert len({question.text for question in asked}) == len(asked) == 100
    assert sum(question.held_out for question in asked) >= 30
    for question in asked:
        assert question.answers, question.text
        assert question.answers <= names, question.text


async def test_the_right_tool_is_in_the_first_five_for_ninety_of_a_hundred_questions(catalog: Store) -> None:
    found = await places(catalog)
    measured = figures(found.values())
    lost = [question.text for question, place in found.items() if place is None or place >= 5]
    print(f"{measured}; not in the first five: {lost}")
    assert measured["first five"] >= 90, lost
    held_out = figures(place for question, place in found.items() if question.held_out)
    assert held_out["first five"] >= 25, held_out


async def test_both_stores_give_the_same_answers(filled: dict[str, str]) -> None:
    async with SqliteStore(filled["sqlite"]) as one, PostgresStore(filled["postgres"]) as other:
        for question in questions():
            assert await one.search(question.text, 10) == await other.search(question.text, 10), question.text


async def test_an_answer_is_the_same_after_another_sync_of_its_source(synced: Synced, tmp_path: Path) -> None:
    state, tools = next((state, tools) for state, tools in synced if state.name == "github")
    async with SqliteStore(tmp_path / "state.db") as store:
        await fill(store, [(state, tools)])
        before = await store.search("open a pull request", 10)
        await store.replace_tools(state, tools)
        assert await store.search("open a pull request", 10) == before != []
