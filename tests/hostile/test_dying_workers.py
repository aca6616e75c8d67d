"""Workers that die, stand still and lose the database while they execute runs, and a database that dies,
stands still and hangs up: every run ends, no finished step is made again, and a dead worker's runs go on
within seconds. `make soak` does the same for longer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hostile.conftest import Figures
from servers.postgres import PostgresServer, running_server
from servers.workers import Place, WorkerProcess, flow, until_it_is, worker, workspace
from spindle.app import Spindle
from spindle.domain.run import Run
from spindle.errors import SpindleError

STEPS = 10
FREEZE = 12.0
"""Seconds: longer than the lease of a worker."""
TAKEOVER = 3.0
BY_LOCK = 6.0
"""Seconds in which a death is certainly seen by the lock of the dead, on any machine: its lease would tell it
later."""
LONGEST_WAIT = 10.0
SEEN = 12.0
"""Seconds in which a fault is noticed: the lease of a worker, and a look."""
AT_ONCE = 12
"""Runs at once."""
FAULTS = ("kill", "kill", "hang up", "cut", "kill", "die", "freeze", "kill", "stand still", "cut", "restart")


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


@dataclass(frozen=True)
class Fault:
    """What was broken, and from when to when it could not be worked with."""

    kind: str
    pid: int
    """The worker's process, or 0 for the database."""
    began: float
    ended: float


