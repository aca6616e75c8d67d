"""`spindle flow`, `spindle check`, and what `doctor` says of flows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.test_run_command import SHOUT, TOOLS

BROKEN = """version: 1
nodes:
- {id: a, tool: uper, params: {text: x}}
- {id: b, tool: split, params: {text: "${a}", by: 3}}
edges:
- {from: a, to: b, action: nope}
"""


@pytest.fixture
def flows(workspace: Any) -> Any:
    workspace.write("tools/words.py", TOOLS)
    return workspace


def test_a_line_of_tools_is_saved_and_is_a_tool(flows: Any, spindle: Any) -> None:
    done = spindle("flow", "save", "words", "upper >> split >> count", "--description", "How many words")
    assert (done.code, done.out) == (0, "saved words in flows/words.json\n")
    assert done.err == "try: … | spindle run words\n"
    document = json.loads((flows.root / "flows" / "words.json").read_text())
    tool = spindle("show", "upper", "--json").json
    assert document["nodes"][0] == {
        "id": "upper", "tool": "upper", "params": {"text": "${stdin}"}, "fingerprint": tool["fingerprint"],
    }  # fmt: skip
    assert spindle("call", "words", "--stdin=a b c").out == "3\n"
    assert spindle("flow", "list").out == "words\t3\tflows/words.json\tHow many words\n"
    assert spindle("flow", "show", "words", "--pipe").out == (
        'upper --text="${stdin}" >> split --text="${upper}" >> count --words="${split}"\n'
    )
    assert spindle("flow", "remove", "words").out == "removed flows/words.json\n"
    assert spindle("call", "words").code == 3
    assert spindle("flow", "list").err.startswith("note: there are no saved flows yet")


def test_a_saved_flow_holds_full_names(flows: Any, spindle: Any) -> None:
    flows.add_server()
    spindle("sync")
    spindle("flow", "save", "say", "echo --text=hi")
    document = json.loads((flows.root / "flows" / "say.json").read_text())
    assert document["nodes"][0]["tool"] == "mini.echo"


def test_a_flow_is_written_over_only_when_told_to(flows: Any, spindle: Any) -> None:
    spindle("flow", "save", "words", "upper")
    refused = spindle("flow", "save", "words", "split")
    assert refused.code == 2
    assert "flows/words.json exists already; nothing was changed" in refused.err
    done = spindle("flow", "save", "words", "split", "--force", "--format=yaml", "--json")
    assert done.json == {"saved": "words", "file": "flows/words.yaml", "problems": []}
    assert [path.name for path in (flows.root / "flows").iterdir()] == ["words.yaml"]
    assert "tool: split" in (flows.root / "flows" / "words.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["save", "upper", "split"], 2, "there is already a tool 'upper' (of tools)"),
        (["save", "a b", "split"], 2, "'a b' cannot be the name of a flow"),
        (["save", "../up", "split"], 2, "'../up' cannot be the name of a flow"),
        (["save", "new", "spilt"], 3, "there is neither a flow nor a tool 'spilt'"),
        (["show", "none"], 3, "there is neither a flow nor a tool 'none'"),
        (["draw", "none"], 3, "there is neither a flow nor a tool 'none'"),
        (["remove", "none"], 3, "there is no saved flow 'none'"),
        (["drwa"], 2, "there is no command 'drwa'"),
    ],
)
def test_a_mistake_is_one_message(
    flows: Any, spindle: Any, words: list[str], code: int, message: str
) -> None:
    done = spindle("flow", *words)
    assert (done.code, done.out, done.err.splitlines()[0]) == (code, "", f"spindle: {message}")
    assert not (flows.root / "flows").exists()


def test_a_flow_that_would_fail_is_not_saved(flows: Any, spindle: Any) -> None:
    flows.write("broken.yaml", BROKEN)
    done = spindle("flow", "save", "words", "broken.yaml")
    assert done.code == 12
    assert done.out.startswith(
        "error: broken.yaml:3: a: there is no tool 'uper'\n    hint: did you mean 'upper'?"
    )
    assert done.err == "spindle: nothing was saved\n"
    assert not (flows.root / "flows").exists()


def test_a_flow_is_shown_in_words_and_as_a_document(flows: Any, spindle: Any) -> None:
    flows.write("flows/shout.yaml", SHOUT)
    shown = spindle("flow", "show", "shout").out
    assert shown.startswith(
        "shout  (flows/shout.yaml)\n\n  Say it loud, and count the words.\n\nInputs:\n--text "
    )
    assert "  parts  split\n           text = ${loud}\n           then: n\n" in shown
    assert "Outputs:\n  loud = ${loud}\n  n = ${n}\n" in shown
    document = spindle("flow", "show", "shout", "--json").json
    assert [node["id"] for node in document["nodes"]] == ["loud", "parts", "n"]
    assert spindle("flow", "show", "shout", "--pipe").code == 12


def test_check_names_every_problem_with_its_file_and_line(flows: Any, spindle: Any) -> None:
    flows.write("flows/broken.yaml", BROKEN)
    done = spindle("check", "broken")
    assert done.code == 12
    told = [line for line in done.out.splitlines() if not line.startswith(" ")]
    assert told[0] == "error: flows/broken.yaml:3: a: there is no tool 'uper'"
    assert all(line.startswith(("error: flows/broken.yaml:", "warning: flows/broken.yaml:")) for line in told)
    assert any(":4:" in line for line in told)
    as_json = spindle("flow", "check", "flows/broken.yaml", "--json")
    assert (as_json.code, as_json.json["ok"]) == (12, False)
    assert as_json.json["problems"][0] | {"hint": None} == {
        "severity": "error", "message": "a: there is no tool 'uper'", "hint": None,
        "place": "flows/broken.yaml", "line": 3,
    }  # fmt: skip


def test_check_without_a_name_looks_at_all_saved_flows(flows: Any, spindle: Any) -> None:
    assert spindle("check").err == "note: there are no saved flows yet\n"
    flows.write("flows/shout.yaml", SHOUT)
    flows.write("flows/bad.json", '{"version": 1, "nodes": [\n{"id": "a", "tol": "upper"}]}')
    done = spindle("check")
    assert done.code == 12
    assert done.out.startswith("error: flows/bad.json:2: ")
    assert spindle("check", "shout").out == "no problems found\n"
    assert spindle("check", "upper --text=x >> split").out == "no problems found\n"
    wrong = spindle("check", "upper --text=x >> spilt")
    assert (wrong.code, wrong.out.splitlines()[0]) == (12, "error: 1:19: there is no tool 'spilt'")


def test_check_says_when_a_tool_has_changed(flows: Any, spindle: Any) -> None:
    spindle("flow", "save", "words", "upper --text=x >> split")
    flows.write("tools/words.py", TOOLS.replace("Make it loud.", "Make it louder."))
    done = spindle("check", "words")
    assert done.code == 0
    assert "upper has changed since the flow was saved" in done.out


def test_a_flow_is_drawn(flows: Any, spindle: Any) -> None:
    flows.write("flows/shout.yaml", SHOUT)
    assert spindle("flow", "draw", "shout").out.startswith("flowchart")
    assert spindle("flow", "draw", "shout", "--svg").out.startswith("<svg")
    done = spindle("flow", "draw", "upper --text=x >> split", "--out", "picture.svg")
    assert (done.code, done.err) == (0, "note: drawn into picture.svg\n")
    assert (flows.root / "picture.svg").read_text().startswith("<svg")


def test_doctor_finds_broken_flows_and_those_that_would_fail(flows: Any, spindle: Any) -> None:
    flows.write("flows/bad.json", '{"version": 1, "nodes": [\n{"id": "a", "tol": "upper"}]}')
    flows.write("flows/broken.yaml", BROKEN)
    done = spindle("doctor", "--json")
    assert done.code == 1
    problems = [found for found in done.json["findings"] if found["level"] == "problem"]
    assert any("flows/bad.json:2" in found["message"] for found in problems)
    assert {"level": "problem", "subject": "flows/broken.yaml:3", "message": "a: there is no tool 'uper'",
            "fix": "did you mean 'upper'?"} in problems  # fmt: skip


def test_names_of_flows_and_runs_complete(flows: Any, program: Any) -> None:
    import os

    flows.write("flows/shout.yaml", SHOUT)
    program("run", "shout", "--text=x")

    def completed(line: str) -> list[str]:
        count = str(len(line.split(" ")) - 1)
        environment = {
            **os.environ,
            "_SPINDLE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": count,
        }
        return [entry.split(",")[1] for entry in program(env=environment).out.splitlines()]

    assert completed("spindle run sho") == ["shout"]
    assert completed("spindle flow show sho") == ["shout"]
    last, run = completed("spindle trace ")
    assert last == "last"
    assert program("trace", run).code == 0
