"""Flows whose process is stopped in the middle, and that go on in another one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

SERVER = Path(__file__).parent / "counting_server.py"
HELD = 6


class Counted:
    """A workspace with a flow of ten nodes, each a call of a server that counts them."""

    def __init__(self, workspace: Any, store: str | None, in_doubt: str = "repeat") -> None:
        self.folder = workspace.root / "counting"
        self.folder.mkdir()
        os.mkfifo(self.folder / "held")
        command = json.dumps([sys.executable, "-I", "-S", str(SERVER), str(self.folder)])
        head = f"store = {json.dumps(store)}\n" if store else ""
        workspace.write(
            "spindle.toml",
            f'{head}[sources.c]\ncommand = {command}\nprotocol = "handshake"\ntimeout = 600\n'
            f'in_doubt = "{in_doubt}"\n',
        )
        nodes: list[dict[str, Any]] = [{"id": "s1", "tool": "c.step", "params": {"n": 1}}]
        nodes += [
            {"id": f"s{n}", "tool": "c.step", "params": {"n": n, "before": f"${{s{n - 1}.n}}"}}
            for n in range(2, 11)
        ]
        edges = [{"from": f"s{n}", "to": f"s{n + 1}"} for n in range(1, 10)]
        document = {
            "version": 1,
            "name": "ten",
            "nodes": nodes,
            "edges": edges,
            "outputs": {"last": "${s10.n}"},
        }
        workspace.write("flows/ten.json", json.dumps(document))
        rounds = {
            "nodes": [{"id": "step", "tool": "c.step", "params": {"n": "${n}"}}],
            "outputs": {"n": "${step.n + 1}", "odd": "${if(n % 2 == 1, odd + [n], odd)}"},
        }
        document = {
            "version": 1,
            "name": "rounds",
            "nodes": [
                {"id": "begin", "transform": {"first": 1, "at": "${now()}"}},
                {
                    "id": "loop",
                    "loop": {"carry": {"n": "${first}", "odd": []}, "while": "n <= 10", "limit": 20},
                    "flow": rounds,
                },
                {"id": "many", "transform": {"odd": "${loop.odd}", "same": "${at == now()}"}},
                {"id": "few", "transform": {"odd": None}},
            ],
            "edges": [
                {"from": "begin", "to": "loop"},
                {"from": "loop", "to": "many", "when": "len(loop.odd) > 3"},
                {"from": "loop", "to": "few", "when": "else"},
            ],
        }
        workspace.write("flows/rounds.json", json.dumps(document))

    @property
    def calls(self) -> list[int]:
        return [int(line) for line in (self.folder / "calls").read_text().split()]

    @contextlib.contextmanager
    def held(self, *words: str, flow: str = "ten") -> Iterator[subprocess.Popen[str]]:
        """The flow as a process, that stands in the middle of its sixth call."""
        (self.folder / "hold").write_text(str(HELD))
        process = subprocess.Popen(
            [sys.executable, "-m", "spindle", "run", *words, flow],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            with (self.folder / "held").open() as told:
                assert told.readline() == f"{HELD}\n"
            (self.folder / "hold").unlink()
            yield process
        finally:
            process.kill()
            process.communicate(timeout=300)


def at_sqlite(workspace: Any) -> None:
    with contextlib.closing(sqlite3.connect(workspace.root / ".spindle" / "state.db")) as database:
        database.execute("UPDATE runs SET lease_until = lease_until - 60")
        database.commit()


@pytest.fixture(params=["sqlite", "postgres"])
def counted(request: pytest.FixtureRequest, workspace: Any) -> Iterator[tuple[Counted, Callable[[], None]]]:
    """And what makes half a minute pass, after which a process without signs of life counts as dead."""
    if request.param == "sqlite":
        yield Counted(workspace, None), lambda: at_sqlite(workspace)
        return
    url = request.getfixturevalue("postgres_url")

    def later() -> None:
        with psycopg.connect(url.partition("?")[0]) as connection:
            schema = url.partition("schema=")[2].partition("&")[0]
            connection.execute(f"UPDATE {schema}.runs SET lease_until = lease_until - 60")

    yield Counted(workspace, url), later


def run_of(program: Any, status: str) -> str:
    (run,) = program("runs", "--json").json
    assert run["status"] == status
    return run["id"]


def test_a_killed_loop_goes_on_with_the_values_it_carried(counted: Any, program: Any) -> None:
    flow, half_a_minute_passes = counted
    program("sync")
    with flow.held(flow="rounds") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=300)
    assert flow.calls == [1, 2, 3, 4, 5, 6]
    run = run_of(program, "running")
    half_a_minute_passes()
    done = program("resume", run[:10])
    assert (done.code, json.loads(done.out)) == (0, {"odd": [1, 3, 5, 7, 9], "same": True}), done.err
    assert flow.calls == [1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10]
    traced = program("trace", run, "--json").json
    taken = {node["node"]: node.get("action") for node in traced["nodes"]}
    assert taken["loop"] == "when len(loop.odd) > 3"
    assert [node for node in taken if node.startswith("loop")] == [
        "loop/step", *(f"loop@{number}/step" for number in range(2, 11)), "loop",
    ]  # fmt: skip
    # As it ends when nothing is killed.
    assert json.loads(program("run", "rounds").out) == json.loads(done.out)


def test_a_killed_flow_goes_on_without_calling_finished_nodes_again(counted: Any, program: Any) -> None:
    ten, half_a_minute_passes = counted
    program("sync")
    with ten.held() as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=300)
    assert ten.calls == [1, 2, 3, 4, 5, 6]
    run = run_of(program, "running")
    half_a_minute_passes()
    done = program("resume", run[:10])
    assert (done.code, json.loads(done.out)) == (0, {"last": 10}), done.err
    # What was begun and not answered is called again, as the settings say; what was done is not.
    assert ten.calls == [1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10]
    told = [line.split()[1] for line in done.err.splitlines() if line.startswith("✓")]
    assert told == [f"s{n}" for n in range(6, 11)]
    assert "note: 5 nodes done before\n" in done.err
    traced = program("trace", run, "--json").json
    assert (traced["status"], [node["node"] for node in traced["nodes"]]) == (
        "done", [f"s{n}" for n in range(1, 11)],
    )  # fmt: skip
    assert program("resume", run).out == done.out
    assert len(ten.calls) == 11


def test_ctrl_c_stops_a_flow_that_resume_goes_on_with(counted: Any, program: Any) -> None:
    ten, _ = counted
    program("sync")
    with ten.held() as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    run = run_of(program, "cancelled")
    assert err.splitlines()[-2:] == ["spindle: cancelled", f"  to continue: spindle resume {run[:12]}"]
    done = program("resume", "last", "--json")
    assert (done.code, done.json["structured"]) == (0, {"last": 10})
    assert ten.calls == [1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10]
    assert run_of(program, "done") == run


def test_what_was_in_flight_is_called_again_when_a_person_says_so(workspace: Any, program: Any) -> None:
    ten = Counted(workspace, None, in_doubt="ask")
    program("sync")
    with ten.held() as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    asked = program("resume", "last")
    assert (asked.code, "c.step was begun and may have been done" in asked.err) == (75, True)
    assert ten.calls == [1, 2, 3, 4, 5, 6]
    (pause,) = program("pauses", "--json").json
    done = program("resume", pause["token"], "--answer", '{"done": true, "result": {"n": 6}}', "--json")
    assert (done.code, done.json["structured"]) == (0, {"last": 10})
    assert ten.calls == list(range(1, 11))


def test_a_terminated_flow_is_told_as_json_too(workspace: Any, program: Any) -> None:
    ten = Counted(workspace, None)
    program("sync")
    with ten.held("--json") as process:
        process.terminate()
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 143
    error = json.loads(out)["error"]
    assert error["category"] == "cancelled"
    assert error["run_id"] == run_of(program, "cancelled")


def test_a_run_that_another_process_executes_is_left_to_it(workspace: Any, program: Any) -> None:
    ten = Counted(workspace, None)
    program("sync")
    with ten.held():
        run = run_of(program, "running")
        # Waits until the other process gives a sign of life, as it does every ten seconds.
        refused = program("resume", run)
        assert refused.code == 10
        assert refused.err.splitlines()[0] == f"spindle: another process executes run {run}"
    assert ten.calls == [1, 2, 3, 4, 5, 6]
