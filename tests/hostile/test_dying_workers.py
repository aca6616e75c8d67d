"""Workers that die, stand still and lose the database while they execute runs: every run ends, no finished
step is made again, and a dead worker's runs go on within seconds. `make soak` does the same for longer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hostile.conftest import Figures
from servers.workers import Place, WorkerProcess, flow, until_it_is, worker, workspace

STEPS = 10
FREEZE = 12.0
"""Seconds: longer than the lease of a worker."""


class Cables:
    """A TCP proxy before the database, which can cut all connections and let none through for a while."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.port = 0

    @contextlib.asynccontextmanager
    async def plugged(self) -> AsyncIterator[Cables]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self._hang_up()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
        finally:
            for each in pair:
                each.transport.abort()
            self._writers -= pair

    def _hang_up(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def cut(self, seconds: float) -> None:
        self._is_cut = True
        self._hang_up()
        await asyncio.sleep(seconds)
        self._is_cut = False


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class Fleet:
    """Three workers, each with a cable of its own to the database."""

    def __init__(self, place: Place, stack: contextlib.AsyncExitStack) -> None:
        self._place = place
        self._stack = stack
        self.workers: list[WorkerProcess] = []
        self.cables: list[Cables] = []

    async def start(self, count: int) -> None:
        url = urlsplit(self._place.store or "")
        assert url.port is not None
        for _ in range(count):
            cables = await self._stack.enter_async_context(Cables("127.0.0.1", url.port).plugged())
            self.cables.append(cables)
            self.workers.append(await self._started(cables))

    async def _started(self, cables: Cables) -> WorkerProcess:
        assert self._place.store is not None
        port = urlsplit(self._place.store).port
        store = self._place.store.replace(f"127.0.0.1:{port}", f"127.0.0.1:{cables.port}")
        return await self._stack.enter_async_context(worker(self._place, SPINDLE_STORE=store))

    async def kill(self, number: int) -> tuple[int, float]:
        """Kills a worker and starts another in its place. Returns which process died, and when."""
        dead, at = self.workers[number].pid, time.time()
        await self.workers[number].end(signal.SIGKILL)
        self.workers[number] = await self._started(self.cables[number])
        return dead, at

    async def freeze(self, number: int) -> None:
        frozen = self.workers[number]
        frozen.signal(signal.SIGSTOP)
        await asyncio.sleep(FREEZE)
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile
            frozen.signal(signal.SIGCONT)


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


async def attack(tmp_path: Path, store: str, runs: int, seconds: float) -> str:
    """Executes runs on three workers while they are attacked, and checks what became of them."""
    place = workspace(tmp_path, store, "[engine.queues.default]\nconcurrency = 4\n")
    place.save("ten", flow(STEPS, seconds=0.25))
    chance = random.Random(7)
    deaths: list[tuple[int, float]] = []
    frozen: list[asyncio.Task[None]] = []
    faults = 0
    async with place.opened() as app, contextlib.AsyncExitStack() as stack:
        assert [report.error for report in await app.sync()] == [None, None]
        fleet = Fleet(place, stack)
        await fleet.start(3)
        submitted = [await app.submit("ten", {"item": f"i{number}"}) for number in range(runs)]
        ends = time.monotonic() + seconds
        kinds = itertools.cycle(["kill", "cut", "kill", "freeze"])
        while time.monotonic() < ends:
            await asyncio.sleep(chance.uniform(0.5, 1.5))
            number, kind = chance.randrange(3), next(kinds)
            faults += 1
            if kind == "kill":
                deaths.append(await fleet.kill(number))
            elif kind == "cut":
                await fleet.cables[number].cut(chance.uniform(0.2, 2.0))
            else:
                frozen.append(asyncio.create_task(fleet.freeze(number)))
        await asyncio.gather(*frozen)
        for run in submitted:
            ended = await until_it_is(app, run.id, "done", "failed", "cancelled")
            assert ended.status == "done", ended.error
    ended = place.counted("ended")
    begun = place.counted("begun")
    assert set(ended) == {(f"i{number}", step) for number in range(runs) for step in range(STEPS)}
    # Steps in flight at a fault are made again: at most those that a worker may have in hand.
    again = sum(begun.values()) - len(begun)
    assert again <= faults * 4, (again, faults)
    check_order(place.lines())
    waits = sorted(takeovers(place.lines(), deaths))
    assert waits, "no worker died with a run in hand"
    assert waits[len(waits) // 2] < 3
    middle, longest = waits[len(waits) // 2], waits[-1]
    return (
        f"{runs} runs of {STEPS} steps, {faults} faults: {again} steps in flight were made again; a run went"
        f" on {middle:.2f} s after its worker's death (median), {longest:.2f} s at the latest"
    )


def check_order(lines: list[dict[str, Any]]) -> None:
    """Asserts that no step was begun after a later step of its run: what is on record is not made again."""
    reached: dict[str, int] = {}
    for line in lines:
        if line["what"] == "begun":
            assert line["step"] >= reached.get(line["item"], 0), line
            reached[line["item"]] = line["step"]


async def test_runs_outlive_workers_that_die_stand_still_and_lose_the_database(
    tmp_path: Path, postgres_url: str
) -> None:
    print(await attack(tmp_path, postgres_url, runs=80, seconds=25))


@pytest.mark.soak
async def test_runs_outlive_workers_for_minutes(
    tmp_path: Path, postgres_url: str, seconds: float, figures: Figures
) -> None:
    figures(await attack(tmp_path, postgres_url, runs=200, seconds=seconds))
