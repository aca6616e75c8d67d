from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from scripted_source import SCRIPTS, Script

import spindle
from spindle.app import Spindle
from spindle.settings import Settings


@pytest.fixture(autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution that offers the kind `scripted`."""
    site = tmp_path_factory.mktemp("site")
    info = site / "scripted_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[spindle.sources]\nscripted = scripted_source:ScriptedSource\nbroken = nowhere_at_all:Source\n"
        "duck = scripted_source:Script\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("SPINDLE_HOME", str(site / "home"))
    SCRIPTS.clear()
    yield site
    SCRIPTS.clear()
    with contextlib.suppress(ValueError):
        sys.path.remove(str(site))


class Workspace:
    """Scripted sources over one store file, opened as often as a test likes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self.sources: dict[str, dict[str, Any]] = {}

    def source(self, name: str, *tools: str, **settings: Any) -> Script:
        self.sources[name] = {"kind": "scripted", "retry": {"attempts": 1}, **settings}
        script = SCRIPTS[name] = Script()
        script.offer(*tools)
        return script

    def open(self) -> AbstractAsyncContextManager[Spindle]:
        settings = Settings(self.root, {"sources": dict(self.sources)})
        return spindle.open(settings=settings, note=self.notes.append)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
