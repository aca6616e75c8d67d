"""Three replicas behind a proxy, of which one is killed or stopped every few seconds, while clients of both
eras in Python and TypeScript call all the time. `tests/acceptance/test_replicas.py` has the short form."""

from __future__ import annotations

import asyncio
import collections
import random
import signal
import time
from pathlib import Path

import pytest

from hostile.conftest import Figures
from servers.replicas import CLIENTS, Log, replicas, workspace
from servers.running import PATIENCE
from servers.serving import ERAS

EVERY = 3.0
"""Seconds between two ends."""


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_no_session_is_lost_while_replicas_die(
    tmp_path: Path, store: str, seconds: float, figures: Figures, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue("postgres_url") if store == "postgres" else None
    log, chance, ends = Log(), random.Random(7), 0
    async with (
        asyncio.timeout(seconds + 4 * PATIENCE),
        replicas(workspace(tmp_path, place)) as (proxy, processes),
    ):
        until = time.monotonic() + seconds
        calling = [
            asyncio.create_task(call(proxy.url, era, log, lambda: time.monotonic() < until))
            for call in CLIENTS.values()
            for era in ERAS
        ]
        while time.monotonic() < until:
            process = chance.choice(processes)
            await process.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
            ends += 1
            await process.start()
            await asyncio.wait(calling, timeout=EVERY)
            assert not [task for task in calling if task.done() and time.monotonic() < until], calling
        await asyncio.gather(*calling)
    by_client = collections.Counter(call.client for call in log.calls)
    slowest = max(call.ended - call.began for call in log.calls)
    figures(
        f"{ends} ends, calls {dict(by_client)}, {len(log.failed)} in flight failed, longest {slowest:.1f} s"
    )
    for (client, tool, error), count in collections.Counter(
        (call.client, call.tool, str(call.error)[:120]) for call in log.failed
    ).most_common():
        figures(f"  {count} x {client}, {tool}: {error}")
    assert not [process.said.decode() for process in processes if b"Traceback" in process.said]
    assert len(by_client) == len(calling)
    assert log.unexcused(proxy.cut) == []
    assert slowest < 2 * PATIENCE, "no call ran into its own time limit"
    assert len(log.failed) <= ends * len(calling), "each client has one call in flight when a process ends"
    assert log.progress > 0
    assert all(len(ids) <= 1 for ids in log.sessions.values()), "no session is lost"
