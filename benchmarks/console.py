"""The console with 5,000 tools, 10,000 calls and 100 groups: the time that the server takes for the first
page of each screen, and what 500 open pages with live updates cost it. Each page asks for its part again
when it is told of a change, as a browser does."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import psutil

from serving import ENVIRONMENT, HERE, free_port
from table import Row

GOAL = 300.0
"""Milliseconds for the first page of a screen."""
SPINDLE = str(Path(sys.executable).with_name("spindle"))
PATIENCE = 120.0
FILL = """
import asyncio, random, sys, time
import spindle
from spindle.domain.call import CallRecord
from spindle.serving.administration import Administration, Administrator

async def main():
    async with spindle.open(sys.argv[1]) as app:
        await app.sync()
        names = [tool.name for tool in await app.tools()]
        now = time.time()
        for number in range(int(sys.argv[2])):
            at = now - 3600 * 30 * random.random() ** 3
            bad = number % 17 == 0
            await app.store.save_call(CallRecord(
                f"{number:08x}", names[number % len(names)], "echo", "local", {"text": "hello " * 20},
                "timeout" if bad else "ok", at, random.random(), 1, {"message": "too late"} if bad else None,
            ), together=True)
        by = Administration(app.store, app.settings.serve)
        for number in range(100):
            lists = {"exposed_tools": [f"echo.*{number % 10}"], "excluded_tools": ["echo.*99"]}
            await by.set_group(Administrator("bench", "bench"), f"team-{number:03}", lists)
        print(names[len(names) // 2])

asyncio.run(main())
"""
SCREENS = (
    "", "/tools", "/tools?q=send+a+message", "/tools?hint=read-only", "/tools/{tool}", "/sources",
    "/sources/echo", "/calls", "/calls?outcome=failed&since=day", "/waiting", "/access", "/access/tokens",
    "/access/matrix", "/access/quotas", "/runs", "/flows", "/tools?group=team-007", "/health",
    "/health/settings?defaults=1", "/find?q=echo",
)  # fmt: skip


@dataclass
class Opened:
    """A connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass
class Console:
    """A server with a console, and a browser's session there."""

    port: int
    process: subprocess.Popen[bytes]
    cookie: str = ""
    fetched: list[float] = field(default_factory=list[float])
    """The seconds that each part took that a page asked for again."""

    @property
    def server(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def enter(self, folder: str) -> None:
        """Signs in, by a link from the shell, as a browser does: it gets the page of the link and its files,
        and sends the form there, though without the time that a browser takes to start and to draw."""
        origin = f"http://127.0.0.1:{self.port}"
        until = time.monotonic() + PATIENCE
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                break
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise SystemExit("the console does not start") from None
                time.sleep(0.05)
        command = [SPINDLE, "-w", folder, "console", "--server", origin]
        link = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
        connection.request("GET", "/console/enter")
        shown = connection.getresponse().read().decode()
        for file in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', shown):
            connection.request("GET", file)
            connection.getresponse().read()
        body = urlencode({"code": link.strip().partition("#")[2]})
        headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/console/enter", body, headers)
        answer = connection.getresponse()
        answer.read()
        self.cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        if not self.cookie:
            raise SystemExit(f"the console does not let us in: {answer.status}")

    def first_page(self, path: str) -> float:
        """Milliseconds until a page is here as a whole, over a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.connect()
        began = time.perf_counter()
        connection.request("GET", f"/console{path}", headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        data = answer.read()
        took = (time.perf_counter() - began) * 1000
        connection.close()
        if answer.status != 200 or len(data) < 100:
            raise SystemExit(f"/console{path} answered with {answer.status}")
        return took

    async def _opened(self, request: str, body: str = "") -> Opened:
        """Sends a request over a new connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        opened = Opened(reader, writer)
        await self._send(opened, request, body)
        return opened

    async def _send(self, to: Opened, request: str, body: str = "") -> None:
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{request}\r\nHost: 127.0.0.1:{self.port}\r\n{length}"
        to.writer.write(f"{head}\r\n{body}".encode())
        await to.writer.drain()

    async def _answer(self, of: Opened) -> int:
        """Reads an answer as a whole, and returns its length."""
        head = (await of.reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head[:16]:
            raise SystemExit(f"refused: {head[:60]!r}")
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        await of.reader.readexactly(length)
        return length

    async def call(self) -> None:
        """Calls a tool, as a client of this machine."""
        connection = await self._opened("POST /tools/echo.echo HTTP/1.1", '{"text": "x"}')
        await self._answer(connection)
        connection.writer.close()

    async def page(self, path: str, part: str, opened: asyncio.Event) -> None:
        """One open page: hears of changes, and asks for its part again, over a connection that it keeps."""
        cookie = f"Cookie: {self.cookie}"
        live = await self._opened(f"GET /console/live HTTP/1.1\r\n{cookie}\r\nAccept: text/event-stream")
        wanted = f"GET {path} HTTP/1.1\r\n{cookie}\r\nHX-Request: true\r\nHX-Target: {part}"
        kept = await self._opened(wanted)
        await self._answer(kept)
        opened.set()
        try:
            while line := await live.reader.readline():
                if line.startswith(b"data: ") and b"calls" in line:
                    await asyncio.sleep(0.1 + random.random() * 0.4)
                    began = time.perf_counter()
                    await self._send(kept, wanted)
                    await self._answer(kept)
                    self.fetched.append(time.perf_counter() - began)
        finally:
            live.writer.close()
            kept.writer.close()


async def _open_pages(console: Console, count: int, seconds: float) -> list[Row]:
    server = console.server
    idle = server.memory_info().rss
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    shown = (
        ("/console", "div#overview"),
        ("/console/calls", "section#list"),
        ("/console/tools", "section#list"),
    )
    pages: list[asyncio.Task[None]] = []
    for number in range(count):
        opened = asyncio.Event()
        pages.append(asyncio.create_task(console.page(*shown[number % 3], opened)))
        await asyncio.wait_for(opened.wait(), PATIENCE)
    await asyncio.sleep(2)
    opened_mb = (server.memory_info().rss - idle) / 2**20
    before = sum(server.cpu_times()[:2])
    await asyncio.sleep(seconds)
    quiet = (sum(server.cpu_times()[:2]) - before) / seconds
    before, began = sum(server.cpu_times()[:2]), time.monotonic()
    calls = 0
    most = server.memory_info().rss
    while time.monotonic() < began + 2 * seconds:
        await console.call()
        calls += 1
        await asyncio.sleep(0.5)
        most = max(most, server.memory_info().rss)
    took = time.monotonic() - began
    busy = (sum(server.cpu_times()[:2]) - before) / took
    alive = sum(not page.done() for page in pages)
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)
    if alive < count or not console.fetched:
        raise SystemExit(
            f"{count - alive} of {count} pages were lost, {len(console.fetched)} parts were fetched"
        )
    slow = sorted(console.fetched)[int(len(console.fetched) * 0.95)]
    what = f"{count} open pages"
    return [
        Row("console", f"{what}: memory that they take", opened_mb, "MB"),
        Row("console", f"{what}: share of a core while nothing happens", 100 * quiet, "%"),
        Row("console", f"{what}: share of a core, {calls / took:.1f} calls a second", 100 * busy, "%"),
        Row("console", f"{what}: memory of the server at most", most / 2**20, "MB"),
        Row(
            "console",
            f"{what}: a part that is asked for again, median",
            1000 * statistics.median(console.fetched),
            "ms",
        ),
        Row("console", f"{what}: a part that is asked for again, 95 %", 1000 * slow, "ms"),
    ]


def console(quick: bool) -> list[Row]:
    tools, calls, pages, rounds = (500, 1000, 50, 3) if quick else (5000, 10_000, 500, 9)
    with tempfile.TemporaryDirectory() as outer:
        folder = str(Path(outer, "workspace"))
        Path(folder).mkdir()
        command = json.dumps([sys.executable, "-I", "-S", str(HERE / "servers" / "echo.py"), str(tools - 2)])
        Path(folder, "spindle.toml").write_text(
            f"[sources.echo]\ncommand = {command}\ntimeout = 300\n"
            "[serve]\nmax_connections = 3000\n[serve.quotas]\nrequests = 2000\n"
        )
        filling = [sys.executable, "-c", FILL, folder, str(calls)]
        done = subprocess.run(filling, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the workspace could not be filled:\n{done.stderr[-2000:]}")
        tool, port = done.stdout.split()[-1], free_port()
        serve = [SPINDLE, "-w", folder, "serve", "--rest", "--console", "--port", str(port)]
        started = subprocess.Popen(
            serve, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            shown = Console(port, started)
            shown.enter(folder)
            rows: list[Row] = []
            used: dict[str, float] = {}
            for path in SCREENS:
                asked = path.replace("{tool}", quote(tool, safe=""))
                before = sum(shown.server.cpu_times()[:2])
                took = [shown.first_page(asked) for _ in range(rounds)]
                used[path] = 1000 * (sum(shown.server.cpu_times()[:2]) - before) / rounds
                rows.append(
                    Row("console", f"first page of /console{path}", statistics.median(took), "ms", goal=GOAL)
                )
                if took[0] > 1.5 * statistics.median(took):
                    rows.append(
                        Row("console", f"  the first time of /console{path}", took[0], "ms", goal=GOAL)
                    )
            # Of a machine that others use as well, this is what is left to compare.
            dearest = max(used, key=used.__getitem__)
            what = f"processor time of the dearest page, /console{dearest}"
            rows.append(Row("console", what, used[dearest], "ms", goal=GOAL))
            rows += asyncio.run(_open_pages(shown, pages, 5 if quick else 15))
        finally:
            started.kill()
            started.wait()
    return rows
