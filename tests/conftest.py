"""What tests of several parts share: workspaces made in Python, and the servers that they call."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.oauth import OAuthProvider, User, running_mcp_server, running_provider
from servers.rest import RestWorkspace
from servers.running import OpenSources, StdioServers
from spindle.app import Spindle
from spindle.settings import Settings

TEST_KEY = base64.urlsafe_b64encode(b"a key that only the tests use ..").decode()


@pytest.fixture(autouse=True)
def _own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test leaves a key among the user's own."""
    monkeypatch.setenv("SPINDLE_KEY", TEST_KEY)


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


@pytest.fixture(scope="session")
def oauth_provider() -> Iterator[OAuthProvider]:
    """A real authorisation server."""
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def guarded_url(oauth_provider: OAuthProvider) -> Iterator[str]:
    """A real MCP server that demands its tokens."""
    with running_mcp_server(oauth_provider.issuer) as url:
        yield url


@pytest.fixture
async def ann() -> AsyncIterator[User]:
    async with User("ann") as user:
        yield user
