"""Three processes of one workspace behind a proxy that hands each connection to the next. They die, and come
back; clients notice nothing but calls that were in flight there. `make soak` does the same for minutes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from servers.replicas import ANN, ARGUMENTS, ASKS, CLIENTS, EXPECTED, SAYS, Log, replicas, workspace
from servers.running import PATIENCE
from servers.serving import ERAS

EACH_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres"])
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


@pytest.fixture
def place(store: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres_url") if store == "postgres" else None


@EACH_STORE
@EACH_ERA
async def test_a_call_that_asks_outlives_every_process(tmp_path: Path, place: str | None, era: str) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def fill_in(_: Any, __: Any) -> ElicitResult:
        asked.set()
        await may_answer.wait()
        return ElicitResult(action="accept", content=ANN)

    async with (
        asyncio.timeout(6 * PATIENCE),
        replicas(workspace(tmp_path, place)) as (proxy, processes),
        Client(proxy.url, mode=ERAS[era], elicitation_callback=fill_in) as client,
    ):
        call = asyncio.create_task(client.call_tool(ASKS, ARGUMENTS[ASKS]))
        await asked.wait()
        for process in processes:
            await process.end(signal.SIGKILL)
            await process.start()
        may_answer.set()
        assert EXPECTED[ASKS] in str((await call).content)
        for _ in range(6):
            done = await client.call_tool(SAYS, ARGUMENTS[SAYS])
            assert EXPECTED[SAYS] in str(done.content), "the same session goes on"
    assert sum(taken > 0 for taken in proxy.taken.values()) > 1, "no process had it all"


@pytest.mark.parametrize("language", ["python", pytest.param("typescript", marks=pytest.mark.npm)])
@pytest.mark.parametrize(
    ("store", "how"),
    [("sqlite", signal.SIGKILL), ("sqlite", signal.SIGTERM), ("postgres", signal.SIGKILL)],
    ids=["sqlite-killed", "sqlite-stopped", "postgres-killed"],
)
@EACH_ERA
async def test_no_call_fails_but_those_in_flight_where_a_process_ends(
    tmp_path: Path, place: str | None, era: str, how: signal.Signals, language: str
) -> None:
    log, left = Log(), 0

    async def more(calls: int) -> None:
        """Waits for as many calls more."""
        until = len(log.calls) + calls
        while len(log.calls) < until:
            assert not calling.done(), calling
            await asyncio.sleep(0.02)

    async with asyncio.timeout(6 * PATIENCE), replicas(workspace(tmp_path, place)) as (proxy, processes):
        goes_on = True
        calling = asyncio.create_task(CLIENTS[language](proxy.url, era, log, lambda: goes_on))
        for process in processes:
            await more(6)
            await process.end(how)
            await more(6)
            await process.start()
        await more(6)
        goes_on = False
        left = sum(call.error is None for call in log.calls)
        await calling
    assert log.unexcused(proxy.cut) == []
    assert len(log.failed) <= 3, "one client has one call in flight when a process ends"
    assert left >= 30
    assert log.progress > 0
    assert all(len(ids) <= 1 for ids in log.sessions.values()), "no session is lost"
