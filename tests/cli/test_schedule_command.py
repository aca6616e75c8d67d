"""`spindle schedule`, from the shell."""

from __future__ import annotations

import json
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
        [warm.SPINDLE, "schedule", *words],
        cwd=workspace, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def told(workspace: Path, *words: str) -> Any:
    return json.loads(said(workspace, *words, "--json"))


def test_a_schedule_is_added_listed_run_paused_resumed_and_removed(workspace: Path) -> None:
    cron = ("--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--catch-up", "2")
    made = json.loads(said(workspace, "add", "--json", *cron, "nightly", "twice", "--number=2"))
    assert (made["name"], made["flow"], made["zone"], made["catch_up"]) == (
        "nightly", "twice", "Europe/Berlin", 2,
    )  # fmt: skip
    assert "2" in said(workspace, "add", "--every", "15m", "tool", "double", "--number", "3")
    listed = told(workspace, "list")
    assert [(each["name"], each["last_outcome"]) for each in listed] == [("nightly", None), ("tool", None)]
    assert told(workspace, "run", "tool")["status"] == "queued"
    paused = told(workspace, "pause", "nightly")
    assert (paused["paused"], paused["next_at"]) == (True, None)
    assert told(workspace, "resume", "nightly")["next_at"] == made["next_at"]
    assert told(workspace, "remove", "nightly") == {"removed": "nightly"}
    assert "did you mean 'tool'?" in said(workspace, "pause", "tol", code=3)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("add", "x", "twice", "--number=2"), 2, "say when it ticks"),
        (("add", "--every", "1m", "--cron", "* * * * *", "x", "twice"), 2, "say when it ticks"),
        (("add", "--every", "1m", "--tz", "UTC", "x", "twice", "--number=2"), 2, "--tz is for --cron"),
        (("add", "--cron", "* * * *", "x", "twice", "--number=2"), 4, "five or six fields"),
        (("add", "--every", "1m", "x", "twice", "--number=two"), 4, "number"),
        (("add", "--every", "1m", "x", "twcie", "--number=2"), 3, "did you mean 'twice'?"),
        (("add", "--every", "1m", "x", "twice", "--number=2", "--queue", "q"), 2, "belongs before the name"),
        (("add", "--every", "soon", "x", "twice", "--number=2"), 2, "is no length of time"),
    ],
)
def test_mistakes_are_said_in_one_line(
    workspace: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    shown = said(workspace, *words, code=code)
    assert message in shown
    assert "Traceback" not in shown
