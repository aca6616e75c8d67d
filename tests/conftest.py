"""What tests of several parts share: workspaces made in Python, and the servers that they call."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.rest import RestWorkspace
from servers.running import OpenSources, StdioServers
from spindle.app import Spindle
from spindle.settings import Settings


@pytest.fixture
def open_sources(tmp_path: Path) -> OpenSources:
    """`async with open_sources({"name": {settings}}) as app`: a workspace with these sources."""

    @contextlib.asynccontextmanager
    async def opened(sources: dict[str, dict[str, Any]], **options: Any) -> AsyncIterator[Spindle]:
        settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
        async with spindle.open(settings=settings, **options) as app:
            yield app

    return opened


@pytest.fixture
def stdio_server(tmp_path: Path) -> StdioServers:
    return StdioServers(tmp_path)


@pytest.fixture
def rest(tmp_path: Path) -> RestWorkspace:
    """A workspace to serve over HTTP."""
    return RestWorkspace(tmp_path / "rest")
