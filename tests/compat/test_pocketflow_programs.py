"""Whole programs in the style of pocketflow's cookbook, run by it and by Spindle, as scripts. Only
the module that the names come from differs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "pocketflow_programs"
MODEL = "call_llm.py"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.name != MODEL)
SAID = {"chat": "hello there\nwhat is your name?\nhow many words are these?\nexit\n"}
PATIENCE = 60


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", f"{name}.py"], cwd=folder, input=SAID.get(name, ""),
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_the_cookbooks_kinds_says_the_same(name: str, tmp_path: Path) -> None:
    theirs = run(PROGRAMS, name)
    assert (theirs.returncode, theirs.stderr) == (0, "")
    assert len(theirs.stdout.splitlines()) >= 1
    text = (PROGRAMS / f"{name}.py").read_text("utf-8")
    assert "from pocketflow import" in text
    changed = text.replace("from pocketflow import", "from spindle.compat.pocketflow import")
    (tmp_path / f"{name}.py").write_text(changed, "utf-8")
    shutil.copy(PROGRAMS / MODEL, tmp_path)
    ours = run(tmp_path, name)
    assert (ours.stdout, ours.stderr, ours.returncode) == (theirs.stdout, "", 0)


def test_there_are_programs_of_ten_kinds() -> None:
    assert len(NAMES) == 10
