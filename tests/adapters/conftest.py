"""A workspace with Python tools and a real MCP server, and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from adapters.samples import python_tools
from servers import warm
from spindle.app import Spindle
from spindle.testing import ModelServer, workspace


@pytest.fixture
async def app() -> AsyncIterator[Spindle]:
    time = {"command": [str(warm.FOLDER / "mcp-server-time"), "--local-timezone", "UTC"]}
    async with workspace(python_tools(), sources={"time": time}) as opened:
        yield opened


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
