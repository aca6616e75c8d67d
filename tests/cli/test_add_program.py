"""`spindle add NAME --cli PROGRAM`: a draft from the program's help, in a file of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.test_terminal import Terminal, plain
from servers.running import missing

TOOL = r"""#!/bin/sh
case "$1" in
  --help) printf 'usage: tool COMMAND\n\nCommands:\n  one    First\n  two    Second\n' ;;
  *) printf "usage: tool $1 [NAME]\n" ;;
esac
"""


def described(workspace: Any, name: str) -> dict[str, Any]:
    return tomllib.loads((workspace.root / "sources" / f"{name}.toml").read_text())


def settings(workspace: Any) -> dict[str, Any]:
    return tomllib.loads((workspace.root / "spindle.toml").read_text()).get("sources", {})


@pytest.fixture
def tool(workspace: Any) -> str:
    """A program with two subcommands."""
    script = workspace.write("tool", TOOL)
    script.chmod(0o755)
    return str(script)


def test_a_program_is_added_as_a_draft_and_can_be_called(workspace: Any, spindle: Any) -> None:
    done = spindle("add", "json", "--cli", "--timeout", "5", "--", sys.executable, "-m", "json.tool")
    assert done.code == 0, done.err
    assert "note: this is a draft from a help text: read sources/json.toml before you rely on it" in done.err
    assert settings(workspace) == {"json": {"file": "sources/json.toml", "timeout": 5.0}}
    assert described(workspace, "json")["kind"] == "cli"
    (workspace.root / "x.json").write_text("[1]")
    assert spindle("call", "json.json.tool", "--infile=x.json", "--compact").out.strip() == "[1]"


def test_a_draft_is_short_and_reads_the_same_as_it_was_made(workspace: Any, spindle: Any) -> None:
    done = spindle("add", "git", "--cli", "git", "status", "log", "diff", "--no-sync")
    assert done.code == 0, done.err
    assert list(described(workspace, "git")["commands"]) == ["status", "log", "diff"]
    assert len((workspace.root / "sources/git.toml").read_text().splitlines()) < 300
    assert len((workspace.root / "spindle.toml").read_text().splitlines()) < 5


def test_what_a_help_text_says_cannot_break_the_file(workspace: Any, spindle: Any) -> None:
    script = workspace.write(
        "odd",
        '#!/bin/sh\nprintf \'usage: odd [NAME]\\n\\nSays "hi" \\\\\\\\ \\001 # {x}\\n\\n'
        '  --a.b=X   a "quoted" = [thing]\\n  --c-d   ]]\\n\'\n',
    )
    script.chmod(0o755)
    assert spindle("add", "odd", "--cli", str(script), "--no-sync").code == 0
    command = described(workspace, "odd")["commands"]["odd"]
    assert command["description"].startswith('Says "hi" \\')
    assert command["parameters"]["a_b"] == {"flag": "--a.b", "description": 'a "quoted" = [thing]'}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["git", "--cli"], 2, "name the program"),
        (["git", "--cli", ""], 2, "name the program"),
        (["git", "--cli", "'"], 2, "cannot be split into words"),
        (["git", "--cli", "no-such-program-here", "x"], 3, "'no-such-program-here' was not found"),
        (["flows", "--cli", "git", "status"], 2, "'flows' is the name of the workspace's own flows"),
        (["9x", "--cli", "git", "status"], 2, "a source's name begins with a letter"),
        (["../x", "--cli", "git", "status"], 2, "a source's name begins with a letter"),
    ],
)
def test_what_cannot_be_drafted_is_said_and_nothing_is_written(
    workspace: Any, spindle: Any, words: list[str], code: int, message: str
) -> None:
    done = spindle("add", *words)
    assert (done.code, message in done.err) == (code, True), done.err
    assert settings(workspace) == {}
    assert not (workspace.root / "sources").exists()


def test_subcommands_are_named_or_all_are_asked_for(workspace: Any, spindle: Any, tool: str) -> None:
    done = spindle("add", "t", "--cli", tool)
    assert (done.code, done.err) == (
        2,
        f"spindle: {tool} has subcommands: one, two\n"
        f"  hint: name those that you want, such as `spindle add t --cli {tool} one`, or give --all\n",
    )
    assert settings(workspace) == {}
    assert not (workspace.root / "sources").exists()
    assert spindle("add", "t", "--cli", tool, "--all", "--no-sync").code == 0
    assert list(described(workspace, "t")["commands"]) == ["one", "two"]


def test_at_a_terminal_the_subcommands_are_chosen(workspace: Any, tool: str) -> None:
    terminal = Terminal("add", "t", "--cli", tool)
    terminal.read_until("Enter for none) ")
    terminal.write("twoo\n")
    terminal.read_until("'twoo' is not among them; did you mean 'two'?")
    terminal.write("two\n")
    seen = plain(terminal.read_all())
    assert "  one  First\n  two  Second\n" in seen
    assert "+ t.two" in seen
    assert list(described(workspace, "t")["commands"]) == ["two"]


def test_removing_a_draft_removes_its_file(workspace: Any, spindle: Any, tool: str) -> None:
    spindle("add", "t", "--cli", tool, "one")
    assert [row["name"] for row in spindle("tools", "--json").json] == ["t.one"]
    assert spindle("doctor", "--json").code == 0
    assert spindle("remove", "t").code == 0
    assert not (workspace.root / "sources").exists()
    assert spindle("tools", "--json").json == []


def test_replacing_a_draft_leaves_no_file_behind(workspace: Any, spindle: Any, tool: str) -> None:
    spindle("add", "t", "--cli", tool, "one", "--no-sync")
    again = spindle("add", "t", "--cli", tool, "two", "--no-sync")
    assert again.code == 2
    assert list(described(workspace, "t")["commands"]) == ["one"]
    assert spindle("add", "t", "--cli", tool, "two", "--no-sync", "--replace").code == 0
    assert list(described(workspace, "t")["commands"]) == ["two"]
    assert spindle("add", "t", "--no-sync", "--replace", "--", tool).code == 0
    assert settings(workspace) == {"t": {"command": [tool]}}
    assert not (workspace.root / "sources").exists()


def test_a_file_that_somebody_else_wrote_is_kept(workspace: Any, spindle: Any, tool: str) -> None:
    workspace.write("sources/t.toml", "mine = 1\n")
    done = spindle("add", "t", "--cli", tool, "one", "--no-sync")
    assert done.code == 2
    assert f"there is already a file {workspace.root / 'sources/t.toml'}" in done.err
    assert (workspace.root / "sources/t.toml").read_text() == "mine = 1\n"
    assert settings(workspace) == {}


def test_a_draft_for_all_workspaces_is_beside_the_users_own_file(
    workspace: Any, spindle: Any, tool: str, tmp_path: Path
) -> None:
    assert spindle("add", "t", "--cli", tool, "one", "--user").code == 0
    assert (tmp_path / "home/spindle/sources/t.toml").is_file()
    assert spindle("call", "t.one", "--name=x").out == "usage: tool one [NAME]\n"


# --- drafts of real programs can be called


def in_a_repository(root: Path) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in (1, 2):
        (root / "a.txt").write_text(f"{number}\n")
        subprocess.run([*git, "add", "a.txt"], check=True)
        subprocess.run([*git, "commit", "-qm", f"change {number}"], check=True)


def test_git_diff_takes_commits_and_paths(workspace: Any, spindle: Any) -> None:
    in_a_repository(workspace.root)
    assert spindle("add", "git", "--cli", "git", "diff").code == 0
    between = json.dumps({"commit": ["HEAD~1", "HEAD"], "path": ["a.txt"], "stat": True})
    assert "a.txt | 2 +-" in spindle("call", "git.diff", between).out
    assert spindle("call", "git.diff", "--commit=HEAD~1", "--path=nothing-here").out == "\n"
    assert spindle("call", "git.diff", "--commit=--output=x").code == 4
    assert not (workspace.root / "x").exists()


def test_jq_takes_two_words_after_an_option_and_no_dashes_before_its_filter(
    workspace: Any, spindle: Any
) -> None:
    if shutil.which("jq") is None:
        missing("jq is not installed")
    (workspace.root / "x.json").write_text('{"a": 1}')
    assert spindle("add", "jq", "--cli", "jq").code == 0
    words = json.dumps({"jq_filter": "$v", "file": ["x.json"], "arg": [["v", "some text"]], "r": True})
    assert spindle("call", "jq.jq", words).out == "some text\n"
    assert spindle("call", "jq.jq", "--jq_filter=.a", "--file=x.json").out == "1\n"
    words = json.dumps(
        {"jq_filter": "$ARGS.positional", "file": ["x", "y"], "args": True, "c": True, "n": True}
    )
    assert spindle("call", "jq.jq", words).out == '["x","y"]\n'
    assert spindle("call", "jq.jq", "--jq_filter=--help").code == 4
