"""Running the servers of this folder, and watching what becomes of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from spindle.app import Spindle

REPOSITORY = Path(__file__).parent.parent.parent
STDIO_SERVER = Path(__file__).parent / "stdio_server.py"
PATIENCE = 120.0
"""Seconds after which something that should have happened counts as missing. Never waited out by a
test that passes."""


class OpenSources(Protocol):
    def __call__(
        self, sources: dict[str, dict[str, Any]], **options: Any
    ) -> AbstractAsyncContextManager[Spindle]: ...


class StdioServers:
    """Settings for `servers/stdio_server.py`, and what its processes recorded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str = "fault", /, **options: Any) -> dict[str, Any]:
        options = {"record": str(self._folder / f"{name}.jsonl"), **options}
        return {
            "command": [sys.executable, "-I", "-S", str(STDIO_SERVER), json.dumps(options)],
            "retry": {"wait": 0.001, "max_wait": 0.01},
        }

    def recorded(self, name: str = "fault") -> list[dict[str, Any]]:
        file = self._folder / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def starts(self, name: str = "fault") -> list[int]:
        """The process ids of all servers that were started, in order."""
        return [entry["pid"] for entry in self.recorded(name) if entry.get("start") == "server"]

    def calls(self, tool: str, name: str = "fault") -> int:
        entries = [entry for entry in self.recorded(name) if entry.get("method") == "tools/call"]
        return sum(1 for entry in entries if entry["params"]["name"] == tool)


def missing(what: str) -> NoReturn:
    """Skip a test for what is not installed; in CI, which installs everything, that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def program(name: str) -> str:
    """A server that the Makefile installed, or the system has."""
    found = shutil.which(
        name,
        path=os.pathsep.join(
            [
                str(REPOSITORY / ".node" / "node_modules" / ".bin"),
                str(Path(sys.executable).parent),
                os.environ.get("PATH", ""),
            ]
        ),
    )
    if found is None:
        missing(f"{name} is not installed: run `make node`")
    return found


async def process_end(pid: int) -> None:
    """Returns when the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def is_running(pid: int) -> bool:
    """Whether the process exists, also as a zombie."""
    return Path(f"/proc/{pid}").exists()


class Signal:
    """A progress listener: tells that the server took the call, and keeps what it reported."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float | None, str | None]] = []
        self._event = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.seen.append((progress, total, message))
        self._event.set()

    async def wait(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._event.wait()


def next_change(app: Spindle) -> Callable[[], Any]:
    """Call it to wait for the next report of a refreshed source."""
    reports: asyncio.Queue[Any] = asyncio.Queue()
    app.catalog.on_change(reports.put_nowait)

    async def wait() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await reports.get()

    return wait


async def until(happened: Callable[[], bool]) -> None:
    """Give way to others until something has happened that nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not happened():
            await asyncio.sleep(0.001)


async def listening(app: Spindle, source: str = "s") -> None:
    """Returns when the stdio server was asked for notices of changes, which happens in the background."""
    async with asyncio.timeout(PATIENCE):
        while True:
            messages = (await app.call(f"{source}.received")).structured["messages"]
            if any(message.get("method") == "subscriptions/listen" for message in messages):
                return
