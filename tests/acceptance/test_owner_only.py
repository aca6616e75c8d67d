"""Nobody but the user can read what Spindle keeps, whatever the umask."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from spindle.cli.main import execute

TOOLS = '''
from spindle import Block, Context, Result, tool


@tool
def picture() -> Result:
    """Large enough to be kept as a file."""
    return Result((Block("image", data="AAAA" * 100_000, mime_type="image/png"),))


@tool
def ask(context: Context) -> str:
    """Waits for a person."""
    return str(context.ask("why?"))
'''


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any files. `_own_key` is undone: the key is made in a file."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / ".local" / "share"))
    monkeypatch.delenv("SPINDLE_KEY")
    monkeypatch.delenv("SPINDLE_HOME", raising=False)
    return folder


def loose(folder: Path) -> list[str]:
    """What others than its owner have any right to."""
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    assert found
    return [f"{path} {stat.filemode(path.stat().st_mode)}" for path in found if path.stat().st_mode & 0o077]


def run(*words: str, code: int = 0) -> None:
    assert execute(words) == code, words


def test_all_that_a_workspace_writes_in_its_life_is_its_users_alone(
    open_umask: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "shop"
    run("new", str(root))
    monkeypatch.chdir(root)
    (root / "tools" / "more.py").write_text(TOOLS)
    run("add", "--user", "mine", "--", "mcp-server-time")
    run("call", "hello", "--name", "you")
    run("call", "picture")
    run("call", "ask", code=75)
    run("auth", "rotate")
    run("install", "cursor", "--yes")
    run("prune")
    run("doctor", "tools")
    assert loose(root / ".spindle") == []
    assert loose(home) == []
    kept = {path.name for path in (root / ".spindle").rglob("*")}
    assert {"state.db", "files"} <= kept
    assert list((root / ".spindle" / "files").glob("*.png"))
    assert list(home.rglob("key"))
    assert list(home.rglob("spindle.toml"))
    assert list(home.rglob("mcp.json"))


def test_what_an_older_spindle_left_open_is_closed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "shop"
    run("new", str(root))
    monkeypatch.chdir(root)
    run("call", "hello", "--name", "you")
    state = root / ".spindle"
    for path, mode in ((state, 0o755), (state / "state.db", 0o644)):
        path.chmod(mode)
    capsys.readouterr()
    execute(["doctor", "--json"])
    said = [found["message"] for found in json.loads(capsys.readouterr().out)["findings"]]
    assert f"others could use {state}: it is yours alone now" in said
    assert f"others could use {state / 'state.db'}: it is yours alone now" in said
    assert loose(state) == []
    state.chmod(0o755)
    run("tools")
    assert f"note: others could use {state}" in capsys.readouterr().err
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
