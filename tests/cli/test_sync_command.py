"""`spindle sync`: what changed, what is held, what failed."""

from __future__ import annotations

import json

import pytest

A, B = ({"name": name, "description": name, "inputSchema": {"type": "object"}} for name in "ab")
CHANGED_A = {**A, "description": "now something else"}


def test_a_first_sync_shows_what_was_added(workspace, spindle):
    workspace.add_server(A, B)
    done = spindle("sync")
    assert done.code == 0
    first, *rest = done.out.splitlines()
    assert first.startswith("mini: 2 tools, 2 added (")
    assert rest == ["  + mini.a", "  + mini.b"]


@pytest.mark.parametrize("command", [["sync"], ["mcp", "sync"]])
def test_a_later_sync_shows_what_changed(workspace, spindle, command):
    workspace.add_server(A, B)
    spindle("sync")
    workspace.serve(CHANGED_A)
    first, *rest = spindle(*command).out.splitlines()
    assert first.startswith("mini: 1 tool, 1 removed, 1 changed (")
    assert rest == ["  - mini.b", "  ~ mini.a  (description)"]
    assert "no change" in spindle("sync", "mini").out


def test_a_pinned_source_holds_changes_until_they_are_accepted(workspace, spindle):
    workspace.add_server(A, B, pinned=True)
    spindle("sync")
    workspace.serve(CHANGED_A, {**B, "description": "also"})
    done = spindle("sync")
    assert done.out.splitlines()[1:] == ["  ! mini.a  (held: description)", "  ! mini.b  (held: description)"]
    assert "note: mini is pinned: accept with `spindle sync mini --accept TOOL` or --accept-all" in done.err
    assert "~ mini.a  (description)" in spindle("sync", "--accept", "a").out
    assert spindle("show", "mini.a", "--json").json["description"] == "now something else"
    assert spindle("show", "mini.b", "--json").json["description"] == "b"
    assert "~ mini.b" in spindle("sync", "mini", "--accept-all").out


def test_accepting_what_is_not_there_is_a_mistake(workspace, spindle):
    workspace.add_server(A, pinned=True)
    done = spindle("sync", "--accept", "mini.x")
    assert done.code == 3
    assert "spindle: there is no tool 'mini.x' to accept\n  hint: did you mean 'mini.a'?" in done.err


def test_one_source_that_fails_does_not_stop_the_others(workspace, spindle):
    workspace.add_server(A)
    workspace.write(
        "spindle.toml",
        "[sources.gone]\ncommand = ['no-such-program']\n" + (workspace.root / "spindle.toml").read_text(),
    )
    done = spindle("sync")
    assert done.code == 7
    assert "mini: 1 tool, 1 added" in done.out
    assert done.err == (
        "spindle: cannot start 'gone': 'no-such-program' was not found\n"
        "  hint: install the program, or give its whole path\n"
    )
    assert spindle("sync", "mini").code == 0


def test_the_json_has_a_report_for_every_source(workspace, spindle):
    workspace.add_server(A)
    workspace.write("tools/t.py", "")
    reports = spindle("sync", "--json").json
    assert [report["source"] for report in reports] == ["mini", "tools"]
    assert reports[0]["added"] == ["mini.a"]
    assert reports[0]["error"] is None


def test_a_long_list_is_cut(workspace, spindle):
    workspace.add_server(*({**A, "name": f"t{number:02}"} for number in range(40)))
    lines = spindle("sync").out.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  … and 20 more; `spindle tools --source mini`"


def test_an_unknown_source_is_a_mistake(workspace, spindle):
    workspace.add_server(A)
    done = spindle("sync", "mimi")
    assert (done.code, done.err) == (3, "spindle: there is no source 'mimi'\n  hint: did you mean 'mini'?\n")


def test_a_missing_variable_names_itself(workspace, spindle):
    workspace.add_server(A, env={"TOKEN": "${NO_SUCH_VARIABLE}"})
    # A TOML inline table, not JSON.
    text = (workspace.root / "spindle.toml").read_text()
    workspace.write(
        "spindle.toml",
        text.replace(json.dumps({"TOKEN": "${NO_SUCH_VARIABLE}"}), '{TOKEN = "${NO_SUCH_VARIABLE}"}'),
    )
    done = spindle("sync")
    assert done.code == 2
    assert done.err.startswith(
        "spindle: the environment variable NO_SUCH_VARIABLE is not set, but sources.mini.env.TOKEN uses it\n"
    )


def test_a_server_that_ends_at_once_shows_its_last_words(workspace, spindle):
    workspace.write("dies.py", "import sys\nsys.exit('I need more memory')\n")
    import sys

    workspace.write("spindle.toml", f"[sources.d]\ncommand = ['{sys.executable}', 'dies.py']\n")
    done = spindle("sync")
    assert done.code == 7
    assert "I need more memory" in done.err
    assert "Traceback" not in done.err


def test_of_the_mistakes_in_the_settings_a_source_is_blamed_for_its_own(workspace, spindle):
    workspace.write(
        "spindle.toml", "".join(f'[sources.{name}]\nkind = "cli"\nprogram = 5\n' for name in "ab")
    )
    spindle("tools")
    said = {row["name"]: json.dumps(row) for row in spindle("sources", "--json").json}
    assert "sources.a.program" in said["a"]
    assert "sources.b.program" not in said["a"]
    assert "sources.b.program" in said["b"]


