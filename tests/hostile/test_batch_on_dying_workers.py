"""A batch over workers that die, stand still and lose the database, on a database that dies, stands still and
hangs up, cancelled in the middle and taken up again: every item once and in its place, those that failed by
their names, and nothing made again but what was in flight. `make soak` does it with many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.conftest import Figures
from hostile.test_dying_workers import Fault, Fleet, broken, check_repeated
from servers.postgres import PostgresServer, running_server
from servers.running import PATIENCE
from servers.workers import Place, until_it_is, workspace
from spindle.app import Spindle
from spindle.domain.run import Run
from spindle.errors import StoreError
from spindle.runs.parts import ids_of

WORKERS, PARTS_AT_ONCE, ITEMS_AT_ONCE = 3, 3, 4
SETTINGS = f"[engine.queues.default]\nconcurrency = {PARTS_AT_ONCE}\n"
UNLUCKY = 97
"""Each so many items one fails."""
TOOLS = f'''


@tool(idempotent=True)
def picky(context: Context, item: int, seconds: float, last: int) -> int:
    """Take a moment, the last ones until they may go on, and refuse some."""
    note("begun", str(item), 0, key=context.step_id)
    time.sleep(seconds)
    while item >= last and not (HERE / "go").exists():
        time.sleep(0.05)
    note("ended", str(item), 0, key=context.step_id)
    if item % {UNLUCKY} == {UNLUCKY - 1}:
        raise ToolError(f"{{item}} is unlucky")
    return -item
'''


def made(folder: Path, server: PostgresServer, count: int, seconds: float) -> Place:
    place = workspace(folder, server.url(schema="batch"), SETTINGS)
    counting = (place.root / "tools" / "counting.py").read_text()
    (place.root / "tools" / "counting.py").write_text(counting + TOOLS)
    batch = {"over": "${items}", "spread": True, "concurrency": ITEMS_AT_ONCE, "keep_errors": True}
    params = {"item": "${item}", "seconds": seconds, "last": count * 8 // 10}
    node = {"id": "each", "tool": "picky", "params": params, "batch": batch}
    outputs = {"seen": "${each}", "failed": "${each.failed}"}
    flow = {"inputs": {"items": {"type": "array"}}, "nodes": [node], "outputs": outputs}
    place.save("all", json.dumps(flow))
    return place


async def begun(place: Place, count: int) -> None:
    """Waits until so many items were begun."""
    log, read, found = place.root / "log", 0, 0
    async with asyncio.timeout(3600):
        while found < count:
            await asyncio.sleep(0.1)
            if log.exists() and (size := log.stat().st_size) > read:
                with log.open("rb") as lines:
                    lines.seek(read)
                    read, found = size, found + lines.read(size - read).count(b'"what": "begun"')


def memory(pid: int, what: str) -> int:
    """The memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{what}:"))


async def until_it_answers(app: Spindle, run: Run) -> None:
    """Waits until the database is back."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(StoreError):
                await app.store.run(run.id)
                return
            await asyncio.sleep(0.2)


async def taken_up_again(app: Spindle, run: Run) -> Fault:
    """Cancels a run in the middle, and lets it go on."""
    began = time.time()
    await app.runner.cancel(await until_it_is(app, run.id, "paused"), "not now")
    statuses = set((await app.store.parts(ids_of(run.id))).values())
    assert "cancelled" in statuses, "it was in the middle"
    assert statuses <= {"cancelled", "done"}
    assert await app.runner.submissions.retry(run.id) is None
    return Fault("cancel", 0, began, time.time())


async def attacked_batch(folder: Path, server: PostgresServer, count: int, seconds: float) -> str:
    """Has three workers do a batch while these and the database are attacked, and checks what became of each
    item."""
    place = made(folder, server, count, seconds)
    faults: list[Fault] = []
    async with place.opened() as app, contextlib.AsyncExitStack() as stack:
        assert [report.error for report in await app.sync()] == [None, None]
        fleet = Fleet(place, stack)
        await fleet.start(WORKERS)
        idle = [memory(one.pid, "VmRSS") for one in fleet.workers]
        began = time.monotonic()
        run = await app.submit("all", {"items": list(range(count))})
        await begun(place, count // 10)
        faults.append(await fleet.kill(0))
        await begun(place, count * 2 // 10)
        frozen = asyncio.create_task(fleet.freeze(1))
        await begun(place, count * 25 // 100)
        faults.append(await fleet.cut(2, 1.5))
        for percent, kind in ((30, "hang up"), (40, "die"), (50, "stand still")):
            await begun(place, count * percent // 100)
            faults.append(await broken(server, kind, 1.5))
        await begun(place, count * 6 // 10)
        await until_it_answers(app, run)
        faults.append(await taken_up_again(app, run))
        (place.root / "go").touch()
        faults.append(await frozen)
        ended = await until_it_is(app, run.id, "done", "failed", "cancelled", patience=3600)
        took = time.monotonic() - began
        result = (await app.runner.outcome(ended)).structured
        most = [memory(one.pid, "VmHWM") for one in fleet.workers]
        parts = await app.store.parts(ids_of(run.id))
    unlucky = [item for item in range(count) if item % UNLUCKY == UNLUCKY - 1]
    bad = set(unlucky)
    assert result["seen"] == [None if item in bad else -item for item in range(count)], "in their order"
    assert [item["index"] for item in result["failed"]] == unlucky
    assert all("is unlucky" in item["error"]["message"] for item in result["failed"])
    assert set(parts.values()) == {"done"}
    lines = place.lines()
    assert set(place.counted("ended")) == {(str(item), 0) for item in range(count)}, "nothing is lost"
    again = check_repeated(lines, faults)
    hit = sum(1 if fault.pid else WORKERS for fault in faults)
    assert again <= hit * PARTS_AT_ONCE * ITEMS_AT_ONCE, (again, faults)
    assert max(place.counted("begun").values()) <= 1 + len(faults)
    keys = {(line["item"], line["key"]) for line in lines if line["what"] == "begun"}
    assert len(keys) == count, "an item that is made again has the key that it had"
    return (
        f"{count} items on 3 workers in {took:.0f} s, {len(faults)} faults: {again} items in flight were made"
        f" again; workers had {idle} MiB before, {most} MiB at most"
    )


@pytest.fixture
def attacked() -> Iterator[PostgresServer]:
    """A server that no other test uses."""
    with running_server() as server:
        yield server


@pytest.mark.long
async def test_a_batch_outlives_its_workers_its_database_and_being_cancelled(
    tmp_path: Path, attacked: PostgresServer
) -> None:
    print(await attacked_batch(tmp_path, attacked, 2_000, 0.05))


@pytest.mark.soak
async def test_a_hundred_thousand_items_outlive_workers(
    tmp_path: Path, attacked: PostgresServer, figures: Figures
) -> None:
    count = int(os.environ.get("SOAK_ITEMS", "100000"))
    figures(await attacked_batch(tmp_path, attacked, count, 0.0))
