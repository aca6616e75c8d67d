"""The state of other frameworks in our store, and our runs in theirs."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

import spindle
from spindle import Context, Finished, Paused, tool
from spindle.adapters.state_store import RunsIn, StateStoreOf, StoredEvent
from spindle.auth.encryption import Sealer
from spindle.settings import Settings
from spindle.stores.sqlite import SqliteStore


@dataclass
class Binding:
    trace_id: str
    context_id: str | None
    task_id: str
    agent_url: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@pytest.fixture
def sealer() -> Sealer:
    key = Fernet.generate_key().decode()
    return Sealer(lambda: [key])


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore(tmp_path / "state.db").open()
    yield opened
    await opened.close()


async def test_events_come_back_in_order_and_once(store: SqliteStore, sealer: Sealer) -> None:
    served = StateStoreOf(store, sealer)
    late = StoredEvent("t", 2.0, "node_end", "n", "id", {"latency_ms": 1.5})
    early = StoredEvent("t", 1.0, "node_start", "n", "id", {})
    for event in (late, early, late):
        await served.save_event(event)
    await served.save_event(StoredEvent(None, 1.0, "global"))
    assert await served.load_history("t") == [early, late]
    assert await served.load_history("nothing") == []


async def test_two_processes_may_save_the_same_event(tmp_path: Path, sealer: Sealer) -> None:
    one, other = [await SqliteStore(tmp_path / "state.db").open() for _ in range(2)]
    event = StoredEvent("t", 1.0, "node_start")
    stores = [StateStoreOf(one, sealer), StateStoreOf(other, sealer)]
    await asyncio.gather(*(stores[n % 2].save_event(event) for n in range(10)))
    assert await stores[0].load_history("t") == [event]
    await one.close()
    await other.close()


async def test_a_planners_state_is_handed_out_once(store: SqliteStore, sealer: Sealer) -> None:
    served = StateStoreOf(store, sealer)
    await served.save_planner_state("tok", {"trajectory": {"steps": [1]}})
    await served.save_planner_state("tok", {"trajectory": {"steps": [2]}})
    loads = await asyncio.gather(*(served.load_planner_state("tok") for _ in range(20)))
    assert [load for load in loads if load is not None] == [{"trajectory": {"steps": [2]}}]
    assert await served.load_planner_state("unknown") is None


async def test_what_others_keep_with_us_cannot_be_read(
    store: SqliteStore, sealer: Sealer, tmp_path: Path
) -> None:
    served = StateStoreOf(store, sealer)
    await served.save_event(StoredEvent("t", 1.0, "x", payload={"secret": "planted-41"}))
    await served.save_planner_state("tok", {"secret": "planted-41"})
    await served.save_remote_binding(Binding("t", None, "task", "https://planted-41.example"))
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as database:
        rows = [database.execute(f"SELECT * FROM {name}").fetchall() for name in ("run_events", "secrets")]
    assert [len(found) for found in rows] == [1, 2]
    assert "planted-41" not in str(rows)


async def test_our_runs_can_live_in_anothers_store(
    store: SqliteStore, sealer: Sealer, tmp_path: Path
) -> None:
    effects: list[str] = []

    @tool
    def effect() -> str:
        effects.append("effect")
        return "done"

    @tool
    async def ask_me(context: Context) -> str:
        return (await context.call("effect")).text + context.ask("And?")

    foreign = StateStoreOf(store, sealer)
    settings = Settings(tmp_path, {"store": ":memory:"})
    async with spindle.open(settings=settings, tools=[effect, ask_me], run_store=RunsIn(foreign)) as app:
        outcome = await app.run("ask_me")
        assert isinstance(outcome, Paused)
    async with spindle.open(settings=settings, tools=[effect, ask_me], run_store=RunsIn(foreign)) as app:
        done = await app.resume(outcome.pauses[0].token, " and dusted")
        assert isinstance(done, Finished)
        assert done.result.text == "done and dusted"
        assert effects == ["effect"]
