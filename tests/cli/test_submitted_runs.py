"""Runs in the background, from the shell."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.running import PATIENCE

TOOLS = """
from spindle import tool

@tool(idempotent=True)
def double(number: int) -> int:
    "Twice as much."
    return 2 * number
"""
FLOW = """
inputs: {number: {type: integer}}
nodes:
- {id: doubled, tool: double, params: {number: "${number}"}}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in {"spindle.toml": "", "tools/doubling.py": TOOLS, "flows/twice.yaml": FLOW}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def said(workspace: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [warm.SPINDLE, *words], cwd=workspace, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def told(workspace: Path, *words: str) -> Any:
    return json.loads(said(workspace, *words, "--json"))


def test_a_run_is_submitted_cancelled_retried_and_executed(workspace: Path) -> None:
    run = told(workspace, "run", "--detach", "twice", "--number=2", "--priority=5")
    assert (run["status"], run["queue"], run["priority"]) == ("queued", "default", 5)
    assert told(workspace, "runs", "cancel", run["id"])["status"] == "cancelled"
    assert "only one that has not ended" in said(workspace, "runs", "cancel", run["id"], code=2)
    assert told(workspace, "runs", "retry", run["id"][:12])["status"] == "queued"
    later = said(
        workspace, "run", "--detach", "--at", "90d", "--queue", "default", "twice", "--number=3"
    ).strip()
    # It does not wait for those whose time has not come.
    said(workspace, "worker", "--until-empty", "--concurrency", "1")
    assert told(workspace, "runs", "cancel", later)["status"] == "cancelled"
    (done,) = told(workspace, "runs", "--status", "done")
    assert done["id"] == run["id"]
    assert "only one that failed or was cancelled" in said(workspace, "runs", "retry", run["id"], code=10)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--queue", "default", "twice", "--number=1"], "--queue is for runs in a queue"),
        (["run", "--detach", "--only", "doubled", "twice"], "--only and --detach do not go together"),
        (["run", "--detach", "--at", "soon", "twice"], "'soon' is no time"),
        (["worker", "--concurrency", "0"], "0 is not in the range"),
        (["agent", "--detach", "--stream", "look"], "--stream and --detach do not go together"),
        (["agent", "--queue", "default", "look"], "--queue is for runs in a queue"),
    ],
)
def test_a_mistake_is_said(workspace: Path, words: list[str], message: str) -> None:
    assert message in said(workspace, *words, code=2)


def test_without_an_engine_the_way_to_one_is_said(workspace: Path) -> None:
    (workspace / "spindle.toml").write_text('[engine]\nkind = "local"\n')
    for words in (["run", "--detach", "twice", "--number=1"], ["worker"]):
        assert "pip install 'spindle-tools[durable]'" in said(workspace, *words, code=2)


def test_runs_are_followed(workspace: Path) -> None:
    said(workspace, "run", "twice", "--number=1")
    with subprocess.Popen(
        [warm.SPINDLE, "runs", "--follow"], cwd=workspace, stdout=subprocess.PIPE, text=True
    ) as follow:
        assert follow.stdout is not None
        run = said(workspace, "run", "--detach", "twice", "--number=2").strip()
        shown = follow.stdout.readline()
        assert run[:12] in shown, "one that had ended before is not shown"
        assert "queued" in shown
        said(workspace, "worker", "--until-empty")
        while "done" not in shown:
            shown = follow.stdout.readline()
            assert run[:12] in shown
        follow.send_signal(signal.SIGINT)
