"""What tests of several parts share: workspaces made in Python, and the servers that they call."""

from __future__ import annotations

import base64
import contextlib
import gc
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

import spindle
from servers.oauth import OAuthProvider, User, running_mcp_server, running_provider
from servers.rest import RestWorkspace
from servers.running import OpenSources, StdioServers
from servers.trusted import share_the_context
from servers.warm import warm_python
from spindle.app import Spindle
from spindle.settings import Settings, places

if TYPE_CHECKING:
    from servers.postgres import PostgresServer
    from servers.temporal import TemporalServer

pytest_plugins = ["pytester"]

# The workspaces of tests are the tests' own. Those about trust take it back.
os.environ["SPINDLE_TRUST"] = "1"

TEST_KEY = base64.urlsafe_b64encode(b"a key that only the tests use ..").decode()

share_the_context()

# One profile for all: the same examples everywhere, and nothing that depends on how fast the machine is.
# `make fuzz` takes the other.
UNTIMED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile(
    "tests", max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=UNTIMED
)
settings.register_profile(
    "fuzz", settings.get_profile("tests"), max_examples=5000, derandomize=False, print_blob=True
)
settings.load_profile("tests")

# A shell starts what runs in its background deaf to Ctrl-C, and so would be all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# By fixture: the marker of the tests that use it.
MARKED = {"oauth_provider": "npm"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in MARKED.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKED[fixture])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded here stays; to look for garbage in it again and again takes a fifth of the loading time,
    and a tenth of that of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _own_key(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test leaves a key among the user's own, also not with an environment that has none."""
    monkeypatch.setenv("SPINDLE_KEY", TEST_KEY)
    usual, ours = places.own_folder, tmp_path_factory.getbasetemp() / "own-data"

    def own_folder(kind: Any) -> Path:
        return ours if kind == "data" and "XDG_DATA_HOME" not in os.environ else usual(kind)

    monkeypatch.setattr(places, "own_folder", own_folder)


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


@pytest.fixture(scope="session", autouse=True)
def _warm_python() -> Iterator[None]:
    with warm_python():
        yield


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


@pytest.fixture(scope="session")
def open_lists_url(oauth_provider: OAuthProvider) -> Iterator[str]:
    """One that tells of some of its tools without a token."""
    with running_mcp_server(oauth_provider.issuer, "open") as url:
        yield url


@pytest.fixture
async def ann() -> AsyncIterator[User]:
    async with User("ann") as user:
        yield user


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for each process of the tests: it is there in half a second."""
    from servers.postgres import running_server

    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[TemporalServer]:
    """One server for each process of the tests."""
    from servers.temporal import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a store of the test's own, whose connections have the name of its schema."""
    name = f"test_{uuid.uuid4().hex}"
    return postgres_server.url(application_name=name, schema=name)
