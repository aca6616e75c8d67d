from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import NameConflictError, StoreError
from spindle.ports.store import SourceState, Store, StoredTool, ToolFilter
from spindle.stores.files import FolderFileStore
from spindle.stores.layered import LayeredToolStore
from spindle.stores.open import open_store
from spindle.stores.sqlite import SqliteStore


def a_tool(name: str, source: str, description: str = "") -> StoredTool:
    spec = ToolSpec(name.removeprefix(f"{source}."), description, place=f"{source} place")
    return StoredTool(name, Tool(name, source, "mcp", spec, spec.fingerprint))


def a_state(source: str) -> SourceState:
    return SourceState(source, "mcp", "sig", 1.0)


@pytest.fixture(params=["sqlite", "postgres"])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    is_postgres = request.param == "postgres"
    address = request.getfixturevalue("postgres_url") if is_postgres else ":memory:"
    store = await open_store(address)
    yield store
    await store.close()


@pytest.fixture
async def layered(shared: Store) -> AsyncIterator[LayeredToolStore]:
    async with SqliteStore(":memory:") as private:
        yield LayeredToolStore(shared, private, {"mine"})


async def test_own_tools_are_seen_with_the_others_but_not_by_others(
    layered: LayeredToolStore, shared: Store
) -> None:
    await layered.replace_tools(a_state("mine"), [a_tool("greet", "mine", "say hello")])
    await layered.replace_tools(a_state("web"), [a_tool("web.greet", "web", "say hello too")])
    assert await layered.names() == ["greet", "web.greet"]
    assert await layered.names_by_source() == {"mine": ["greet"], "web": ["web.greet"]}
    assert await layered.names_ending_in("greet") == ["greet", "web.greet"]
    assert [summary.name for summary in await layered.tools(ToolFilter())] == ["greet", "web.greet"]
    assert [summary.name for summary in await layered.search("hello", 5)] == ["greet", "web.greet"]
    assert len(await layered.search("hello", 1)) == 1
    assert await layered.tool("greet") is not None
    assert await layered.tool("web.greet") is not None
    assert set(await layered.sources()) == {"mine", "web"}
    assert [stored.name for stored in await layered.stored_tools("mine")] == ["greet"]
    assert await shared.names() == ["web.greet"]
    assert set(await shared.sources()) == {"web"}


async def test_a_search_takes_turns_between_own_and_other_tools(layered: LayeredToolStore) -> None:
    mine = [a_tool(f"hello{number}", "mine") for number in range(2)]
    other = [a_tool(f"web.hello{number}", "web") for number in range(4)]
    await layered.replace_tools(a_state("mine"), mine)
    await layered.replace_tools(a_state("web"), other)
    found = [summary.source for summary in await layered.search("hello", 6)]
    assert found == ["mine", "web", "mine", "web", "web", "web"]


async def test_a_name_that_both_layers_claim_is_refused(layered: LayeredToolStore) -> None:
    await layered.replace_tools(a_state("web"), [a_tool("greet", "web")])
    with pytest.raises(NameConflictError, match=r"web place.*mine place"):
        await layered.replace_tools(a_state("mine"), [a_tool("greet", "mine")])
    await layered.forget_source("web")
    await layered.replace_tools(a_state("mine"), [a_tool("greet", "mine")])
    with pytest.raises(NameConflictError, match=r"mine place.*web place"):
        await layered.replace_tools(a_state("web"), [a_tool("greet", "web")])


async def test_the_version_changes_with_either_layer(layered: LayeredToolStore) -> None:
    versions = [await layered.catalog_version()]
    await layered.replace_tools(a_state("web"), [a_tool("web.x", "web")])
    versions.append(await layered.catalog_version())
    await layered.replace_tools(a_state("mine"), [a_tool("x", "mine")])
    versions.append(await layered.catalog_version())
    await layered.forget_source("mine")
    versions.append(await layered.catalog_version())
    assert len(set(versions)) == 4


async def test_a_failure_is_noted_where_the_source_lives(layered: LayeredToolStore, shared: Store) -> None:
    await layered.note_failure("mine", "python", "broken")
    assert (await layered.sources())["mine"].error == "broken"
    assert await shared.sources() == {}


async def test_a_file_is_kept_under_a_name_made_of_its_content(tmp_path: Path) -> None:
    store = FolderFileStore(tmp_path / "files")
    path = await store.keep(b"picture", "image/png")
    assert Path(path).read_bytes() == b"picture"
    assert path.endswith(".png")
    assert await store.keep(b"picture", "image/png") == path
    assert (await store.keep(b"picture", None)).endswith(".bin")
    assert (await store.keep(b"picture", "no/such-type")).endswith(".bin")


async def test_one_content_kept_many_times_at_once_is_one_file(tmp_path: Path) -> None:
    store = FolderFileStore(tmp_path / "files")
    paths = await asyncio.gather(*(store.keep(b"x" * 100_000, None) for _ in range(20)))
    assert len(set(paths)) == 1
    assert [str(path) for path in (tmp_path / "files").iterdir()] == [paths[0]]


async def test_a_file_that_cannot_be_kept_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file in the place of the folder")
    with pytest.raises(StoreError, match="cannot keep a file") as caught:
        await FolderFileStore(tmp_path / "files").keep(b"x", None)
    assert caught.value.hint is not None
