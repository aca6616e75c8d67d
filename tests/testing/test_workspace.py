"""Workspaces for tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import spindle
from spindle.testing import workspace


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_workspace_with_tools_is_ready_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_KEY")
    made = workspace([add], settings={"store": "state.db"})
    async with made as app:
        root = made.root
        assert (await app.call("add", a=1, b=2)).structured == 3
        assert (root / "state.db").exists()
    assert not root.exists()


def test_the_same_blocking_with_sources_and_files() -> None:
    file = "from spindle import tool\n\n@tool\ndef greet(name: str) -> str:\n    return f'hello {name}'\n"
    server = [str(Path(sys.executable).with_name("mcp-server-time"))]
    with workspace(sources={"time": {"command": server}}, files={"tools/greet.py": file}) as app:
        assert app.call("greet", name="Ada").text == "hello Ada"
        assert "UTC" in app.call("time.get_current_time", timezone="UTC").text


async def test_pauses_work_without_a_key_of_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPINDLE_KEY")
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))

    def ask(context: spindle.Context) -> str:
        return f"you said {context.ask('what?')}"

    async with workspace([ask]) as app:
        paused = await app.run("ask")
        assert isinstance(paused, spindle.Paused)
        done = await app.resume(paused.pauses[0].token, "this")
        assert isinstance(done, spindle.Finished)
        assert done.result.text == "you said this"
    assert not (tmp_path / "home").exists()


async def test_nothing_stays_when_it_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(spindle.SpindleError):
        async with workspace(settings={"store": "nonsense://"}):
            pass
    assert list(tmp_path.iterdir()) == []
