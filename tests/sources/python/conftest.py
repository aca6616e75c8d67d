from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.app import Spindle

OpenFunctions = Callable[..., AbstractAsyncContextManager[Spindle]]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SPINDLE_HOME", str(folder))
    return folder


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def offer(tmp_path: Path, notes: list[str]) -> OpenFunctions:
    """`async with offer(function, ...) as app`: a workspace with these functions."""

    @contextlib.asynccontextmanager
    async def opened(*functions: Any) -> AsyncIterator[Spindle]:
        async with spindle.open(tmp_path, tools=functions, note=notes.append) as app:
            yield app

    return opened


class Folder:
    """A workspace with a tools folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        (root / "tools").mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        file = self.root / "tools" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("from spindle import tool\n" + text)
        return file

    def open(self) -> AbstractAsyncContextManager[Spindle]:
        return spindle.open(self.root, note=self.notes.append)

    async def names(self, app: Spindle) -> list[str]:
        return [summary.name for summary in await app.tools()]


@pytest.fixture
def make_folder() -> type[Folder]:
    return Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "workspace")
