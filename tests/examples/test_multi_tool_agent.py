"""The example with tools of four kinds, with a scripted model in the place of a provider's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from servers import warm
from servers.running import REPOSITORY
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn

EXAMPLE = REPOSITORY / "examples" / "multi-tool-agent"

CALLS = [
    ToolCall("free_hours", {"people": ["ann", "bob"]}),
    ToolCall("calendar_month", {"year": 2026, "month": 11}),
    ToolCall("proposal", {"people": ["ann", "bob"], "topic": "Prices"}),
    ToolCall(
        "time_convert_time", {"source_timezone": "UTC", "time": "11:00", "target_timezone": "Asia/Tokyo"}
    ),
]
INVITE = ToolCall("invite", {"people": ["ann", "bob"], "day": "2026-11-20", "hour": "11:00"})


def run(folder: Path, model: ModelServer, typed: str) -> subprocess.CompletedProcess[str]:
    workspace = folder / "example"
    shutil.copytree(EXAMPLE, workspace, ignore=shutil.ignore_patterns(".spindle", "__pycache__"))
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        **model.environment(),
        "PATH": os.pathsep.join([str(warm.FOLDER), str(scripts), os.environ["PATH"]]),
        "SPINDLE_HOME": str(folder / "home"),
    }
    return subprocess.run(
        [warm.PYTHON, "agent.py", "Find an hour for Ann and Bob on Friday, and invite them."],
        cwd=workspace, env=environment, input=typed, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_the_agent_uses_tools_of_four_kinds_and_waits_for_a_person(tmp_path: Path) -> None:
    def conclude(request: ModelRequest) -> str:
        return f"Done: {request.tool_answers[-1].text}."

    with ModelServer(Turn(calls=CALLS), Turn(calls=[INVITE]), conclude) as model:
        done = run(tmp_path, model, "y\n")
        assert done.returncode == 0, done.stderr
        assert "invited ann and bob on 2026-11-20 at 11:00 UTC" in done.stdout
        assert "(3 answers of the model" in done.stdout
        first, second, _ = model.requests
        offered = {"free_hours", "invite", "agenda", "proposal", "calendar_month", "time_convert_time"}
        assert offered <= set(first.tool_names)
        hours, month, proposal, tokyo = [answer.text for answer in second.tool_answers]
        assert "11:00" in hours
        assert "November 2026" in month
        assert "Prices: news" in proposal
        assert "20:00" in tokyo


def test_an_invitation_that_is_refused_is_not_sent(tmp_path: Path) -> None:
    def conclude(request: ModelRequest) -> str:
        return request.tool_answers[-1].text

    with ModelServer(Turn(calls=[INVITE]), conclude) as model:
        done = run(tmp_path, model, "n\n")
    assert done.returncode == 0, done.stderr
    assert "was not approved" in done.stdout
    assert "invited ann" not in done.stdout
