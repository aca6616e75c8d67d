"""Opening a workspace and using it: the parts together, without a source to contact unless one is used."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import spindle
from spindle.errors import ConfigurationError, StoreError
from spindle.settings import Settings
from spindle.stores.sqlite import SqliteStore


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "tools").mkdir(parents=True)
    (folder / "spindle.toml").write_text("")
    (folder / "tools" / "greet.py").write_text(
        "from spindle import tool\n\n"
        "@tool\ndef greet(name: str) -> str:\n    '''Say hello.'''\n    return f'Hello, {name}.'\n"
    )
    return folder


async def test_five_lines_open_a_workspace_and_call_a_tool(workspace: Path) -> None:
    async with spindle.open(workspace) as s:
        result = await s.call("greet", name="Ann")
    assert result.text == "Hello, Ann."


async def test_tools_are_listed_searched_shown_and_synced(workspace: Path) -> None:
    async with spindle.open(workspace) as s:
        (report,) = await s.sync()
        assert report.added == ["greet"]
        assert [summary.name for summary in await s.tools()] == ["greet"]
        assert await s.tools(source="other") == []
        assert [summary.name for summary in await s.search("say hello")] == ["greet"]
        shown = await s.show("greet")
        assert shown.input_schema["required"] == ["name"]
        await s.call("greet", name="Ann")
        assert [record.outcome for record in await s.history(tool="greet", outcome="ok")] == ["ok"]


async def test_functions_of_the_program_are_tools_under_their_plain_names(workspace: Path) -> None:
    async with spindle.open(workspace, tools=[add]) as s:
        assert (await s.call("add", a=2)).structured == 3
        assert (await s.call("greet", name="Ann")).text == "Hello, Ann."


async def test_what_was_called_is_known_to_the_next_program(workspace: Path) -> None:
    async with spindle.open(workspace) as s:
        await s.call("greet", name="Ann")
    async with spindle.open(workspace / "spindle.toml") as s:
        assert [record.arguments for record in await s.history()] == [{"name": "Ann"}]


async def test_the_nearest_workspace_is_opened_where_none_is_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace / "tools")
    async with spindle.open() as s:
        assert s.settings.root == workspace


async def test_a_program_may_bring_its_own_store(tmp_path: Path) -> None:
    store = await SqliteStore(":memory:").open()
    settings = Settings(tmp_path, {})
    async with spindle.open(settings=settings, store=store, tools=[add]) as s:
        await s.call("add", a=1)
        assert s.store is store
        assert len(await store.calls(limit=10)) == 1
    assert not (tmp_path / ".spindle" / "state.db").exists()


async def test_a_workspace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no folder"):
        async with spindle.open(tmp_path / "nowhere"):
            raise AssertionError


async def test_what_was_opened_is_closed_again_when_a_later_part_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()

    async def broken(_self: object) -> None:
        raise StoreError("cannot read")

    monkeypatch.setattr("spindle.catalog.catalog.Catalog.open", broken)
    opening = spindle.open(settings=Settings(tmp_path, {}), tools=[add])
    with pytest.raises(StoreError, match="cannot read"):
        async with opening:
            raise AssertionError
    await opening.__aexit__(None, None, None)
    # Threads of asyncio's own executor stay until the loop ends; the store's are gone.
    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("spindle-store")}
    assert threading.active_count() <= before + 2