async def busy(place: Place, workers: list[WorkerProcess], chance: random.Random) -> int:
    """Returns the number of a worker that has a step in flight and others of its run before it; any if there
    is none for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_WAIT):
            while True:
                last = {line["item"]: line for line in place.lines()}
                at_it = {
                    line["pid"]
                    for line in last.values()
                    if line["what"] == "begun" and line["step"] < STEPS - 1
                }
                found = [number for number, one in enumerate(workers) if one.pid in at_it]
                if found:
                    return chance.choice(found)
                await asyncio.sleep(0.05)
    return chance.randrange(len(workers))


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

    async def kill(self, number: int) -> Fault:
        """Kills a worker and starts another in its place."""
        dead, at = self.workers[number].pid, time.time()
        await self.workers[number].end(signal.SIGKILL)
        self.workers[number] = await self._started(self.cables[number])
        return Fault("kill", dead, at, at)

    async def cut(self, number: int, seconds: float) -> Fault:
        cut, at = self.workers[number].pid, time.time()
        await self.cables[number].cut(seconds)
        return Fault("cut", cut, at, time.time())

    async def freeze(self, number: int) -> Fault:
        frozen, at = self.workers[number], time.time()
        frozen.signal(signal.SIGSTOP)
        await asyncio.sleep(FREEZE)
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile
            frozen.signal(signal.SIGCONT)
        return Fault("freeze", frozen.pid, at, time.time())


async def broken(server: PostgresServer, kind: str, seconds: float) -> Fault:
    """Breaks the database server, and mends it."""
    began = time.time()
    if kind == "hang up":
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    elif kind == "stand still":
        frozen = server.processes()
        for process in frozen:
            process.suspend()
        await asyncio.sleep(seconds)
        for process in frozen:
            process.resume()
    else:
        if kind == "die":
            for process in server.processes():
                process.kill()
        await asyncio.to_thread(server.stop, signal.SIGQUIT)
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(server.start)
    return Fault(kind, 0, began, time.time())


def takeovers(lines: list[dict[str, Any]], faults: list[Fault]) -> tuple[list[float], list[float]]:
    """Returns, of each run that a dead worker had in hand, the seconds until another made a step of it: first
    those of runs that nothing else happened to, then those where the database or the next worker was broken
    meanwhile too."""
    alone: list[float] = []
    others: list[float] = []
    by_run: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_run.setdefault(line["item"], []).append(line)
    for steps in by_run.values():
        for before, after in itertools.pairwise(steps):
            for death in faults:
                if (
                    death.kind == "kill"
                    and before["pid"] == death.pid != after["pid"]
                    and before["at"] <= death.began <= after["at"]
                ):
                    at = (death.began, after["at"])
                    (others if _was_hindered(death, at, faults) else alone).append(at[1] - at[0])
    return sorted(alone), sorted(others)


def _was_hindered(death: Fault, at: tuple[float, float], faults: list[Fault]) -> bool:
    """True if nobody could go on at once: the database was broken, or both other workers, or one of them was
    broken later, perhaps with the run in hand."""
    meanwhile = [fault for fault in faults if fault.began < at[1] and fault.ended > at[0] and fault != death]
    return len({fault.pid for fault in meanwhile}) > 1 or any(
        not fault.pid or fault.began > at[0] for fault in meanwhile
    )


async def attack(tmp_path: Path, server: PostgresServer, runs: int, seconds: float, *, is_long: bool) -> str:
    """Executes runs on three workers while these and the database are attacked, and checks what became of
    them."""
    # Workers that are left have room for the runs of those that died.
    settings = f"[engine.queues.default]\nconcurrency = {AT_ONCE}\n"
    place = workspace(tmp_path, server.url(schema="attacked"), settings)
    place.save("ten", flow(STEPS, seconds=0.25))
    chance = random.Random(7)
    faults: list[Fault] = []
    frozen: list[asyncio.Task[Fault]] = []
    async with place.opened() as app, contextlib.AsyncExitStack() as stack:
        assert [report.error for report in await app.sync()] == [None, None]
        fleet = Fleet(place, stack)
        await fleet.start(3)
        places = asyncio.Semaphore(AT_ONCE)
        executing = asyncio.gather(*[executed(app, f"i{number}", places) for number in range(runs)])
        ends = time.monotonic() + seconds
        for kind in itertools.cycle(FAULTS):
            if time.monotonic() > ends:
                break
            await asyncio.sleep(chance.uniform(0.5, 1.5))
            number = chance.randrange(3)
            if kind == "kill":
                faults.append(await fleet.kill(await busy(place, fleet.workers, chance)))
            elif kind == "cut":
                faults.append(await fleet.cut(number, chance.uniform(0.2, 2.0)))
            elif kind == "freeze":
                frozen.append(asyncio.create_task(fleet.freeze(number)))
            else:
                faults.append(await broken(server, kind, chance.uniform(0.2, 2.0)))
        faults += await asyncio.gather(*frozen)
        assert {run.status for run in await executing} == {"done"}
    ended = place.counted("ended")
    assert set(ended) == {(f"i{number}", step) for number in range(runs) for step in range(STEPS)}
    again = check_repeated(place.lines(), faults)
    check_order(place.lines(), faults)
    alone, others = takeovers(place.lines(), faults)
    assert alone or others, "no worker died with a run in hand"
    slowest, limit = (alone[-1:], TAKEOVER) if is_long else (alone[len(alone) // 2 :][:1], BY_LOCK)
    assert all(seconds < limit for seconds in slowest), (alone, others, faults)
    deaths = sum(fault.kind == "kill" for fault in faults)
    of_database = sum(not fault.pid for fault in faults)
    return (
        f"{runs} runs of {STEPS} steps, {len(faults)} faults ({deaths} deaths of workers, {of_database} of"
        f" the database): {again} steps in flight were made again; after a worker's death went on"
        f" {spread(alone)}; where something else was broken too {spread(others)}"
    )


def spread(seconds: list[float]) -> str:
    """Says how long it took."""
    if not seconds:
        return "no run"
    middle = seconds[len(seconds) // 2]
    return f"{len(seconds)} runs after {middle:.2f} s (median), {seconds[-1]:.2f} s at the latest"


async def executed(app: Spindle, item: str, places: asyncio.Semaphore) -> Run:
    async with places:
        while True:
            try:
                run = await app.submit("ten", {"item": item}, dedup=item)
                return await until_it_is(app, run.id, "done", "failed", "cancelled")
            except SpindleError:  # the database is away
                await asyncio.sleep(0.2)


def check_repeated(lines: list[dict[str, Any]], faults: list[Fault]) -> int:
    """Asserts that each step that was begun again had been in flight at a fault of its worker or of the
    database. Returns how many there were."""
    begun: dict[tuple[str, int], dict[str, Any]] = {}
    count = 0
    for line in lines:
        if line["what"] != "begun":
            continue
        before = begun.get((line["item"], line["step"]))
        begun[line["item"], line["step"]] = line
        if before is None:
            continue
        count += 1
        why = [
            fault
            for fault in faults
            if fault.pid in (0, before["pid"], line["pid"]) and fault.began <= line["at"]
            and fault.ended + SEEN >= before["at"]
        ]  # fmt: skip
        assert why, (before, line, faults)
    return count


def check_order(lines: list[dict[str, Any]], faults: list[Fault]) -> None:
    """Asserts that no step was begun after a later step of its run: what is on record is not made again. The
    step that a process had in flight begins where it wakes up, if it was frozen, or when the database is
    back, if it had lost that just before: one for each run. It is known to do no harm; others are noted
    first."""
    reached: dict[str, int] = {}
    woken: set[tuple[str, int]] = set()
    for line in lines:
        if line["what"] != "begun":
            continue
        item, step, pid, at = line["item"], line["step"], line["pid"], line["at"]
        if step >= reached.get(item, 0):
            reached[item] = step
            continue
        why = [
            fault
            for fault in faults
            if fault.kind != "kill" and fault.pid in (0, pid) and fault.began <= at
            and (fault.kind == "freeze" or at <= fault.ended + SEEN)
        ]  # fmt: skip
        assert why, (line, [each for each in lines if each["item"] == item], faults)
        assert (item, pid) not in woken, (line, [each for each in lines if each["item"] == item], faults)
        woken.add((item, pid))


@pytest.fixture
def attacked() -> Iterator[PostgresServer]:
    """A server that no other test uses."""
    with running_server() as server:
        yield server


async def test_runs_outlive_workers_that_die_stand_still_and_lose_the_database(
    tmp_path: Path, attacked: PostgresServer
) -> None:
    print(await attack(tmp_path, attacked, runs=50, seconds=15, is_long=False))


@pytest.mark.soak
async def test_runs_outlive_workers_for_minutes(
    tmp_path: Path, attacked: PostgresServer, seconds: float, figures: Figures
) -> None:
    figures(await attack(tmp_path, attacked, runs=200, seconds=seconds, is_long=True))
