"""Real processes that make vectors: one is killed at it, and two sync at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import Answer, Endpoint, serving

import spindle
from servers import warm
from servers.running import PATIENCE
from spindle.stores.postgres import PostgresStore
from spindle.stores.sqlite import SqliteStore

TOOLS = 150
"""More than two requests to the endpoint."""
FUNCTION = '''
@tool
def number_{0}() -> str:
    """Does the work of number {0}."""
    return "{0}"

'''


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    (tmp_path / "tools").mkdir()
    functions = "".join(FUNCTION.format(number) for number in range(TOOLS))
    (tmp_path / "tools" / "many.py").write_text(f"from spindle import tool\n\n{functions}")
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else "state.db"
    (tmp_path / "spindle.toml").write_text(
        f'store = "{store}"\n[search]\nembedder = "openai"\nbase_url = "{endpoint.address}"\nmodel = "m"\n'
        "timeout = 60\n"
    )
    return tmp_path


async def syncing(workspace: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        warm.SPINDLE, "-w", str(workspace), "sync",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip


@contextlib.asynccontextmanager
async def opened(workspace: Path) -> AsyncIterator[Any]:
    async with spindle.open(workspace) as app:
        assert isinstance(app.store, SqliteStore | PostgresStore)
        yield app


async def all_there(app: Any, endpoint: Endpoint) -> None:
    """Nothing is left to make."""
    before = len(endpoint.asked)
    await app.catalog.meaning.settled()
    assert len(endpoint.asked) == before
    [found] = await app.search("number_77", limit=1)
    assert found.name == "number_77"


def texts(endpoint: Endpoint) -> list[str]:
    return [text for asked in endpoint.asked for text in asked["input"]]


class Gate:
    """Lets so many requests pass, and holds the next ones until it is open."""

    def __init__(self, passing: int) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._passing = passing
        self._lock = threading.Lock()

    def __call__(self, asked: dict[str, Any]) -> Answer | None:
        with self._lock:
            self._passing -= 1
            held = self._passing < 0
        if held:
            self.reached.set()
            self.open.wait(PATIENCE)
        return None


async def test_after_kill_9_another_process_makes_only_the_vectors_that_are_missing(
    workspace: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = gate = Gate(1)
    process = await syncing(workspace)
    assert await asyncio.to_thread(gate.reached.wait, PATIENCE)
    os.kill(warm.pid_of(process.pid), signal.SIGKILL)
    await process.communicate()
    gate.open.set()
    made = endpoint.asked[0]["input"]
    async with opened(workspace) as app:
        # The lease of the dead process ends by itself after a while; here that while is over.
        await app.store._change("DELETE FROM {schema}.leases")
    endpoint.asked.clear()
    second = await syncing(workspace)
    await second.communicate()
    assert second.returncode == 0
    again = texts(endpoint)
    assert len(made) + len(again) == 2 * TOOLS
    assert not set(made) & set(again), "what was kept is not made again"
    async with opened(workspace) as app:
        await all_there(app, endpoint)


async def test_two_processes_that_sync_at_once_share_the_work(workspace: Path, endpoint: Endpoint) -> None:
    endpoint.answer = gate = Gate(0)
    first, second = await syncing(workspace), await syncing(workspace)
    assert await asyncio.to_thread(gate.reached.wait, PATIENCE)
    gate.open.set()
    await asyncio.gather(first.communicate(), second.communicate())
    assert (first.returncode, second.returncode) == (0, 0)
    given = texts(endpoint)
    assert len(given) == len(set(given)) == 2 * TOOLS, "no text is given to the model twice"
    async with opened(workspace) as app:
        await all_there(app, endpoint)
