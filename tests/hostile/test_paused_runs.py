"""Runs that wait for people for an hour: they cost no CPU, no connection and no statement of the database,
and all go on when they are answered. `make test-rest` and `make soak` do so with a thousand."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import spindle
from hostile.conftest import Figures
from servers.postgres import PostgresServer, running_server
from servers.workers import workspace
from spindle.app import Spindle
from spindle.calls.clock import Clock
from spindle.serving.working import work

HOUR = 3600.0
WINDOW = 2.0
"""Seconds in which the hour passes."""
APPROVED = """
inputs: {item: {type: string}}
nodes:
- {id: n0, tool: count, params: {item: "${item}", step: 0}}
- {id: n1, tool: count, params: {item: "${item}", step: 1}, approval: required}
edges: [{from: n0, to: n1}]
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server(shared_preload_libraries="pg_stat_statements") as started:
        started.execute("CREATE EXTENSION pg_stat_statements")
        yield started


@dataclass(frozen=True)
class Cost:
    """What an hour of waiting took."""

    cpu: float
    connections: int
    statements: int


class FakeTime:
    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


@contextlib.asynccontextmanager
async def working(app: Spindle) -> AsyncIterator[None]:
    ready = asyncio.Event()
    task = asyncio.create_task(work(app, ["default"], None, print, on_ready=ready.set))
    try:
        await ready.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def an_hour(server: PostgresServer | None, clock: FakeTime) -> Cost:
    """Lets an hour pass in a few seconds, and measures what this process and the database do meanwhile.
    Without a server, the store is a file."""
    if server is not None:
        server.execute("SELECT pg_stat_statements_reset()")
    cpu, ends = time.process_time(), time.monotonic() + WINDOW
    while (left := ends - time.monotonic()) > 0:
        await asyncio.sleep(min(left, WINDOW / 60))
        clock.ahead += HOUR / 60
    spent = time.process_time() - cpu
    if server is None:
        return Cost(spent, 0, 0)
    ((connections,),) = server.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paused'"
    )
    ((statements,),) = server.execute("SELECT sum(calls) FROM pg_stat_statements")
    return Cost(spent, connections, int(statements))


async def until(app: Spindle, status: str, count: int) -> None:
    async with asyncio.timeout(60 + count):
        while await counted(app, status) < count:
            await asyncio.sleep(0.1)


async def counted(app: Spindle, status: str) -> int:
    return len(await app.store.runs(limit=-1, status=status))  # pyright: ignore[reportArgumentType]


async def wait_for_an_hour(tmp_path: Path, server: PostgresServer | None, count: int) -> str:
    url = server and server.url(schema="paused", application_name="paused")
    place = workspace(tmp_path, url, "[engine.queues.default]\nconcurrency = 20\n")
    (place.root / "flows" / "approved.yaml").write_text(APPROVED)
    clock = FakeTime()
    opened = spindle.open(place.root, environ=place.environment(), clock=Clock(now=clock.now))
    async with opened as app:
        await app.sync()
        async with working(app):
            nobody = await an_hour(server, clock)
            for number in range(count):
                await app.submit("approved", {"item": f"i{number}"})
            await until(app, "paused", count)
            waiting = await an_hour(server, clock)
            assert await counted(app, "paused") == count
            for pause in await app.pauses():
                await app.resume(pause.token, True)
            await until(app, "done", count)
    assert place.counted("ended") == {(f"i{number}", step): 1 for number in range(count) for step in (0, 1)}
    # The same as without them: a worker that looks for work, whatever waits.
    assert waiting.connections <= nobody.connections + 5, (nobody, waiting)
    assert waiting.statements <= nobody.statements * 1.5 + 20, (nobody, waiting)
    assert waiting.cpu <= nobody.cpu * 2 + 0.1 * WINDOW, (nobody, waiting)
    return f"an hour without runs: {nobody}; with {count} that wait: {waiting}"


async def test_runs_that_wait_cost_nothing(tmp_path: Path, server: PostgresServer) -> None:
    print(await wait_for_an_hour(tmp_path, server, 30))


async def test_runs_that_wait_in_a_file_cost_nothing(tmp_path: Path) -> None:
    print(await wait_for_an_hour(tmp_path, None, 20))


@pytest.mark.soak
async def test_a_thousand_runs_wait_for_an_hour(
    tmp_path: Path, server: PostgresServer, figures: Figures
) -> None:
    figures(await wait_for_an_hour(tmp_path, server, 1000))
