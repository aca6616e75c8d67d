"""Workspaces with AsyncAPI documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from event_documents import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    root.mkdir()
    return Workspace(root)
