"""The same as in test_dying_workers with Temporal as the engine: workers die, stand still and are cut off
from the database and from Temporal, whose server is killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hostile.conftest import Figures
from hostile.test_dying_workers import FREEZE, STEPS, Cables, Fault, check_order
from servers.temporal import TemporalServer
from servers.workers import Place, WorkerProcess, flow, until_it_is, worker, workspace

FAULTS = ("kill", "cut", "kill", "freeze", "cut", "restart")
AT_ONCE = 4


class Fleet:
    """Three workers, each with cables of its own to the database and to Temporal."""

    def __init__(self, place: Place, temporal: TemporalServer, stack: contextlib.AsyncExitStack) -> None:
        self._place = place
        self._temporal = temporal
        self._stack = stack
        self.workers: list[WorkerProcess] = []
        self.cables: list[list[Cables]] = []

    async def start(self, count: int) -> None:
        url = urlsplit(self._place.store or "")
        assert url.port is not None
        ports = [url.port, self._temporal.port]
        for _ in range(count):
            cables = [
                await self._stack.enter_async_context(Cables("127.0.0.1", port).plugged()) for port in ports
            ]
            self.cables.append(cables)
            self.workers.append(await self._started(cables))

    async def _started(self, cables: list[Cables]) -> WorkerProcess:
        assert self._place.store is not None
        port = urlsplit(self._place.store).port
        store = self._place.store.replace(f"127.0.0.1:{port}", f"127.0.0.1:{cables[0].port}")
        environment = {"SPINDLE_STORE": store, "TEMPORAL_ADDRESS": f"127.0.0.1:{cables[-1].port}"}
        return await self._stack.enter_async_context(worker(self._place, **environment))

    async def kill(self, number: int) -> tuple[int, float]:
        """Kills a worker and starts another in its place. Returns which process died, and when."""
        dead, at = self.workers[number].pid, time.time()
        await self.workers[number].end(signal.SIGKILL)
        self.workers[number] = await self._started(self.cables[number])
        return dead, at

    async def freeze(self, number: int) -> Fault:
        frozen, at = self.workers[number], time.time()
        frozen.signal(signal.SIGSTOP)
        await asyncio.sleep(FREEZE)
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile
            frozen.signal(signal.SIGCONT)
        return Fault("freeze", frozen.pid, at, time.time())


def takeovers(lines: list[dict[str, Any]], deaths: list[tuple[int, float]]) -> list[float]:
    """Returns, of each run that a dead worker had in hand, the seconds until another made a step of it."""
    found: list[float] = []
    by_run: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_run.setdefault(line["item"], []).append(line)
    for steps in by_run.values():
        for before, after in itertools.pairwise(steps):
            for pid, at in deaths:
                if before["pid"] == pid and after["pid"] != pid and before["at"] <= at <= after["at"]:
                    found.append(after["at"] - at)
    return found


async def attack(tmp_path: Path, store: str, temporal: TemporalServer, runs: int, seconds: float) -> str:
    """Executes runs on three workers while they are attacked, and checks what became of them."""
    settings = temporal.settings("${TEMPORAL_ADDRESS}")
    place = workspace(tmp_path, store, settings + f"[engine.queues.default]\nconcurrency = {AT_ONCE}\n")
    place.save("ten", flow(STEPS, seconds=0.25))
    chance = random.Random(7)
    deaths: list[tuple[int, float]] = []
    frozen: list[asyncio.Task[Fault]] = []
    faults = 0
    async with place.opened(TEMPORAL_ADDRESS=temporal.address) as app, contextlib.AsyncExitStack() as stack:
        assert [report.error for report in await app.sync()] == [None, None]
        fleet = Fleet(place, temporal, stack)
        await fleet.start(3)
        submitted = [await app.submit("ten", {"item": f"i{number}"}) for number in range(runs)]
        ends = time.monotonic() + seconds
        for count, kind in enumerate(itertools.cycle(FAULTS)):
            if time.monotonic() > ends and count >= len(FAULTS):
                break
            await asyncio.sleep(chance.uniform(0.5, 1.5))
            number = chance.randrange(3)
            faults += 3 if kind == "restart" else 1
            if kind == "kill":
                deaths.append(await fleet.kill(number))
            elif kind == "cut":
                await chance.choice(fleet.cables[number]).cut(chance.uniform(0.2, 2.0))
            elif kind == "restart":
                temporal.stop()
                await asyncio.sleep(chance.uniform(0.2, 2.0))
                temporal.start()  # in this thread: it ends with the one that starts it
            else:
                frozen.append(asyncio.create_task(fleet.freeze(number)))
        freezes = await asyncio.gather(*frozen)
        for run in submitted:
            ended = await until_it_is(app, run.id, "done", "failed", "cancelled")
            assert ended.status == "done", ended.error
    ended = place.counted("ended")
    begun = place.counted("begun")
    assert set(ended) == {(f"i{number}", step) for number in range(runs) for step in range(STEPS)}
    # Steps in flight at a fault are made again: at most those that a worker may have in hand.
    again = sum(begun.values()) - len(begun)
    assert again <= faults * AT_ONCE, (again, faults)
    check_order(place.lines(), freezes)
    waits = sorted(takeovers(place.lines(), deaths))
    assert waits, "no worker died with a run in hand"
    # A death is seen after two seconds or so; then the run waits for a worker with a free place, or a server.
    assert waits[len(waits) // 2] < FREEZE, waits
    middle, longest = waits[len(waits) // 2], waits[-1]
    return (
        f"{runs} runs of {STEPS} steps, {faults} faults: {again} steps in flight were made again; a run went"
        f" on {middle:.2f} s after its worker's death (median), {longest:.2f} s at the latest"
    )


async def test_runs_outlive_workers_that_are_lost_to_temporal_and_a_restart_of_its_server(
    tmp_path: Path, postgres_url: str, temporal_server: TemporalServer
) -> None:
    print(await attack(tmp_path, postgres_url, temporal_server, 30, 14))


@pytest.mark.soak
async def test_runs_outlive_workers_for_minutes_on_temporal(
    tmp_path: Path, postgres_url: str, temporal_server: TemporalServer, seconds: float, figures: Figures
) -> None:
    figures(await attack(tmp_path, postgres_url, temporal_server, 100, seconds))
