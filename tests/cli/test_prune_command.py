from __future__ import annotations

import asyncio
import json
import time

from servers.shell import Run, Workspace
from spindle.domain.call import CallRecord
from spindle.domain.run import Run as StoredRun
from spindle.stores.sqlite import SqliteStore

DAY = 86400.0


def fill(workspace: Workspace) -> None:
    async def work() -> None:
        async with SqliteStore(workspace.root / ".spindle" / "state.db") as store:
            for age in (400, 100, 1):
                at = time.time() - age * DAY
                await store.save_call(CallRecord(f"k{age}", "a.b", "a", "ann", {}, "ok", at, 0.1, 1))
                await store.save_run(StoredRun("f", status="done", updated_at=at, id=f"done-{age}"))
            await store.save_run(StoredRun("f", status="paused", updated_at=1.0, id="paused"))

    asyncio.run(work())


def test_old_records_go_and_a_paused_run_stays(workspace: Workspace, spindle: Run) -> None:
    fill(workspace)
    done = spindle("prune")
    assert (done.code, done.out.splitlines()) == (
        0, ["removed 2 call records (404 bytes)", "removed 2 runs (400 bytes)"],
    )  # fmt: skip
    assert [call["key"] for call in json.loads(spindle("history", "--json").out)] == ["k1"]
    assert {run["id"] for run in json.loads(spindle("runs", "--json").out)} == {"paused", "done-1"}
    again = spindle("prune")
    assert (again.code, again.out) == (0, "")
    assert "nothing is over the limits" in again.err


def test_a_dry_run_says_what_would_go(workspace: Workspace, spindle: Run) -> None:
    fill(workspace)
    workspace.write("spindle.toml", '[retention]\ncalls = { age = "200d" }\nruns = { age = "unlimited" }\n')
    assert spindle("prune", "--dry-run").out == "would remove 1 call record (202 bytes)\n"
    seen = json.loads(spindle("prune", "--dry-run", "--json").out)
    assert seen["dry_run"] is True
    assert {kind["kind"]: kind["count"] for kind in seen["removed"]} == {
        "calls": 1, "runs": 0, "events": 0, "audit": 0, "cache": 0, "files": 0,
    }  # fmt: skip
    assert len(json.loads(spindle("history", "--json").out)) == 3


def test_a_wrong_limit_is_named_by_its_path(workspace: Workspace, spindle: Run) -> None:
    for written, said in (
        ('calls = { age = "soon" }', "retention.calls.age: must be a time such as '90d'"),
        ("calls = { ages = 5 }", "retention.calls.ages: not a setting; did you mean `age`?"),
        ("runs = { count = -1 }", "retention.runs.count"),
        ('cache = { age = "1d" }', "retention.cache.age: not a setting"),
        ("every = 0", "retention.every"),
    ):
        workspace.write("spindle.toml", f"[retention]\n{written}\n")
        done = spindle("prune")
        assert (done.code, said in done.err) == (2, True), done.err
        assert said in spindle("doctor").out
    workspace.write("spindle.toml", "retention = 5\n")
    assert "`retention` must be a table" in spindle("prune").err
