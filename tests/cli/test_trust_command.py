"""`spindle trust`, `--trust` and SPINDLE_TRUST, and the question at a terminal."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from cli.test_terminal import Terminal, plain
from servers.shell import Run, Workspace

TOOL = '''
from spindle import tool

@tool
def hello() -> str:
    """Say hello."""
    return "hello"
'''


@pytest.fixture(autouse=True)
def _no_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_TRUST")


@pytest.fixture
def strange(workspace: Workspace) -> Workspace:
    workspace.write("tools/own.py", TOOL)
    return workspace


def test_trust_is_given_listed_and_taken_back(strange: Workspace, spindle: Run) -> None:
    assert spindle("call", "hello").code == 75
    done = spindle("trust", "--yes")
    assert (done.code, done.out) == (0, f"{strange.root} is trusted\n")
    assert "tools/own.py" in done.err
    assert spindle("call", "hello").out == "hello\n"
    assert spindle("trust").out == f"{strange.root} is trusted already\n"
    assert spindle("trust", "--json").json["trusted"] is True
    assert [item["workspace"] for item in spindle("trust", "--list", "--json").json] == [str(strange.root)]
    assert spindle("trust", "--remove").code == 0
    assert spindle("trust", "--remove").code == 3
    assert spindle("call", "hello").code == 75


def test_trust_can_be_for_one_command(strange: Workspace, spindle: Run) -> None:
    assert spindle("--trust", "call", "hello").out == "hello\n"
    assert spindle("call", "--trust", "hello").out == "hello\n"
    assert spindle("call", "hello").code == 75
    assert spindle("trust", "--list", "--json").json == []


@pytest.mark.parametrize(("text", "code"), [("1", 0), ("{root}", 0), ("/nowhere", 75), ("relative", 2)])
def test_trust_can_come_from_the_environment(
    strange: Workspace, spindle: Run, monkeypatch: pytest.MonkeyPatch, text: str, code: int
) -> None:
    monkeypatch.setenv("SPINDLE_TRUST", text.format(root=strange.root))
    assert spindle("call", "hello").code == code


def test_changes_of_others_are_named(strange: Workspace, spindle: Run) -> None:
    spindle("trust", "--yes")
    strange.write("tools/own.py", TOOL + "# more\n")
    assert spindle("call", "hello").code == 0
    os.chmod(strange.root / "tools" / "own.py", 0o666)
    strange.write("tools/own.py", TOOL + "# evil\n")
    done = spindle("trust")
    assert done.code == 75
    assert "changed since it was trusted:\n    tools/own.py\n" in done.out


def test_exact_trust_asks_at_own_edits(strange: Workspace, spindle: Run) -> None:
    assert spindle("trust", "--yes", "--exact").code == 0
    assert spindle("call", "hello").code == 0
    strange.write("tools/own.py", TOOL + "# more\n")
    assert spindle("call", "hello").code == 75
    assert spindle("trust", "--yes").code == 0
    assert spindle("trust", "--not-exact").code == 0
    strange.write("tools/own.py", TOOL)
    assert spindle("call", "hello").code == 0


def test_what_new_and_add_make_is_trusted(folder: Path, spindle: Run) -> None:
    assert spindle("new", "made").code == 0
    assert spindle("-w", "made", "call", "hello", "--name", "Ada").code == 0
    assert spindle("-w", "made", "add", "nothing", "--no-sync", "--", "true").code == 0
    assert spindle("-w", "made", "flow", "save", "twice", "hello >> hello").code in (0, 12)
    assert spindle("-w", "made", "tools").err.count("not trusted") == 0
    assert spindle("add", "nothing", "--no-sync", "--", "true").code == 0
    assert spindle("sources", "--json").json[0]["state"] == "never synced"


def test_add_to_an_untrusted_workspace_changes_nothing(strange: Workspace, spindle: Run) -> None:
    before = (strange.root / "spindle.toml").read_text()
    assert spindle("add", "nothing", "--no-sync", "--", "true").code == 75
    assert (strange.root / "spindle.toml").read_text() == before
    assert spindle("add", "--trust", "nothing", "--no-sync", "--", "true").code == 0
    assert spindle("sync").code == 75


def test_wrong_uses_are_refused(strange: Workspace, spindle: Run) -> None:
    assert spindle("trust", "--list", "--remove").code == 2
    assert spindle("trust", "--remove", "--yes").code == 2
    assert spindle("trust", "/nowhere/at/all").code == 2


def test_no_workspace_cannot_be_trusted(folder: Path, spindle: Run) -> None:
    done = spindle("trust", "--yes")
    assert done.code == 2
    assert "there is no workspace" in done.err


def test_the_person_at_the_terminal_is_asked_once(strange: Workspace) -> None:
    terminal = Terminal("call", "hello")
    terminal.read_until("[y/N] ")
    assert "tools/own.py" in terminal.seen
    terminal.write("y\n")
    assert plain(terminal.read_all()).endswith("hello\n")
    assert "[y/N]" not in Terminal("call", "hello").read_all()


def test_a_no_at_the_terminal_runs_nothing(strange: Workspace) -> None:
    terminal = Terminal("call", "hello")
    terminal.read_until("[y/N] ")
    terminal.write("\n")
    assert "is not trusted" in terminal.read_all()
    assert terminal.process.returncode == 75
    terminal = Terminal("tools")
    terminal.read_until("[y/N] ")
    terminal.write("no\n")
    assert "only stored names" in terminal.read_all()
    assert terminal.process.returncode == 0


@pytest.mark.parametrize("words", [("call", "hello"), ("tools",), ("serve", "--http", "--port", "0")])
def test_ctrl_c_at_the_question_ends_the_command(strange: Workspace, words: tuple[str, ...]) -> None:
    terminal = Terminal(*words)
    terminal.read_until("[y/N] ")
    terminal.process.send_signal(signal.SIGINT)
    assert "cancelled" in terminal.read_all()
    assert terminal.process.returncode == 130


def stored(strange: Workspace, spindle: Run) -> Path:
    """Makes the state of a workspace that was trusted once."""
    assert spindle("--trust", "tools").out.startswith("hello\t")
    return strange.root / ".spindle" / "state.db"


def test_stored_names_are_listed_without_trust(strange: Workspace, spindle: Run) -> None:
    file = stored(strange, spindle)
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert spindle("tools").out == "hello\tpython\tSay hello\n"
    assert spindle("search", "hello").out.startswith("hello\t")
    assert "Say hello" in spindle("show", "hello").out
    assert spindle("tools", "--json").json[0]["name"] == "hello"


@pytest.mark.parametrize(
    "how", ["link", "pipe", "garbage", "endless view", "cut", "elsewhere", "folder link"]
)
def test_a_hostile_state_is_not_followed_and_ends_nothing(
    strange: Workspace, spindle: Run, tmp_path: Path, how: str
) -> None:
    file = stored(strange, spindle)
    data = file.read_bytes()
    outside = tmp_path / "outside.db"
    for part in file.parent.glob("state.db*"):
        part.rename(part.with_name(part.name.replace("state", "old")))
    if how == "link":
        outside.write_bytes(data)
        file.symlink_to(outside)
    elif how == "folder link":
        file.parent.rename(tmp_path / "moved")
        (tmp_path / "moved" / "state.db").write_bytes(data)
        file.parent.symlink_to(tmp_path / "moved")
    elif how == "pipe":
        os.mkfifo(file)
    elif how == "garbage":
        file.write_bytes(b"SQLite format 3\0" + os.urandom(20_000))
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "elsewhere":
        outside.write_bytes(data)
        strange.write("spindle.toml", f"store = {json.dumps(str(outside))}\n")
    else:
        with sqlite3.connect(file) as db:
            version = sqlite3.connect(file.with_name("old.db")).execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version = {version}")
            db.execute(
                "CREATE VIEW tools AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                "SELECT i AS name, i AS source, i AS kind, i AS description, i AS tags, i AS held, "
                "i AS definition FROM n"
            )
    done = spindle("tools")
    assert "Traceback" not in done.err
    assert done.code in (0, 11)
    assert done.out == ""
    assert "is not trusted" in done.err


def test_servers_that_came_with_a_folder_are_imported_by_name_only(folder: Path, spindle: Run) -> None:
    servers = {"mcpServers": {"evil": {"command": "touch", "args": ["evil"]}}}
    (folder / ".mcp.json").write_text(json.dumps(servers))
    done = spindle("import", "--sync")
    assert done.code == 75
    assert f"spindle import {folder / '.mcp.json'}" in done.err
    assert not (folder / "spindle.toml").exists()
    assert spindle("import", "--user").code == 0  # which reads no file of the project
    assert spindle("import", "--dry-run").code == 0
    assert spindle("import", ".mcp.json").code == 0
    assert spindle("sources", "--json").json[0]["state"] == "never synced"
    assert not (folder / "evil").exists()
