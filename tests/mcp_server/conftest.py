"""Workspaces to be served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from spindle.app import Spindle
from spindle.settings import Settings

FIXTURES = Path(__file__).parent.parent / "servers" / "conformance"

OpenFixture = Callable[..., AbstractAsyncContextManager[Spindle]]


def fixture_source(**settings: Any) -> dict[str, Any]:
    command = [warm.PYTHON, str(FIXTURES / "fixture_server.py")]
    answers = ["elicitation", "sampling", "roots"]
    return {"command": command, "answers": answers, "prefix": False, **settings}


@pytest.fixture
def open_fixture(tmp_path: Path) -> OpenFixture:
    """A workspace whose source `fixture` has everything that MCP knows."""

    @contextlib.asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Spindle]:
        raw = {"sources": {"fixture": fixture_source(**settings)}, "store": ":memory:"}
        async with spindle.open(settings=Settings(tmp_path, raw)) as app:
            yield app

    return opened
