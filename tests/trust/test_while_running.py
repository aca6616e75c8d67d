"""A workspace that somebody else changes while a process has it open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import spindle
from spindle import settings
from spindle.errors import UntrustedError

CODE = """
from spindle import tool

@tool
def version() -> str:
    "Which one is it?"
    return {text!r}
"""


def write(root: Path, text: str, *, foreign: bool) -> None:
    file = root / "tools" / "own.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(CODE.format(text=text))
    file.chmod(0o666 if foreign else 0o644)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPINDLE_TRUST")
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    write(root, "first", foreign=False)
    (root / "spindle.toml").write_text("")
    monkeypatch.chdir(root)
    settings.load(root, trusted=False).trust()
    return root


async def test_an_edit_of_the_user_is_taken_at_once(root: Path) -> None:
    async with spindle.open() as app:
        assert (await app.call("version")).text == "first"
        write(root, "second", foreign=False)
        assert (await app.call("version")).text == "second"


async def test_a_strange_edit_is_not_taken_until_it_is_trusted(root: Path) -> None:
    notes: list[str] = []
    async with spindle.open(note=notes.append) as app:
        assert (await app.call("version")).text == "first"
        write(root, "evil", foreign=True)
        for _ in range(3):
            assert (await app.call("version")).text == "first"
        assert [tool.name for tool in await app.tools()] == ["version"]
        assert len(notes) == 1
        assert "is not trusted" in notes[0]
        await app.catalog.connections.close_source("tools")
        with pytest.raises(UntrustedError):
            await app.call("version")
        settings.load(root, trusted=False).trust()
        assert (await app.call("version")).text == "evil"


async def test_strange_settings_do_not_come_into_force(root: Path) -> None:
    async with spindle.open() as app:
        (root / "spindle.toml").write_text('[sources.more]\ncommand = "touch evil"\n')
        os.chmod(root / "spindle.toml", 0o666)
        with pytest.raises(UntrustedError):
            await app.reload()
        assert list(app.settings.sources) == ["tools"]
        settings.load(root, trusted=False).trust()
        await app.reload()
        assert "more" in app.settings.sources


async def test_a_workspace_that_a_program_names_may_change(root: Path) -> None:
    async with spindle.open(root) as app:
        assert (await app.call("version")).text == "first"
        write(root, "other", foreign=True)
        assert (await app.call("version")).text == "other"
