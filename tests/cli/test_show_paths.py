"""`spindle show TOOL --paths` and `spindle call --parse`."""

from __future__ import annotations

from servers.shell import Run, Workspace

TOOLS = """
from spindle import Result, tool

@tool
def listed() -> Result:
    \"\"\"Answers JSON as text.\"\"\"
    return Result.of_text('{"items": [{"id": 7, "odd name": "x"}], "next": null}')

@tool
def promised() -> dict[str, list[int]]:
    return {"n": [1]}

@tool
def plain() -> Result:
    return Result.of_text("no json")
"""


def test_paths_are_those_of_the_last_result(workspace: Workspace, program: Run) -> None:
    workspace.write("tools/t.py", TOOLS)
    unknown = program("show", "listed", "--paths")
    assert (unknown.code, "spindle call listed" in unknown.err) == (3, True)
    program("run", "-q", "listed")
    of_run = program("show", "listed", "--paths", "--json").json
    assert of_run["of"].startswith("node listed of run")
    program("call", "listed")
    shown = program("show", "listed", "--paths")
    assert shown.out.splitlines() == [
        "${listed}\tobject\t",
        "${listed.items}\tlist of 1\t",
        "${listed.items[0]}\tobject\t",
        "${listed.items[0].id}\tinteger\t7",
        '${listed.items[0]["odd name"]}\tstring\t"x"',
        "${listed.next}\tnull\t",
    ]
    assert "of the call" in shown.err
    promised = program("show", "promised", "--paths", "--json").json
    assert promised["of"] == "schema"
    assert {"path": "promised", "type": "object"} in promised["paths"]


def test_a_call_prints_the_value_of_its_text(workspace: Workspace, program: Run) -> None:
    workspace.write("tools/t.py", TOOLS)
    assert program("call", "listed", "--parse=json", "--json").json["structured"]["items"][0]["id"] == 7
    assert program("call", "listed", "--json").json["structured"] is None
    assert program("call", "plain", "--parse=auto").out == "no json\n"
    wrong = program("call", "plain", "--parse=json")
    assert wrong.code != 0
    assert "plain should return JSON" in wrong.err
