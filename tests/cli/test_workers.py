"""`spindle serve --workers N`: several processes on one port."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import httpx2
import pytest
from mcp import Client

from cli.conftest import Run
from mcp_server.test_http_serving import handshake, rpc
from servers.running import PATIENCE
from servers.serving import ERAS, SPINDLE, text_of

TOOLS = '''
import os
from spindle import tool

@tool
def who() -> str:
    """The process that answers."""
    return str(os.getpid())
'''


def children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


async def until_gone(pids: Iterable[int]) -> None:
    async with asyncio.timeout(PATIENCE):
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            await asyncio.sleep(0.02)


class Served:
    """The command, and the address that it told."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._command = (SPINDLE, "-w", str(folder), "serve", "--http", "--port", "0", *words)

    async def __aenter__(self) -> Served:
        self.process = await asyncio.create_subprocess_exec(*self._command, stderr=asyncio.subprocess.PIPE)
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stderr.readline()
        found = re.search(r"serving MCP on (\S+), with 3 workers", line.decode())
        assert found, line
        self.url = found[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.communicate()

    async def all_there(self) -> set[int]:
        async with asyncio.timeout(PATIENCE):
            while len(found := children(self.process.pid)) < 3:
                await asyncio.sleep(0.02)
        return found

    async def asked(self, http: httpx2.AsyncClient, headers: dict[str, str]) -> int:
        """The process that answers on a connection of its own."""
        answer = await http.post(
            self.url, json=rpc("tools/call", name="who"), headers={**headers, "connection": "close"}
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["result"]["content"][0]["text"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "who.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text("")
    return tmp_path


async def test_one_session_is_answered_by_all_workers_and_by_the_one_that_takes_the_place_of_another(
    workspace: Path,
) -> None:
    async with Served(workspace, "--workers", "3") as served, httpx2.AsyncClient(timeout=PATIENCE) as http:
        headers = await handshake(http, served.url)
        workers = await served.all_there()
        seen: set[int] = set()
        async with asyncio.timeout(PATIENCE):
            while seen != workers:
                seen.add(await served.asked(http, headers))
        victim = next(iter(workers))
        os.kill(victim, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while len(again := await served.all_there() - {victim}) < 3:
                await asyncio.sleep(0.02)
            while not seen >= again:
                seen.add(await served.asked(http, headers))
        for era in ERAS.values():
            async with Client(served.url, mode=era) as client:
                assert int(text_of(await client.call_tool("who", {}))) in again
        served.process.terminate()
        assert await served.process.wait() == 0
        await until_gone(again)


async def test_workers_end_with_the_process_that_started_them(workspace: Path) -> None:
    async with Served(workspace, "--workers", "3") as served:
        workers = await served.all_there()
        served.process.kill()
        await until_gone(workers)


def test_what_stops_one_server_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[serve]\nauth_token_env = "NO_SUCH_VARIABLE"\n')
    words = (SPINDLE, "-w", str(tmp_path), "serve", "--http", "--port", "0", "--workers", "3")
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr.count("NO_SUCH_VARIABLE, which is not set") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stdio", "--workers", "2"), "--workers goes with --http and --rest"),
        (("--http", "--workers", "0"), "--workers"),
    ],
)
def test_mistakes_with_workers_are_explained(
    tmp_path: Path, spindle: Run, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "spindle.toml").write_text("")
    done = spindle("-w", str(tmp_path), "serve", *words)
    assert done.code == 2
    assert said in done.err


def test_a_workspace_that_stores_nothing_has_one_process(tmp_path: Path, spindle: Run) -> None:
    (tmp_path / "spindle.toml").write_text('store = ":memory:"\n')
    done = spindle("-w", str(tmp_path), "serve", "--http", "--port", "0", "--workers", "2")
    assert done.code != 0
    assert "workers share what is stored" in done.err
