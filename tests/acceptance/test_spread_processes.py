"""Batches, limits and keys over several real workers on PostgreSQL, some of which are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from servers.charging import charging_server
from servers.http_server import HttpServer
from servers.running import PATIENCE
from servers.workers import Place, until_it_is, worker, workspace
from spindle.runs.parts import ids_of

BATCH = {"over": "${items}", "concurrency": 4}
TOTAL = "[engine.queues.two]\ntotal = 2\n"


@pytest.fixture
def place(postgres_url: str, tmp_path: Path) -> Place:
    made = workspace(tmp_path, postgres_url, TOTAL)
    params = {"item": "${item}", "step": 0}
    each = {"id": "each", "tool": "count", "params": params, "batch": {**BATCH, "spread": 10}}
    made.save("each", json.dumps({"inputs": {"items": {"type": "array"}}, "nodes": [each]}))
    slow = {"id": "slow", "tool": "count", "params": {**params, "seconds": 0.05}}
    made.save("slow", json.dumps({"inputs": {"item": {"type": "string"}}, "nodes": [slow]}))
    return made


async def ended(place: Place, count: int) -> None:
    async with asyncio.timeout(PATIENCE * 4):
        while sum(line["what"] == "ended" for line in place.lines()) < count:
            await asyncio.sleep(0.05)


async def test_a_batch_over_three_workers_survives_the_death_of_one(place: Place) -> None:
    items = [str(number) for number in range(300)]
    async with place.opened() as app, contextlib.AsyncExitStack() as workers:
        await app.sync()
        processes = [await workers.enter_async_context(worker(place)) for _ in range(3)]
        run = await app.submit("each", {"items": items})
        await ended(place, 60)
        await processes[0].end(signal.SIGKILL)
        done = await until_it_is(app, run.id, "done", "failed", patience=PATIENCE * 4)
        assert (await app.runner.outcome(done)).structured == items, "in the order of the items"
        parts = await app.store.parts(ids_of(run.id))
        assert (len(parts), set(parts.values())) == (30, {"done"})
        assert [found.id for found in await app.store.runs(limit=-1)] == [run.id]
    lines = place.lines()
    begun = place.counted("begun")
    assert set(begun) == {(item, 0) for item in items}
    # A worker has up to ten parts in hand, of which each has up to four items in flight.
    again = [item for item, times in begun.items() if times > 1]
    assert len(again) <= 40
    assert max(begun.values()) <= 2
    keys = {(line["item"], line["key"]) for line in lines if line["what"] == "begun"}
    assert len(keys) == len(items), "an item that is made again has the key that it had"
    assert len({line["pid"] for line in lines}) >= 2, "more than one worker did it"


async def test_no_more_runs_execute_than_all_workers_together_may(place: Place) -> None:
    async with place.opened() as app, contextlib.AsyncExitStack() as workers:
        await app.sync()
        for _ in range(3):
            await workers.enter_async_context(worker(place, "--queue", "two"))
        runs = [await app.submit("slow", {"item": str(number)}, queue="two") for number in range(12)]
        for run in runs:
            await until_it_is(app, run.id, "done")
    at_once = most = 0
    for line in place.lines():
        at_once += 1 if line["what"] == "begun" else -1
        most = max(most, at_once)
    assert most <= 2


async def test_a_source_gets_the_same_key_from_the_worker_that_takes_over(place: Place) -> None:
    """In a header, in a parameter, and in the `_meta` of an MCP request."""
    async with charging_server() as server, HttpServer() as shop:
        server.write(place.root, 'idempotency_key = { header = "Idempotency-Key" }\n')
        with (place.root / "spindle.toml").open("a") as settings:
            settings.write(
                '[sources.named]\nkind = "openapi"\ndocument = "api.json"\n'
                'idempotency_key = { parameter = "request_id" }\n'
                f'[sources.shop]\nurl = "{shop.url}"\nidempotency_key = {{ meta = "example.com/key" }}\n'
            )
        calls = {"header": ("api.charge", {"amount": 1}), "named": ("named.limit", {"amount": 1}),
                 "meta": ("shop.echo", {})}  # fmt: skip
        for name, (tool, params) in calls.items():
            place.save(name, json.dumps({"nodes": [{"id": "pay", "tool": tool, "params": params}]}))
        server.held |= {"charge", "limit"}
        shop.next("echo", "hang")
        async with place.opened() as app, worker(place) as first:
            await app.sync()
            runs = [await app.submit(name) for name in calls]
            await server.arrived(1, "charge")
            await server.arrived(1, "limit")
            async with asyncio.timeout(PATIENCE):
                while not any(seen.tool for seen in shop.seen):
                    await asyncio.sleep(0.02)
            async with worker(place):
                await first.end(signal.SIGKILL)
                await server.arrived(2, "charge")
                await server.arrived(2, "limit")
                await server.release()
                for run in runs:
                    await until_it_is(app, run.id, "done")
        found = {
            "header": [
                asked.headers["idempotency-key"] for asked in server.asked if asked.operation == "charge"
            ],
            "named": [asked.body["request_id"] for asked in server.asked if asked.operation == "limit"],
            "meta": [seen.message["params"]["_meta"]["example.com/key"] for seen in shop.seen if seen.tool],
        }
        assert {name: len(keys) for name, keys in found.items()} == dict.fromkeys(calls, 2)
        assert {name: len(set(keys)) for name, keys in found.items()} == dict.fromkeys(calls, 1)
        assert len({key for keys in found.values() for key in keys}) == 3


@pytest.mark.soak
async def test_a_hundred_thousand_items(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the time, and the memory of the process that submitted and of the workers."""
    count = int(os.environ.get("SOAK_ITEMS", "100000"))
    (place.root / "tools" / "plain.py").write_text(
        "from spindle import tool\n\n@tool(idempotent=True, read_only=True)\n"
        'def plain(item: int) -> int:\n    "Nothing."\n    return item + 1\n'
    )
    node = {
        "id": "each", "tool": "plain", "params": {"item": "${item}"},
        "batch": {"over": "${items}", "spread": True,
                  "reduce": {"sum": "${sum(results, item)}", "n": "${len(results)}"}},
    }  # fmt: skip
    place.save("many", json.dumps({"inputs": {"items": {"type": "array"}}, "nodes": [node]}))
    async with place.opened() as app, contextlib.AsyncExitStack() as workers:
        await app.sync()
        processes = [await workers.enter_async_context(worker(place)) for _ in range(3)]
        began = time.monotonic()
        run = await app.submit("many", {"items": list(range(count))})
        done = await until_it_is(app, run.id, "done", "failed", patience=3600)
        took = time.monotonic() - began
        result = (await app.runner.outcome(done)).structured
        assert result == {"sum": count * (count + 1) // 2, "n": count}
        peaks = [_peak(process.pid) for process in processes]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(f"\n{count} items on 3 workers in {took:.0f} s; MiB at most: workers {peaks}, submitter {own}")


def _peak(pid: int) -> int:
    """The most memory that a process has had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0