def test_a_tool_that_cannot_be_used_is_left_out_and_every_command_says_so(workspace, spindle):
    hidden = {**A, "name": "a\u202eexe"}
    workspace.add_server(A, {**B, "annotations": "none"}, hidden)
    done = spindle("sync")
    assert done.code == 0
    assert done.out.startswith("mini: 1 tool, 1 added")
    assert "note: mini: the tool b is left out: annotations: " in done.err
    assert r"the tool a\u202eexe is left out: its name holds characters that are not seen" in done.err
    left_out = json.loads(spindle("sync", "--json").out)[0]["left_out"]
    assert [item["name"] for item in left_out] == ["b", r"a\u202eexe"]
    assert json.loads(spindle("sources", "--json").out)[0]["left_out"] == left_out
    assert r"left out b, a\u202eexe" in spindle("sources").out
    examined = spindle("doctor")
    assert examined.code == 1
    assert "the tool b is left out" in examined.out
    assert "`exclude`" in examined.out
    assert "note: mini: 2 left out; `spindle sync mini` says why" in spindle("tools").err


def test_what_is_excluded_is_no_finding(workspace, spindle):
    workspace.add_server(A, {**B, "annotations": "none"}, exclude=["b"])
    assert "left out" not in spindle("sync").err
    assert spindle("doctor").code == 0


@pytest.mark.parametrize("schema", [None, {}, [], {"type": "string"}])
def test_a_tool_without_a_schema_of_its_own_takes_any_object(workspace, spindle, schema):
    bad = {"name": "b", "description": "Does b."} | ({"inputSchema": schema} if schema is not None else {})
    workspace.add_server(A, bad)
    done = spindle("sync")
    assert done.code == 0
    assert done.out.startswith("mini: 2 tools, 2 added")
    # Nothing was dropped of one that is empty.
    assert ("mini.b is loosened: " in done.err) == (schema in ([], {"type": "string"}))
    assert json.loads(spindle("call", "mini.b", '{"x": 1, "y": "z"}').out) == {"x": 1, "y": "z"}
    assert json.loads(spindle("call", "mini.a", '{"text": "hello"}').out) == {"text": "hello"}


def test_a_schema_with_faults_costs_only_what_is_faulty_and_every_command_says_so(workspace, spindle):
    arguments = {
        "type": "object",
        "properties": {
            "when": {"type": "string", "pattern": "(["},
            "who": {"$ref": "#/$defs/gone"},
            "size": {"type": "int"},
            "count": {"type": "integer"},
        },
        "required": ["count"],
    }
    result = {"type": "object", "properties": {"a": {"type": "wrong"}}}
    workspace.add_server(
        A, {**B, "inputSchema": arguments}, {"name": "data", "inputSchema": {}, "outputSchema": result}
    )
    done = spindle("sync")
    assert done.code == 0
    said = (
        'note: mini: mini.b is loosened: input schema: properties.when.pattern: "([" is not a regular'
        ' expression that everybody can read; input schema: properties.who.$ref: "#/$defs/gone": it leads'
        ' nowhere; input schema: properties.size.type: must be types of JSON, not "int"'
    )
    assert said in " ".join(done.err.split())
    assert "mini.data is loosened: output schema: properties.a.type" in " ".join(done.err.split())
    report = json.loads(spindle("sync", "--json").out)[0]
    assert [item["name"] for item in report["loosened"]] == ["mini.b", "mini.data"]
    assert report["left_out"] == []
    assert json.loads(spindle("sources", "--json").out)[0]["loosened"] == report["loosened"]
    assert "loosened mini.b" in spindle("sources").out
    listed = spindle("tools")
    assert "(loosened) b" in listed.out
    assert "note: mini: 2 loosened; `spindle sync mini` says why" in listed.err
    assert json.loads(spindle("tools", "--json").out)[1]["loosened"].startswith(
        "input schema: properties.when"
    )
    assert "loosened:    input schema: properties.size.type" in spindle("show", "mini.b").out
    shown = json.loads(spindle("show", "mini.b", "--json").out)
    assert len(shown["loosened"]) == 3
    assert shown["input_schema"]["properties"]["count"] == {"type": "integer"}
    examined = spindle("doctor")
    assert examined.code == 0
    assert "mini.b is loosened, and can be called" in " ".join(examined.out.split())
    # What is left of the schema is checked.
    assert spindle("call", "mini.b", "--when=now").code == 4
    assert json.loads(spindle("call", "mini.b", "--count=1", "--when=now").out) == {"count": 1, "when": "now"}
    assert spindle("call", "mini.data", "--json").json["structured"] == {"a": 1}


def test_a_list_over_the_limit_names_the_source_and_the_setting(workspace, spindle):
    workspace.add_server(A)
    spindle("sync")
    workspace.write("spindle.toml", "")
    workspace.add_server(*({**A, "name": f"t{number}"} for number in range(5)), max_tools=4)
    done = spindle("sync")
    assert done.code == 9
    assert "spindle: 'mini' lists more than 4 tools" in done.err
    assert "hint: if that is meant, raise sources.mini.max_tools" in done.err
    assert "mini.a" in spindle("tools").out
