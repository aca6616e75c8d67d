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
