"""A serving process that uses hostile sources, and measures for how long its event loop stands still.

    python attacked_process.py FOLDER HTTP_ADDRESS

Prints the address that it serves at. Then each line that it reads is a command, answered by a line of JSON:
`settle` has the server leave the hostile sources alone, `measure` begins to measure anew, `attack` begins to
use all cases of the corpus, over and over, and `report` tells what was measured and what went wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import orjson
from attacks import use
from corpus.documents import DOCUMENTS
from corpus.schemas import SCHEMAS
from corpus.servers import HEALTHY, SERVERS, STDIO_SERVER, HostileServer

import spindle
from servers.serving import served
from spindle.app import Spindle
from spindle.cli.responsive import responsive_loop
from spindle.errors import Interruption, SpindleError
from spindle.settings import Settings

AT_ONCE = 4
TICK = 0.005
Job = HostileServer | str


class Lag:
    """The longest time that the event loop kept a timer waiting, and the longest while this process computed,
    in any thread: the rest is the machine's, which stops an idle loop for 100 ms now and then."""

    def __init__(self) -> None:
        self.longest = self.computing = 0.0
        self.during = ""

    async def watch(self, busy: dict[str, float]) -> None:
        while True:
            before, worked = time.perf_counter(), time.process_time()
            during = ", ".join(busy)
            await asyncio.sleep(TICK)
            lag = time.perf_counter() - before - TICK
            self.computing = max(self.computing, min(lag, time.process_time() - worked))
            if lag > self.longest:
                self.longest, self.during = lag, during


def sources_of(folder: Path, http_address: str) -> dict[str, dict[str, Any]]:
    """The settings of the healthy source and of all hostile ones."""
    sources: dict[str, dict[str, Any]] = {"healthy": {**HEALTHY, "timeout": 60}}
    for case in SERVERS:
        sources[case.name] = {**case.settings(http_address, patience=120), "idle_timeout": 1}
    for number, document in enumerate(DOCUMENTS):
        file = folder / f"document{number}.{document.kind}"
        file.write_bytes(document.data())
        sources[f"document{number}"] = {"kind": "openapi", "document": str(file)}
    tools = [{"name": "ok", "inputSchema": {"type": "object"}}]
    for number, case in enumerate(SCHEMAS):
        tool = {"name": f"schema{number}", "inputSchema": case.schema()}
        with contextlib.suppress(RecursionError, ValueError):  # what cannot be sent is a document's matter
            orjson.loads(json.dumps([[[[[[tool]]]]]]))
            tools.append(tool)
    (folder / "tools.json").write_text(json.dumps(tools))
    command = [sys.executable, "-I", "-S", str(STDIO_SERVER), "tools_of_a_file", str(folder / "tools.json")]
    sources["schemas"] = {"command": command, "protocol": "handshake"}
    return sources


async def use_document(app: Spindle, name: str) -> str | None:
    report = (await app.sync(name))[0]
    expected = DOCUMENTS[int(name.removeprefix("document"))].ends
    if report.error is None:
        return None if expected == "usable" else "it was taken"
    said = str(report.error["message"])
    return None if expected != "usable" and name in said else f"its document: {said[:300]}"


async def use_schemas(app: Spindle) -> str | None:
    report = (await app.sync("schemas"))[0]
    if report.error is not None:
        return str(report.error["message"])[:300]
    taken = {tool.name for tool in await app.tools() if tool.source == "schemas"}
    for number, case in enumerate(SCHEMAS):
        if f"schemas.schema{number}" not in taken:
            continue
        for arguments in (case.value(), {"value": case.value()}):
            await asyncio.sleep(0)  # as calls of clients would, each a request of its own
            try:
                await app.call(f"schemas.schema{number}", arguments)
            except (SpindleError, Interruption):
                continue
            if case.ends == "refused" and not (await app.show(f"schemas.schema{number}")).faults:
                return f"{case.name} was taken as it is"
    return None


class Attack:
    """Uses all cases, a few at a time, in ever other orders."""

    def __init__(self, app: Spindle) -> None:
        self._app = app
        self.busy: dict[str, float] = {}
        self.used = 0
        self.problems: dict[str, str] = {}
        self.slowest = 0.0

    async def go_on(self) -> None:
        jobs: list[Job] = [*SERVERS, *(f"document{number}" for number in range(len(DOCUMENTS))), "schemas"]
        order = random.Random(7)
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                order.shuffle(jobs)
                for job in jobs:
                    await room.acquire()
                    group.create_task(self._use(job)).add_done_callback(lambda _done: room.release())

    async def _use(self, job: Job) -> None:
        name = job if isinstance(job, str) else job.name
        self.busy[name] = began = time.perf_counter()
        try:
            if isinstance(job, HostileServer):
                problem = await use(self._app, job)
            elif job == "schemas":
                problem = await use_schemas(self._app)
            else:
                problem = await use_document(self._app, job)
        finally:
            self.busy.pop(name, None)
        self.slowest = max(self.slowest, time.perf_counter() - began)
        self.used += 1
        if problem is not None:
            self.problems[name] = problem


async def main(folder: Path, http_address: str) -> None:
    settings = Settings(folder, {"sources": sources_of(folder, http_address)})
    async with spindle.open(settings=settings, note=lambda _sentence: None) as app:
        await app.sync("healthy")
        attack, lag = Attack(app), Lag()
        tasks = [asyncio.create_task(lag.watch(attack.busy))]
        async with served(app) as url:
            print(url, flush=True)
            reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            while command := (await reader.readline()).decode().strip():
                if command == "settle":
                    for task in asyncio.all_tasks():
                        if task.get_name() == "first sync":
                            task.cancel()
                elif command == "attack":
                    tasks.append(asyncio.create_task(attack.go_on()))
                elif command == "measure":
                    gc.collect()
                    lag.longest, lag.computing, lag.during = 0.0, 0.0, ""
                told = {
                    "lag": lag.longest, "computing": lag.computing, "during": lag.during,
                    "used": attack.used, "slowest": attack.slowest,
                    "problems": attack.problems, "ended": [repr(task) for task in tasks if task.done()],
                }  # fmt: skip
                print(json.dumps(told), flush=True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=responsive_loop()) as runner:
        runner.run(main(Path(sys.argv[1]), sys.argv[2]))
