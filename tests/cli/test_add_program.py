"""`spindle add NAME --cli PROGRAM`: a draft from the program's help."""

from __future__ import annotations

import sys
import tomllib
from typing import Any


def test_a_program_is_added_as_a_draft_and_can_be_called(workspace: Any, spindle: Any) -> None:
    done = spindle("add", "json", "--cli", "--", sys.executable, "-m", "json.tool")
    assert done.code == 0, done.err
    assert "draft" in done.err
    written = tomllib.loads((workspace.root / "spindle.toml").read_text())
    assert written["sources"]["json"]["kind"] == "cli"
    (workspace.root / "x.json").write_text("[1]")
    assert spindle("call", "json.json.tool", "--infile=x.json", "--compact").out.strip() == "[1]"


def test_subcommands_follow_the_program(workspace: Any, spindle: Any) -> None:
    done = spindle("add", "git", "--cli", "git", "status", "log", "--no-sync")
    assert done.code == 0, done.err
    written = tomllib.loads((workspace.root / "spindle.toml").read_text())
    assert list(written["sources"]["git"]["commands"]) == ["status", "log"]


def test_without_a_program_there_is_nothing_to_draft(workspace: Any, spindle: Any) -> None:
    done = spindle("add", "git", "--cli")
    assert done.code == 2
    assert "name the program" in done.err
