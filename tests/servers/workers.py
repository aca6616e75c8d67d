"""Workers of a workspace whose tools count: a log says which process began or ended which step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spindle
from servers import warm
from servers.running import PATIENCE
from spindle.app import Spindle
from spindle.domain.run import Run

TOOLS = '''
import json, os, time
from pathlib import Path
from spindle import Context, ToolError, tool

HERE = Path(__file__).parent.parent


def note(what: str, item: str, step: int, **more) -> None:
    said = {"what": what, "item": item, "step": step, "pid": os.getpid(), "at": time.time(), **more}
    line = json.dumps(said)
    with open(HERE / "log", "ab", buffering=0) as log:
        log.write(line.encode() + b"\\n")


@tool(idempotent=True)
def count(context: Context, item: str, step: int, seconds: float = 0.0, until: str = "") -> str:
    """Take a moment, or wait until a file is there."""
    note("begun", item, step, key=context.step_id)
    time.sleep(seconds)
    while until and not (HERE / until).exists():
        time.sleep(0.02)
    note("ended", item, step, key=context.step_id)
    return item


@tool
def charge(item: str, until: str = "") -> str:
    """Must not be done twice."""
    note("begun", item, 0)
    while until and not (HERE / until).exists():
        time.sleep(0.02)
    note("ended", item, 0)
    return item


@tool(idempotent=True)
def needs(item: str, file: str) -> str:
    """Fails as long as a file is not there."""
    note("begun", item, 99)
    if not (HERE / file).exists():
        raise ToolError("there is no such file yet")
    return item
'''


def flow(steps: int, **params: Any) -> str:
    """A flow of so many nodes that count, one after the other."""
    nodes = [
        {"id": f"n{step}", "tool": "count", "params": {"item": "${item}", "step": step, **params}}
        for step in range(steps)
    ]
    edges = [{"from": f"n{step}", "to": f"n{step + 1}"} for step in range(steps - 1)]
    inputs = {"item": {"type": "string"}}
    return json.dumps({"inputs": inputs, "nodes": nodes, "edges": edges})


@dataclass(frozen=True)
class Place:
    """A workspace for workers."""

    root: Path
    store: str | None

    def environment(self, **more: str) -> dict[str, str]:
        stored = {"SPINDLE_STORE": self.store} if self.store else {}
        return {**os.environ, "SPINDLE_HOME": str(self.root / "home"), **stored, **more}

    def opened(self, **more: str) -> Any:
        return spindle.open(self.root, environ=self.environment(**more))

    def save(self, name: str, text: str) -> None:
        (self.root / "flows" / f"{name}.json").write_text(text)

    def lines(self) -> list[dict[str, Any]]:
        log = self.root / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def counted(self, what: str) -> Counter[tuple[str, int]]:
        return Counter((line["item"], line["step"]) for line in self.lines() if line["what"] == what)

    async def line(self, what: str, item: str, step: int, times: int = 1) -> dict[str, Any]:
        """Waits until a step has begun or ended so often, and returns the last of it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [
                    line
                    for line in self.lines()
                    if (line["what"], line["item"], line["step"]) == (what, item, step)
                ]
                if len(found) >= times:
                    return found[times - 1]
                await asyncio.sleep(0.02)


def workspace(folder: Path, store: str | None, settings: str = "") -> Place:
    root = folder / "workspace"
    for name in ("tools", "flows", "home"):
        (root / name).mkdir(parents=True)
    (root / "tools" / "counting.py").write_text(TOOLS)
    (root / "spindle.toml").write_text(settings)
    return Place(root, store)


class WorkerProcess:
    """`spindle worker`, as a real process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.notes: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self._has_said = asyncio.Event()

    @property
    def pid(self) -> int:
        """The number of the process, once it takes runs."""
        return warm.pid_of(self._process.pid)

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.notes.append(line.decode())
            if b"takes runs of" in line:
                self._has_said.set()
        self._has_said.set()

    async def takes_runs(self) -> None:
        """Waits until it does, and fails with what it says if it ends instead."""
        async with asyncio.timeout(PATIENCE):
            await self._has_said.wait()
        assert any("takes runs of" in note for note in self.notes), self.notes

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(how)
                if how == signal.SIGTERM:
                    self.signal(signal.SIGCONT)
        return await self.ended()

    async def ended(self) -> int:
        """Waits until it has ended by itself, and returns its exit code."""
        code = await asyncio.wait_for(self._process.wait(), PATIENCE)
        await self._reading
        return code

    def signal(self, how: signal.Signals) -> None:
        os.kill(self.pid, how)


@contextlib.asynccontextmanager
async def worker(place: Place, *words: str, **environment: str) -> AsyncIterator[WorkerProcess]:
    process = await asyncio.create_subprocess_exec(
        warm.SPINDLE, "worker", *words,
        cwd=place.root, env=place.environment(**environment), stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    started = WorkerProcess(process)
    try:
        await started.takes_runs()
        yield started
    finally:
        await started.end(signal.SIGKILL)


async def until_it_is(app: Spindle, run: str, *statuses: str, patience: float = PATIENCE) -> Run:
    """Waits until a run has one of these statuses."""
    deadline = time.monotonic() + patience
    while True:
        found = await app.store.run(run)
        if found is not None and found.status in statuses:
            return found
        assert time.monotonic() < deadline, f"run {run} is {found and found.status} ({found and found.error})"
        await asyncio.sleep(0.05)
