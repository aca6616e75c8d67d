"""`spindle new`, `add` and `remove`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli.test_terminal import Terminal
from servers import warm


def sources(folder: Path) -> dict:
    return tomllib.loads((folder / "spindle.toml").read_text()).get("sources", {})


# --- new


def test_a_new_workspace_works_at_once(folder, spindle):
    done = spindle("new")
    assert done.code == 0
    assert done.err == "try: spindle call hello --name you\n"
    assert (folder / ".gitignore").read_text() == ".spindle/\n"
    assert spindle("call", "hello", "--name", "Ann", "--times=2").out == "Hello, Ann! Hello, Ann!\n"
    assert spindle("doctor").code == 0


def test_a_new_workspace_can_have_a_folder_of_its_own(folder, spindle):
    done = spindle("new", "deep/er", "--json")
    assert done.json == {
        "workspace": str(folder / "deep/er"),
        "files": ["spindle.toml", "tools/hello.py", ".gitignore"],
    }
    assert spindle("-w", "deep/er", "call", "hello", "--name=x").out == "Hello, x!\n"
    assert spindle("call", "-w", "deep/er", "hello", "--name=x").out == "Hello, x!\n"


def test_nothing_is_overwritten(folder, spindle):
    (folder / "tools").mkdir()
    (folder / "tools/hello.py").write_text("mine")
    done = spindle("new", ".")
    assert done.code == 2
    assert done.err.startswith("spindle: tools/hello.py exists already; nothing was changed")
    assert not (folder / "spindle.toml").exists()


def test_an_existing_gitignore_is_kept(folder, spindle):
    (folder / ".gitignore").write_text("*.pyc")
    spindle("new")
    assert (folder / ".gitignore").read_text() == "*.pyc\n.spindle/\n"


def test_an_existing_readme_is_kept(folder, spindle):
    (folder / "README.md").write_text("mine")
    done = spindle("new", "--template", "flows")
    assert done.code == 0
    assert "README.md" not in done.out
    assert (folder / "README.md").read_text() == "mine"


def test_an_unknown_template_gets_a_suggestion(folder, spindle):
    done = spindle("new", "--template", "basics")
    assert (done.code, done.err) == (
        2,
        "spindle: there is no template 'basics'\n  hint: did you mean 'basic'?\n",
    )


# --- add


def test_a_program_is_added_and_synced(workspace, spindle):
    workspace.write("spindle.toml", "# mine\n")
    done = spindle("add", "mini", "--description", "Small", "--pin", "--", *workspace.serve())
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == f"added mini to {workspace.root / 'spindle.toml'}"
    assert lines[1].startswith("mini: 6 tools, 6 added (")
    assert (workspace.root / "spindle.toml").read_text().startswith("# mine\n")
    assert sources(workspace.root)["mini"] == {
        "command": workspace.serve(),
        "description": "Small",
        "pinned": True,
    }
    assert spindle("call", "mini.data").code == 0


def test_without_a_workspace_one_is_made(folder, spindle):
    done = spindle("add", "--no-sync", "--yes", "x", "--", "some-program", "--its-own-flag")
    assert done.code == 0
    assert done.err == f"note: created {folder / 'spindle.toml'}: this folder is a workspace now\n"
    assert sources(folder) == {"x": {"command": ["some-program", "--its-own-flag"]}}


def test_a_url_is_added_with_its_settings(workspace, spindle):
    done = spindle(
        "add", "web", "https://example.com/mcp", "--no-sync", "--bearer-env", "WEB_TOKEN",
        "--transport", "http", "--timeout", "5", "--include", "read_.*",
        "--include", "list_.*", "--exclude", "list_all",
        "--header", "X-Team: blue", "--json",
    )  # fmt: skip
    assert done.json == {"source": "web", "file": str(workspace.root / "spindle.toml"), "sync": None}
    assert sources(workspace.root)["web"] == {
        "url": "https://example.com/mcp",
        "transport": "http",
        "timeout": 5.0,
        "include": ["read_.*", "list_.*"],
        "exclude": ["list_all"],
        "headers": {"X-Team": "blue"},
        "auth": {"type": "bearer", "token": "${WEB_TOKEN}"},
    }


def test_a_source_can_be_for_all_workspaces(folder, spindle, tmp_path):
    done = spindle("add", "--user", "--no-sync", "--yes", "x", "--", "some-program")
    assert done.code == 0
    assert sources(tmp_path / "home/spindle") == {"x": {"command": ["some-program"]}}
    assert not (folder / "spindle.toml").exists()
    assert spindle("sources", "--json").json[0]["name"] == "x"


def test_secrets_in_clear_are_noted(workspace, spindle):
    done = spindle(
        "add", "x", "--no-sync", "--yes", "--env", "API_KEY=abc", "--env", "OTHER_TOKEN=${OTHER}",
        "--env", "MODE=fast", "--", "some-program",
    )  # fmt: skip
    file = workspace.root / "spindle.toml"
    assert done.err == (
        f"note: {file} now holds API_KEY in plain text; "
        "API_KEY=${API_KEY} would read it from the environment\n"
    )
    assert sources(workspace.root)["x"]["env"] == {
        "API_KEY": "abc",
        "OTHER_TOKEN": "${OTHER}",
        "MODE": "fast",
    }


def test_a_source_that_cannot_be_reached_is_kept(workspace, spindle):
    done = spindle("add", "web", "http://127.0.0.1:9/mcp")
    assert done.code == 7
    assert "spindle: " in done.err
    assert "web" in done.err
    assert done.err.splitlines()[-1] == (
        f"note: web stays in {workspace.root / 'spindle.toml'}; after fixing it run `spindle sync web`"
    )
    assert "web" in sources(workspace.root)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "say what to add"),
        (["gihub"], 3, "there is no preset 'gihub'\n  hint: did you mean 'github'?"),
        (["zzz"], 3, "there is no preset 'zzz'\n  hint: `spindle add --presets` lists them"),
        (["https://example.com"], 2, "a source needs a name\n  hint: spindle add NAME https://example.com"),
        (
            ["fs", "npx"],
            2,
            "'npx' is not a URL, and 'fs' is not a preset\n  hint: to start a program, put `--`",
        ),
        (["fs", "npx", "-y"], 2, "there is no option '-y'\n  hint: put `--` before a server's command"),
        (["filesystem"], 2, "the preset 'filesystem' needs FOLDER: a folder that it may"),
        (["x", "ftp://example.com"], 2, "{file}: sources.x.url: must begin with http:// or https://"),
        (["9x", "https://example.com"], 2, "{file}: sources.9x: a source's name begins with a letter"),
        (["tools", "https://example.com"], 2, "'tools' is the name of the workspace's own tools"),
        (
            ["x", "https://example.com", "--include", "("],
            2,
            "{file}: sources.x.include: '(' is not a regular",
        ),
        (["x", "--env", "A", "--", "p"], 2, "--env 'A' is not of the form KEY=VALUE"),
        (["x", "--bearer-env", "A", "--", "p"], 2, "--bearer-env goes with a URL, not with a program"),
        (["x", "y", "--", "p"], 2, "'y' is one word too many before `--`"),
        (["x", "https://example.com", "--", "p"], 2, "give a name and a URL, and nothing else"),
        (
            ["x", "https://example.com", "--http", "--", "p"],
            2,
            "give a name and a URL or a file, and nothing",
        ),
        (["x", "--"], 2, "there is no command after `--`"),
        (
            ["x", "--arg", "a", "--", "p"],
            2,
            "--arg is for the arguments of a preset\n  hint: write them after",
        ),
        (["x", "https://example.com", "--arg", "a"], 2, "--arg is for the arguments of a preset"),
        (["github", "--arg", "a"], 2, "the preset 'github' takes no arguments: it is https://"),
        (
            ["filesystem", "a", "b"],
            2,
            "'b' is one word too many\n  hint: give a preset's arguments with --arg",
        ),
    ],
)
def test_what_cannot_be_added_is_said_in_one_line_and_nothing_is_written(
    workspace, spindle, words, code, message
):
    done = spindle("add", "--no-sync", *words)
    assert done.err.startswith("spindle: " + message.replace("{file}", str(workspace.root / "spindle.toml")))
    assert done.code == code
    assert sources(workspace.root) == {}


def test_a_name_that_is_taken_needs_replace(workspace, spindle):
    spindle("add", "--no-sync", "--yes", "x", "--", "one")
    done = spindle("add", "--no-sync", "--yes", "x", "--", "two")
    assert done.code == 2
    assert done.err.startswith(
        f"spindle: {workspace.root / 'spindle.toml'} already has a source 'x'\n  hint: "
    )
    assert spindle("add", "--no-sync", "--yes", "--replace", "x", "--", "two").code == 0
    assert sources(workspace.root) == {"x": {"command": ["two"]}}


def test_a_preset_is_added_under_its_name_or_another(workspace, spindle):
    assert spindle("add", "github", "--no-sync").code == 0
    words = ["filesystem", "data", "--arg", "/data", "--arg", "/more"]
    assert spindle("add", *words, "--no-sync", "--yes").code == 0
    connected = spindle("tools", "connect", "memory", "--no-sync", "--yes")
    assert (connected.code, connected.out.split()[:2]) == (0, ["added", "memory"])
    assert spindle("mcp", "add", "filesystem", "--arg", "/a", "--no-sync", "--yes").code == 0
    found = sources(workspace.root)
    assert found["github"]["auth"] == {"type": "bearer", "token": "${GITHUB_PERSONAL_ACCESS_TOKEN}"}
    assert found["github"]["description"]
    assert found["data"]["command"][:2] == ["npx", "-y"]
    assert found["data"]["command"][2].startswith("@modelcontextprotocol/server-filesystem@")
    assert found["data"]["command"][3:] == ["/data", "/more"]
    assert found["memory"]["command"][-1].startswith("@modelcontextprotocol/server-memory@")
    assert found["filesystem"]["command"][-1] == "/a"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("time", ["no-such-time-server", "--local-timezone", "UTC"]),
        ("memory", ["docker-not-here", "run", "memory"]),
        ("filesystem", ["/no/such/folder"]),
        ("git", [sys.executable, "-m", "other"]),
        ("filesystem", ["test"]),
    ],
)
def test_what_follows_the_dashes_is_the_command_as_typed_whatever_the_name_is(
    workspace, spindle, name, command
):
    assert spindle("add", name, "--no-sync", "--yes", "--", *command).code == 0
    assert sources(workspace.root) == {name: {"command": command}}


def test_a_program_for_which_there_is_a_preset_tells_of_its_argument(workspace, spindle):
    done = spindle("add", "filesystem", "--no-sync", "--no-pin", "--", "test")
    assert done.err == (
        "note: 'test' is started as a program; the preset 'filesystem' gets its FOLDER with --arg: "
        "spindle add filesystem --arg test\n"
    )
    assert spindle("add", "time", "--no-sync", "--yes", "--", "mcp-server-time").err == ""


def test_a_missing_variable_of_a_preset_is_said_at_once(workspace, spindle, monkeypatch):
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    monkeypatch.setattr("shutil.which", lambda name, **_more: f"/bin/{name}")
    done = spindle("add", "brave-search")
    assert done.code == 2
    assert "spindle: the environment variable BRAVE_API_KEY is not set" in done.err
    assert "brave-search" in sources(workspace.root)


# --- remove


@pytest.mark.parametrize("command", [["remove"], ["mcp", "remove"]])
def test_a_removed_source_takes_its_tools_along(workspace, spindle, command):
    workspace.add_server()
    spindle("sync")
    done = spindle(*command, "mini")
    assert (done.code, done.out) == (0, f"removed mini from {workspace.root / 'spindle.toml'}\n")
    assert sources(workspace.root) == {}
    assert spindle("tools", "--json").json == []


def test_removing_what_is_not_there_is_a_mistake(workspace, spindle):
    workspace.add_server()
    done = spindle("remove", "minni")
    assert (done.code, done.err) == (3, "spindle: there is no source 'minni'\n  hint: did you mean 'mini'?\n")


def test_the_workspaces_own_tools_are_not_removed_by_name(workspace, spindle):
    workspace.write("tools/t.py", "")
    done = spindle("remove", "tools")
    assert done.code == 3
    assert done.err.startswith("spindle: 'tools' is the workspace's own folder")


def test_installed_mods_are_not_removed_by_name(workspace, spindle):
    workspace.write("spindle.toml", "[mods.notebook]\n")
    done = spindle("remove", "mods")
    assert done.code == 3
    assert done.err.startswith("spindle: 'mods' is not in [sources]: they are installed")
    assert "take the tables [mods.NAME] out of the settings" in done.err


def test_a_source_of_the_user_is_removed_from_the_users_file(workspace, spindle, tmp_path):
    spindle("add", "--user", "--no-sync", "--yes", "x", "--", "one")
    spindle("add", "--no-sync", "--yes", "x", "--", "two")
    done = spindle("remove", "x")
    assert f"note: x is still there: {tmp_path / 'home/spindle/spindle.toml'} has one" in done.err
    assert spindle("remove", "x").code == 0
    assert sources(tmp_path / "home/spindle") == {}


# --- several at once


def test_two_processes_that_add_lose_nothing(workspace):
    command = [warm.SPINDLE, "add", "--no-sync", "--yes"]
    started = [
        subprocess.Popen([*command, f"s{number}", "--", "p"], stdout=subprocess.DEVNULL)
        for number in range(4)
    ]
    assert [process.wait(timeout=300) for process in started] == [0] * 4
    assert sorted(sources(workspace.root)) == ["s0", "s1", "s2", "s3"]


# --- mistakes around the workspace


@pytest.mark.parametrize(
    "words", [["tools"], ["sync"], ["call", "x"], ["show", "x"], ["history"], ["sources"]]
)
def test_no_workspace_is_said_in_one_line(folder, spindle, words):
    done = spindle(*words)
    assert done.code == 2
    assert done.err == (
        f"spindle: there is no workspace: no spindle.toml at or above {folder}\n"
        "  hint: create one with `spindle new`, or name one with `-w PATH`\n"
    )
    assert list(folder.iterdir()) == []


def test_a_workspace_that_is_not_there_is_named(folder, spindle, monkeypatch):
    assert spindle("-w", "nowhere", "tools").err.startswith(
        f"spindle: there is no folder {folder / 'nowhere'}"
    )
    monkeypatch.setenv("SPINDLE_WORKSPACE", str(folder))
    assert spindle("tools").err.startswith(f"spindle: there is no workspace: no spindle.toml in {folder}\n")


def test_a_broken_file_shows_the_line(workspace, spindle):
    workspace.write("spindle.toml", "[sources.x]\ncommand = oops\n")
    done = spindle("tools")
    assert done.code == 2
    assert done.err.startswith(f"spindle: {workspace.root / 'spindle.toml'} is not valid TOML: ")
    assert "line 2" in done.err
    assert "Traceback" not in done.err
    assert spindle("--json", "tools").json["error"]["category"] == "configuration"


def test_every_mistake_in_the_file_is_listed(workspace, spindle):
    workspace.write("spindle.toml", "[sources.a]\ncomand = 'x'\n[sources.b]\nurl = 'ftp://x'\n")
    done = spindle("sync")
    assert done.code == 2
    assert "sources.a.comand: not a setting of this source; did you mean `command`?" in done.err
    assert "sources.b.url: must begin with http:// or https://" in done.err


def test_a_traceback_is_shown_only_when_asked_for(workspace, spindle, monkeypatch):
    assert "Traceback" not in spindle("sync", "x").err
    monkeypatch.setenv("SPINDLE_DEBUG", "1")
    assert "Traceback" in spindle("sync", "x").err


def test_a_mistake_of_our_own_is_one_line_too(workspace, spindle, monkeypatch):
    from spindle.cli.context import CliContext

    def broken(self: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(CliContext, "open", broken)
    done = spindle("tools")
    assert done.code == 70
    assert done.err.startswith("spindle: a bug in Spindle: ZeroDivisionError: oh\n  hint: ")


def test_a_state_file_that_is_no_database_has_its_own_exit_code(workspace, spindle):
    workspace.write(".spindle/state.db", "this is not a database, but long enough to be looked at" * 100)
    done = spindle("tools")
    assert done.code == 11
    assert done.err.startswith("spindle: the workspace's state could not be used: ")
    assert json.loads(spindle("tools", "--json").out)["error"]["category"] == "store"


# --- the offer to pin


def test_who_is_not_asked_is_told_of_pinning(workspace, spindle):
    command = [sys.executable, "-c", "pass"]
    done = spindle("add", "a", "--no-sync", "--", *command)
    assert done.err == (
        "note: a is not pinned: it may change its tools; `--pin` or `pinned = true` holds changes back\n"
    )
    assert "pinned" not in sources(workspace.root)["a"]
    for flag in ("--pin", "--no-pin", "--yes"):
        assert spindle("add", "b", "--replace", "--no-sync", flag, "--", *command).err == ""
        assert sources(workspace.root)["b"].get("pinned", False) is (flag == "--pin")
    # Its messages are written in the settings: nobody else can change them.
    assert "pinned" not in spindle("add", "c", "wss://example.com/feed", "--no-sync").err


@pytest.mark.parametrize(("answer", "pinned"), [("\n", True), ("y\n", True), ("n\n", False), ("\x04", False)])
def test_at_a_terminal_pinning_is_asked_for(workspace, answer, pinned):
    terminal = Terminal("add", "a", "--no-sync", "--", sys.executable, "-c", "pass")
    terminal.read_until("until you accept them? [Y/n] ")
    terminal.write(answer)
    seen = terminal.read_all()
    assert sources(workspace.root)["a"].get("pinned", False) is pinned
    assert ("a is pinned" in seen, "a is not pinned" in seen) == (pinned, not pinned)


def test_a_secret_among_the_words_of_a_command_is_noted(workspace, spindle):
    words = ["--no-sync", "--yes", "--", "some-program", "--api-key", "very-secret-value"]
    done = spindle("add", "a", *words)
    assert "the command of a has a secret in clear" in done.err
    assert "${A_API_KEY}" in done.err
    assert "very-secret-value" not in done.err
    assert spindle("add", "b", "--no-sync", "--yes", "--", "some-program", "--api-key", "${KEY}").err == ""


def test_a_pinned_source_whose_program_may_change_is_noted(workspace, spindle):
    def said(*command: str) -> str:
        return spindle("add", "a", "--replace", "--no-sync", "--yes", "--pin", "--", *command).err

    assert "starts whichever version of @x/server is the newest; write @x/server@VERSION" in said(
        "npx", "-y", "@x/server", "."
    )
    assert "whichever version of server@latest" in said("uvx", "server@latest")
    for command in (
        ["npx", "-y", "@x/server@1.2.3"],
        ["uvx", "server==1.2"],
        ["npx", "./mine"],
        ["python", "x.py"],
    ):
        assert said(*command) == ""
