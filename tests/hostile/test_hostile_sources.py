"""Servers that attack: every case ends in a clear error that names its source, or does no harm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from attacks import use_all
from corpus import http_server
from corpus.documents import DOCUMENTS
from corpus.schemas import SCHEMAS
from corpus.servers import HEALTHY, HTTP, SERVERS, STDIO, uncovered

from hostile.conftest import Figures
from mcp_server.test_http_serving import modern
from servers.running import OpenSources


@pytest.fixture
def hostile_address() -> Iterator[str]:
    with http_server.running() as address:
        yield address


def test_the_corpus_has_a_case_for_every_behaviour() -> None:
    assert uncovered() == set()
    assert len(SERVERS) >= 80
    assert len(SERVERS) + len(DOCUMENTS) + len(SCHEMAS) >= 200


@pytest.mark.parametrize("cases", [STDIO, HTTP], ids=["stdio", "http"])
async def test_every_hostile_server_ends_in_a_clear_error_that_names_it(
    open_sources: OpenSources, hostile_address: str, cases: list
) -> None:
    sources = {case.name: case.settings(hostile_address) for case in cases}
    async with open_sources({"healthy": HEALTHY, **sources}, note=lambda _sentence: None) as app:
        await app.sync("healthy")
        assert await use_all(app, cases) == {}
        assert (await app.call("healthy.echo")).text == "done"


# --- while others work

CLIENTS = 20


class AttackedProcess:
    """A serving process that can be told to use hostile sources."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, folder: Path, http_address: str) -> AsyncIterator[AttackedProcess]:
        script = Path(__file__).with_name("attacked_process.py")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(script), str(folder), http_address,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{script.parent}{os.pathsep}{script.parent.parent}"},
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        try:
            yield cls(process, url)
        finally:
            process.stdin.close()
            await process.wait()
        assert process.returncode == 0

    async def tell(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        return json.loads(await self._process.stdout.readline())


async def calling(url: str, until: float, taken: list[float]) -> None:
    """Calls the healthy tool again and again, over one connection, and notes how long each call takes."""
    parts = urlsplit(url)
    message, headers = modern("tools/call", "healthy.echo", arguments={})
    body = json.dumps(message).encode()
    lines = {**headers, "host": parts.netloc, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    request = f"POST {parts.path} HTTP/1.1\r\n{head}\r\n".encode() + body
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while time.monotonic() < until:
        began = time.perf_counter()
        writer.write(request)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        assert b'"done"' in await reader.readexactly(length)
        taken.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()


async def p99_of_clients(url: str, seconds: float) -> tuple[float, int]:
    """The 99th percentile of what calls of all clients take, and their number."""
    taken: list[float] = []
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(calling(url, until, taken))
    return sorted(taken)[int(len(taken) * 0.99)], len(taken)


@pytest.mark.soak
async def test_clients_of_a_healthy_source_notice_little_of_the_hostile_ones(
    tmp_path: Path, hostile_address: str, seconds: float, figures: Figures
) -> None:
    async with AttackedProcess.started(tmp_path, hostile_address) as attacked:
        await attacked.tell("settle")
        await p99_of_clients(attacked.url, min(5, seconds * 0.1))  # warms up
        quiet, _ = await p99_of_clients(attacked.url, seconds * 0.25)
        await attacked.tell("attack")
        await attacked.tell("measure")
        under_attack, calls = await p99_of_clients(attacked.url, seconds * 0.6)
        found = await attacked.tell("report")
    figures(
        f"{found['used']} hostile cases used, {calls} healthy calls: p99 {quiet * 1000:.1f} ms when quiet,"
        f" {under_attack * 1000:.1f} ms under attack ({under_attack / quiet:.1f} x)"
    )
    figures(
        f"the event loop stood still for {found['lag'] * 1000:.0f} ms at most, by our own computing for"
        f" {found['computing'] * 1000:.0f} ms; then in use: {found['during'][:200]}"
    )
    assert found["ended"] == []
    assert found["problems"] == {}
    assert found["used"] > 0
    assert found["lag"] < 0.2
    assert under_attack <= 3 * quiet
