"""`spindle doctor`: what is wrong, and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from servers.postgres import PASSWORD
from spindle.catalog.sources import SourceSet
from spindle.errors import ConfigurationError
from spindle.settings import Settings

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


def test_a_wrong_type_is_told_in_the_words_of_the_file(workspace, spindle):
    workspace.write("spindle.toml", "[sources.a]\ncommand = 5\nenv = 5\ntimeout = []\npinned = 'x'\n")
    assert sorted(
        message.rpartition(": sources.a.")[2] for _, message in problems(spindle("doctor", "--json"))
    ) == [
        "command: should be a list (got 5)",
        "env: should be a table",
        "pinned: should be true or false (got 'x')",
        "timeout: should be a number",
    ]


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
    monkeypatch.setenv("EMPTY", "")
    workspace.write(
        "spindle.toml",
        "[sources.node]\ncommand = 'npx -y x'\n"
        "[sources.empty]\nurl = 'https://x/mcp'\nheaders = { X-Key = '${EMPTY}', X-Other = '${EMPTY:-}' }\n"
        "[sources.gone]\ncommand = ['no-such-program']\n"
        "[sources.variable]\nurl = 'https://${NO_SUCH}/mcp'\n",
    )
    done = spindle("doctor", "--json")
    assert sorted(problems(done)) == [
        ("empty", "the environment variable EMPTY is empty, but headers.X-Key uses it"),
        ("gone", "the program 'no-such-program' was not found"),
        ("node", "the program 'npx' was not found"),
        ("variable", "the environment variable NO_SUCH is not set, but url uses it"),
    ]
    fixes = {item["subject"]: item["fix"] for item in done.json["findings"]}
    assert fixes["node"] == "install Node.js (https://nodejs.org), which brings npx"
    assert fixes["variable"] == "export NO_SUCH=…"
    assert fixes["empty"] == "set it (export EMPTY=…), or allow it to be empty: ${EMPTY:-}"


def test_sources_are_tried(workspace, spindle):
    workspace.add_server(GOOD, BAD_SCHEMA)
    workspace.write(
        "spindle.toml",
        "[sources.web]\nurl = 'http://127.0.0.1:9/mcp'\n" + (workspace.root / "spindle.toml").read_text(),
    )
    workspace.write("tools/broken.py", "import no_such_module\n")
    workspace.write("tools/fine.py", "from spindle import tool\n@tool\ndef f(): ...\n")
    found = dict(problems(spindle("doctor", "--json")))
    assert set(found) == {"web", "tools"}
    assert "broken.py cannot be imported and is left out: line 1: ModuleNotFoundError" in found["tools"]
    said = [
        item["message"] for item in spindle("doctor", "--json").json["findings"] if item["level"] == "note"
    ]
    assert any(line.startswith("mini.odd is loosened, and can be called: input schema: ") for line in said)


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


# --- wrong types in the file

WRONG = [5, "", [], [5], {}, {"a": 5}]


def written_wrongly() -> dict[str, dict[str, object]]:
    """A source for each setting of each kind and each value of another type."""
    from spindle.plugins import config_models, kinds

    found: dict[str, dict[str, object]] = {}
    for kind, model in config_models(kinds()).items():
        for key, field in model.model_fields.items():
            for number, value in enumerate(WRONG):
                name = f"{kind}-{key}-{number}".replace("_", "-")
                found[name] = {"kind": kind, field.alias or key: value}
    return found


def as_toml(sources: dict[str, dict[str, object]]) -> str:
    def value(given: object) -> str:
        if isinstance(given, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(item)}" for key, item in given.items()) + "}"
        return json.dumps(given)

    tables = (
        "\n".join(f"{key} = {value(item)}" for key, item in table.items()) for table in sources.values()
    )
    return "\n".join(f"[sources.{name}]\n{table}\n" for name, table in zip(sources, tables, strict=True))


def mistake_in(name: str, table: dict[str, object], root: Path) -> str | None:
    found = SourceSet(Settings(root, {"sources": {name: table}}), print, {})
    for known in found.names:  # one that is switched off is not there
        found.signature(known)
        found.secrets(known)
        found.missing_variables(known)
    try:
        found.validate()
    except ConfigurationError as error:
        return error.message
    return None


def test_a_wrong_type_of_any_setting_of_any_kind_is_a_mistake_in_the_settings(tmp_path):
    """And nothing but that, whatever looks at the settings first."""
    sources = written_wrongly()
    assert len(sources) > 1000
    said = {name: mistake_in(name, table, tmp_path) for name, table in sources.items()}
    refused = {name: message for name, message in said.items() if message is not None}
    assert len(refused) > 1000
    assert all(f"sources.{name}" in message for name, message in refused.items())


COMMANDS = ["doctor", "sources", "tools", "sync", "search x", "show x.y", "call x.y", "export --utcp"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_fails_by_a_wrong_type(workspace, spindle, command):
    sources = {name: table for name, table in written_wrongly().items() if 5 in table.values()}
    workspace.write("spindle.toml", as_toml(sources))
    done = spindle(*command.split(), "--json")
    assert done.code in (0, 1, 2, 3)
    assert "bug in Spindle" not in done.out + done.err
    if command == "doctor":
        said = [message for _, message in problems(done)]
        wrong = [name for name, table in sources.items() if mistake_in(name, table, workspace.root)]
        assert len(wrong) > 200
        assert all(any(f"sources.{name}" in message for message in said) for name in wrong)


@pytest.mark.parametrize("table", ["agent", "auth", "mods", "serve", "sources", "store"])
@pytest.mark.parametrize("value", WRONG)
def test_a_wrong_type_at_the_top_of_the_file_is_a_finding(workspace, spindle, table, value):
    if (table == "store" and isinstance(value, str)) or value == {}:
        return
    line = as_toml({"x": {table: value}}).splitlines()[1]
    workspace.write("spindle.toml", line + "\n")
    done = spindle("doctor", "--json")
    assert done.code in (0, 1)
    assert "bug in Spindle" not in done.out + done.err


# --- what calls need is tried


def test_what_cannot_work_is_not_called_right(workspace, spindle):
    import socket

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    api = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {"/a": {"get": {"operationId": "a"}}},
    }
    workspace.write("api.json", json.dumps(api))
    template = {"call_template_type": "http", "url": f"http://127.0.0.1:{port}/a"}
    manual = {"utcp_version": "1.0.1", "tools": [{"name": "a", "tool_call_template": template}]}
    workspace.write("manual.json", json.dumps(manual))
    script = workspace.write("script", "#!/no/such/interpreter\n")
    script.chmod(0o755)
    workspace.write("plain", "#!/bin/sh\n")
    commands = {"commands": {"a": {}}}
    sources = {
        "gone": {"kind": "cli", "program": "no-such-program", **commands},
        "script": {"kind": "cli", "program": "./script", **commands},
        "plain": {"kind": "cli", "program": "./plain", **commands},
        "folder": {"kind": "cli", "program": "sh", "cwd": "nowhere", **commands},
        "socket": {
            "kind": "websocket",
            "url": f"ws://127.0.0.1:{port}",
            "requests": {"a": {"message": {"a": 1}}},
        },
        "base": {"kind": "openapi", "document": "api.json", "base_url": f"http://127.0.0.1:{port}"},
        "placeless": {"kind": "openapi", "document": "api.json"},
        "any": {"kind": "http", "url": f"http://127.0.0.1:{port}", "discover": False},
        "manual": {"kind": "utcp", "document": "manual.json"},
        "right": {"kind": "cli", "program": "sh", **commands},
    }
    workspace.write("spindle.toml", as_toml(sources))
    done = spindle("doctor", "--json")
    assert done.code == 1
    found = dict(problems(done))
    assert set(found) == set(sources) - {"right"}
    assert found["gone"] == "cannot start 'gone': 'no-such-program' was not found"
    assert "wants the interpreter '/no/such/interpreter'" in found["script"]
    assert "'./plain' may not be executed" in found["plain"]
    assert "nowhere" in found["folder"]
    assert found["placeless"] == "the document does not say where the API of placeless.a is"
    for name in ("socket", "base", "any", "manual"):
        assert "cannot reach" in found[name] or "refused" in found[name], found[name]
    assert [item["subject"] for item in done.json["findings"] if item["level"] == "ok"][-1] == "right"


def test_trying_calls_no_tool_and_shows_no_credential(workspace, spindle):
    import http.server
    import threading

    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, dict(self.headers)))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    api = {
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {f"/{name}": {"get": {"operationId": name}} for name in ("a", "b")},
    }  # fmt: skip
    workspace.write("api.json", json.dumps(api))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/v1"
        auth = {"type": "bearer", "token": "s3cret"}
        sources = {"api": {"kind": "openapi", "document": "api.json", "base_url": base, "auth": auth}}
        workspace.write("spindle.toml", as_toml(sources))
        done = spindle("doctor")
        server.shutdown()
    assert (done.code, done.err) == (0, "")
    assert [path for path, _ in asked] == ["/v1"]
    assert "s3cret" not in repr(asked)


# --- a failed sync


def test_a_source_that_failed_is_said_to_have_failed_everywhere(workspace, spindle):
    workspace.write("tools/fine.py", "from spindle import tool\n@tool\ndef fine(): ...\n")
    workspace.write("spindle.toml", "[sources.web]\nurl = 'http://127.0.0.1:9/mcp'\n")
    assert spindle("sync").code == 7
    why = spindle("sources", "--json").json
    [web] = [item for item in why if item["name"] == "web"]
    assert web["state"] == "failed"
    assert f"failed: {web['error']}"[:40] in spindle("sources").out
    note = f"note: web failed at its last sync: {web['error']}; `spindle doctor web` says more"
    for command in (["tools"], ["search", "fine"], ["export", "--utcp"]):
        done = spindle(*command)
        assert done.code == 0
        assert note in done.err.splitlines()
        assert "not synced" not in done.err
    done = spindle("doctor")
    assert "✗ web: " in done.out
    assert "not synced" not in done.out + done.err


def test_a_source_that_works_again_still_has_a_failed_sync(workspace, spindle):
    workspace.add_server(GOOD)
    definitions = workspace.definitions.read_text()
    workspace.definitions.unlink()
    assert spindle("sync").code != 0
    workspace.definitions.write_text(definitions)
    done = spindle("doctor")
    assert done.code == 1
    assert "✓ mini: 1 tool" in done.out
    assert "✗ mini: its last sync failed: " in done.out
    assert "    fix: run `spindle sync mini`" in done.out
    assert spindle("sync").code == 0
    assert spindle("doctor").code == 0
