"""The modules of a command: those that it does without, and the rest out of the sight of the collector of
circles."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# What measures coverage would be measured too.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
OF_A_SYNC = ("spindle.catalog.screening", "spindle.catalog.text_rules", "spindle.schemas.repair")
OF_A_SEARCH = ("spindle.stores.search", "spindle.stores.ranking", "spindle.stores.stem")
OF_A_SERVER = ("spindle.domain.access_entry", "spindle.domain.audit", "spindle.mcp_protocol.messages")
OF_RUNS = ("spindle.domain.event", "spindle.domain.schedule", "spindle.domain.trigger_state")
OF_QUESTIONS = ("spindle.calls.forms", "spindle.domain.question")
OF_OTHERS = (*OF_A_SYNC, *OF_A_SEARCH, *OF_A_SERVER, *OF_RUNS, *OF_QUESTIONS)

COLLECTOR = """
import gc
from spindle import tool

@tool
def collector() -> dict:
    "Tell what the collector does."
    seen = any(one is MARK for one in gc.get_objects())
    return {"works": gc.isenabled(), "spared": gc.get_freeze_count(), "sees_me": seen}

MARK = [collector]
"""


def loaded(words: list[str], names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Returns what a command prints, and those of the modules that it has loaded."""
    script = (
        "import json, sys\n"
        "from spindle.cli.main import execute\n"
        f"execute({words})\n"
        f"print(json.dumps([name for name in {names} if name in sys.modules]), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=UNMEASURED, check=True)
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


def test_a_call_loads_nothing_that_only_other_commands_need(workspace, spindle):
    workspace.add_server()
    spindle("sync")
    assert loaded(["call", "mini.echo", "text=hello"], OF_OTHERS) == ('{"text": "hello"}\n', [])


def test_a_listing_loads_no_validator(workspace, spindle):
    workspace.add_server()
    spindle("sync")
    printed, found = loaded(["tools"], (*OF_OTHERS, "pydantic", "pydantic_core"))
    assert "mini.echo" in printed
    assert found == []


def test_the_modules_of_a_call_are_not_looked_through(workspace, program):
    workspace.write("tools/t.py", COLLECTOR)
    found = json.loads(program("call", "collector").out)
    assert found["works"]
    assert found["spared"] > 20_000


def test_what_a_tool_makes_is_collected_as_ever(workspace, program):
    workspace.write("tools/t.py", COLLECTOR)
    assert json.loads(program("call", "collector").out)["sees_me"]
