"""The modules of a command, out of the sight of the collector of circles."""

from __future__ import annotations

import json

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


def test_the_modules_of_a_call_are_not_looked_through(workspace, program):
    workspace.write("tools/t.py", COLLECTOR)
    found = json.loads(program("call", "collector").out)
    assert found["works"]
    assert found["spared"] > 20_000


def test_what_a_tool_makes_is_collected_as_ever(workspace, program):
    workspace.write("tools/t.py", COLLECTOR)
    assert json.loads(program("call", "collector").out)["sees_me"]
