"""A workspace of its own for every test, and two ways to run `spindle` in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.names import echo as echo
from servers.shell import Done, Run, Workspace
from spindle.cli.main import execute


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("SPINDLE_") and name != "SPINDLE_TRUST"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPINDLE_HOME", str(home / "spindle"))
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    """The current folder, with an empty spindle.toml."""
    (folder / "spindle.toml").touch()
    return Workspace(folder)


@pytest.fixture
def spindle(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = execute(words)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def program() -> Run:
    """Run a command line as a process."""

    def run(*words: str, stdin: str | None = None, **more: Any) -> Done:
        given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run(
            [warm.SPINDLE, *words], capture_output=True, text=True,
            timeout=300, **given, **more,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run
