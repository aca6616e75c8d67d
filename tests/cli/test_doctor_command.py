"""`spindle doctor`: what is wrong, and how to fix it."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from servers.postgres import PASSWORD

BAD_SCHEMA = {
    "name": "odd",
    "description": "",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "nix"}}},
}
GOOD = {"name": "good", "description": "", "inputSchema": {"type": "object"}}


def problems(done) -> list[tuple[str, str]]:
    return [
        (item["subject"], item["message"]) for item in done.json["findings"] if item["level"] == "problem"
    ]


def test_a_workspace_in_order_has_only_good_lines(workspace, spindle):
    workspace.add_server(GOOD)
    workspace.write("tools/t.py", "from spindle import tool\n@tool\ndef f(): ...\n")
    done = spindle("doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == [
        f"✓ workspace: {workspace.root}",
        f"✓ state: {workspace.root / '.spindle/state.db'}",
        "✓ settings: all sources are configured correctly",
    ]
    assert sorted(line.partition(" in ")[0] for line in lines[3:]) == ["✓ mini: 1 tool", "✓ tools: 1 tool"]
    assert spindle("doctor", "--json").json["ok"] is True


def test_looking_changes_nothing(workspace, spindle):
    workspace.add_server(GOOD)
    spindle("doctor")
    assert spindle("sources", "--json").json[0]["state"] == "never synced"


def test_a_broken_file_is_a_problem(workspace, spindle):
    workspace.write("spindle.toml", "x = \n")
    done = spindle("doctor")
    assert done.code == 1
    assert "✗ settings: " in done.out
    assert "line 1" in done.out
    assert "    fix: fix that line" in done.out
    assert done.err == "1 problem found\n"


def test_every_mistake_in_the_settings_is_a_problem(workspace, spindle):
    workspace.write("spindle.toml", "[sources.a]\ncomand = 'x'\n[sources.b]\nurl = 'ftp://x'\n")
    done = spindle("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    text = "\n".join(message for _, message in problems(done))
    assert "sources.a.comand" in text
    assert "sources.b.url" in text


def test_what_a_source_needs_from_the_machine_is_looked_for(workspace, spindle, monkeypatch):
    monkeypatch.setenv("PATH", str(workspace.root))
    monkeypatch.delenv("NO_SUCH", raising=False)
    workspace.write(
        "spindle.toml",
        "[sources.node]\ncommand = 'npx -y x'\n"
        "[sources.gone]\ncommand = ['no-such-program']\n"
        "[sources.variable]\nurl = 'https://${NO_SUCH}/mcp'\n",
    )
    done = spindle("doctor", "--json")
    assert sorted(problems(done)) == [
        ("gone", "the program 'no-such-program' was not found"),
        ("node", "the program 'npx' was not found"),
        ("variable", "the environment variable NO_SUCH is not set, but url uses it"),
    ]
    fixes = {item["subject"]: item["fix"] for item in done.json["findings"]}
    assert fixes["node"] == "install Node.js (https://nodejs.org), which brings npx"
    assert fixes["variable"] == "export NO_SUCH=…"


def test_sources_are_tried(workspace, spindle):
    workspace.add_server(GOOD, BAD_SCHEMA)
    workspace.write(
        "spindle.toml",
        "[sources.web]\nurl = 'http://127.0.0.1:9/mcp'\n" + (workspace.root / "spindle.toml").read_text(),
    )
    workspace.write("tools/broken.py", "import no_such_module\n")
    workspace.write("tools/fine.py", "from spindle import tool\n@tool\ndef f(): ...\n")
    found = dict(problems(spindle("doctor", "--json")))
    assert set(found) == {"web", "tools", "mini.odd"}
    assert "broken.py cannot be imported and is left out: line 1: ModuleNotFoundError" in found["tools"]
    assert found["mini.odd"].startswith("its input schema is not valid: ")


def test_only_the_named_sources_are_tried(workspace, spindle):
    workspace.add_server(GOOD)
    workspace.write("tools/broken.py", "oops(\n")
    assert spindle("doctor", "mini").code == 0
    assert spindle("doctor", "tools").code == 1
    done = spindle("doctor", "tool")
    assert (done.code, done.err) == (3, "spindle: there is no source 'tool'\n  hint: did you mean 'tools'?\n")


def test_two_tools_of_one_name_are_a_problem(workspace, spindle):
    code = "from spindle import tool\n@tool\ndef same(): ...\n"
    workspace.write("tools/one.py", code)
    workspace.write("tools/two.py", code)
    (found,) = problems(spindle("doctor", "--json"))
    assert found[0] == "tools"
    assert "one.py" in found[1]
    assert "two.py" in found[1]


def test_held_definitions_are_a_problem(workspace, spindle):
    workspace.add_server(GOOD, pinned=True)
    spindle("sync")
    workspace.serve({**GOOD, "description": "changed"})
    spindle("sync")
    done = spindle("doctor")
    assert done.code == 1
    assert "✗ mini: 1 changed definition held back until accepted" in done.out
    assert "spindle sync mini" in done.out


def test_a_damaged_state_file_is_a_problem_and_the_rest_is_still_looked_at(workspace, spindle):
    workspace.add_server(GOOD)
    workspace.write(".spindle/state.db", "not a database, but long enough to be looked at" * 100)
    done = spindle("doctor")
    assert done.code == 1
    assert "✗ state: " in done.out
    assert "✓ mini: 1 tool" in done.out


def test_a_state_of_a_newer_version_is_a_problem(workspace, spindle):
    import sqlite3

    spindle("tools")
    connection = sqlite3.connect(workspace.root / ".spindle/state.db")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    done = spindle("doctor")
    assert done.code == 1
    assert "newer Spindle" in done.out


def test_a_store_in_postgresql_is_named_without_its_password(
    workspace, spindle, postgres_server, monkeypatch
):
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    place = f"127.0.0.1:{postgres_server.port}/postgres?schema=doctor"
    workspace.write("spindle.toml", f'store = "postgresql://postgres:${{PG_PASSWORD}}@{place}"\n')
    workspace.add_server(GOOD)
    done = spindle("doctor")
    assert (done.code, done.err) == (0, "")
    assert f"✓ state: postgresql://{place}\n" in done.out


def test_a_store_that_cannot_be_reached_is_a_problem_and_the_rest_is_still_looked_at(
    workspace, spindle, postgres_server
):
    workspace.write("spindle.toml", f'store = "{postgres_server.url("gone")}"\n')
    workspace.add_server(GOOD)
    done = spindle("doctor")
    assert done.code == 1
    assert "✗ state: cannot connect to postgresql://postgres@127.0.0.1:" in done.out
    assert "    fix: create it with `createdb`" in done.out
    assert "✓ mini: 1 tool" in done.out
    assert quote(PASSWORD, safe="") not in done.out + done.err


@pytest.mark.parametrize("has_sources", [False, True])
def test_no_workspace_is_a_problem_only_without_sources_of_the_users_own(folder, spindle, has_sources):
    if has_sources:
        from spindle.cli.main import execute

        execute(["add", "--user", "--no-sync", "--yes", "gone", "--", "no-such-program"])
    done = spindle("doctor")
    assert ("✗ workspace: no spindle.toml at or above" in done.out) is not has_sources
    assert ("! workspace: none here" in done.out) is has_sources


def test_a_workspace_without_sources_is_told_what_to_do(workspace, spindle):
    done = spindle("doctor")
    assert done.code == 0
    assert "! sources: there are none yet\n    fix: `spindle add --presets` shows some" in done.out
