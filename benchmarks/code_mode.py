"""Ten tasks of many calls, by calls of the model and by programs in Spindle's code mode and in FastMCP's:
requests to the model, their tokens, and the time and CPU of what serves them.

Each contender serves the tools of one MCP server over HTTP, and one plain client joins it with the model: it
lists the tools, sends the conversation and makes the calls that the model asks for. The model is scripted, so
it makes no mistakes: it asks for all calls of a step at once, or searches, runs one program and answers. The
value of every program is checked. Tokens are those of all requests, which hold the tools and the conversation
so far, at four bytes each.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from code_tasks import TASKS, Dialect, FastMCPDialect, Task
from serving import ENVIRONMENT, PATIENCE, SCRIPTS, end, free_port
from table import Row

HERE = Path(__file__).parent
BYTES_PER_TOKEN = 4
WORDS = "list orders, get an order, a customer, an item in stock, remind"
Say = Callable[[Task], list[Any]]
"""The model's turns in a task, without its answer."""


@dataclass
class Figures:
    """Of all tasks: sums."""

    requests: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    cpu: float = 0.0


@dataclass
class Contender:
    name: str
    command: list[str]
    url: str
    say: Say
    value: Callable[[str], Any] | None = None
    """The value of a program in the text of its tool; None where the model makes the calls."""
    process: subprocess.Popen[bytes] | None = None
    found: list[Figures] = field(default_factory=list[Figures])

    async def start(self) -> None:
        from fastmcp import Client

        self.process = subprocess.Popen(
            self.command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        began = time.perf_counter()
        while True:
            try:
                async with Client(self.url) as client:
                    await client.list_tools()
                return
            except Exception:  # noqa: BLE001 - whatever a client says of a server that is not there yet
                if time.perf_counter() - began > PATIENCE or self.process.poll() is not None:
                    raise SystemExit(f"{self.name} does not start: {' '.join(self.command)}") from None
                await asyncio.sleep(0.1)

    def cpu(self) -> float:
        """Seconds of CPU of the server, with its sandboxes, also those that have ended."""
        assert self.process is not None
        own = psutil.Process(self.process.pid)
        return sum(sum(process.cpu_times()[:4]) for process in [own, *own.children(recursive=True)])

    async def round(self, tasks: Sequence[Task] = TASKS) -> Figures:
        total, worked = Figures(), self.cpu()
        for task in tasks:
            await self._do(task, total)
        total.cpu = self.cpu() - worked
        return total

    async def _do(self, task: Task, total: Figures) -> None:
        from fastmcp import Client
        from openai import AsyncOpenAI

        from spindle.testing import ModelServer

        async with (
            ModelServer(*self.say(task), "done") as model,
            AsyncOpenAI(base_url=model.openai_url, api_key="any") as openai,
            Client(self.url) as client,
        ):
            began = time.perf_counter()
            tools = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name, "description": tool.description, "parameters": tool.input_schema,
                    },
                }
                for tool in await client.list_tools()
            ]  # fmt: skip
            messages: list[Any] = [{"role": "user", "content": task.question}]
            while True:
                made = await openai.chat.completions.create(model="any", messages=messages, tools=tools)
                said = made.choices[0].message
                if not said.tool_calls:
                    break
                asked: list[Any] = list(said.tool_calls)
                messages.append(said.model_dump(exclude_none=True))
                answers = await asyncio.gather(
                    *(
                        client.call_tool(one.function.name, json.loads(one.function.arguments))
                        for one in asked
                    )
                )
                for one, answer in zip(asked, answers, strict=True):
                    text = "\n".join(block.text for block in answer.content)
                    messages.append({"role": "tool", "tool_call_id": one.id, "content": text})
            total.seconds += time.perf_counter() - began
            total.requests += len(model.requests)
            size = sum(len(json.dumps(request.body).encode()) for request in model.requests)
            total.tokens += size / BYTES_PER_TOKEN
            assert model.left == 0, task.question
            if self.value is not None:
                # A model knows the functions only if the search has found them.
                told = "\n".join(one["content"] for one in messages[1:-1] if one["role"] == "tool")
                assert all(name in told for step in task.steps for name, _ in step), (self.name, told)
                value = self.value(messages[-1]["content"])
                assert value == task.answer, (self.name, task.question, value)

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)


def _calls(prefix: str) -> Say:
    from spindle.testing import ToolCall, Turn

    return lambda task: [
        Turn(calls=[ToolCall(f"{prefix}{name}", given) for name, given in step]) for step in task.steps
    ]


def _turns(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    from spindle.testing import ToolCall, Turn

    return [Turn(calls=[ToolCall(name, given)]) for name, given in calls]


def _by_spindle(task: Task) -> list[Any]:
    return _turns(("search_tools", {"query": WORDS}), ("run_code", {"code": task.program(Dialect())}))


def _by_fastmcp(task: Task) -> list[Any]:
    return _turns(
        ("search", {"query": WORDS, "detail": "detailed", "limit": 5}),
        ("execute", {"code": task.program(FastMCPDialect())}),
    )


def _by_fastmcp_as_told(task: Task) -> list[Any]:
    used = sorted({name for step in task.steps for name, _ in step})
    return _turns(
        ("search", {"query": WORDS}),
        ("get_schema", {"tools": used}),
        ("execute", {"code": task.program(FastMCPDialect())}),
    )


def contenders(folder: str, shop: str) -> list[Contender]:
    for mode in ("all", "code"):
        place = Path(folder, mode)
        place.mkdir()
        Path(place, "spindle.toml").write_text(
            f'[sources.shop]\nurl = "{shop}"\nprefix = true\n\n[serve]\nmode = "{mode}"\n'
        )
    ports = [free_port() for _ in range(5)]
    urls = [f"http://127.0.0.1:{port}/mcp" for port in ports]

    def serve(mode: str, port: int) -> list[str]:
        return [
            str(SCRIPTS / "spindle"),
            "-w",
            str(Path(folder, mode)),
            "serve",
            "--http",
            "--port",
            str(port),
        ]

    def fastmcp(file: str, port: int) -> list[str]:
        return [sys.executable, str(HERE / file), str(port), shop]

    code = fastmcp("fastmcp_code.py", ports[3])
    own = [sys.executable, str(HERE / "servers" / "shop.py"), str(ports[4]), "code"]
    return [
        Contender("direct calls, spindle serve", serve("all", ports[0]), urls[0], _calls("shop_")),
        Contender("direct calls, FastMCP proxy", fastmcp("fastmcp_proxy.py", ports[1]), urls[1], _calls("")),
        Contender(
            "programs, Spindle's code mode", serve("code", ports[2]), urls[2], _by_spindle,
            json.loads,
        ),
        Contender("programs, FastMCP's, one search", code, urls[3], _by_fastmcp, json.loads),
        Contender("programs, FastMCP's, search, schemas", code, urls[3], _by_fastmcp_as_told, json.loads),
        Contender("programs, FastMCP's, own tools", own, urls[4], _by_fastmcp, json.loads),
    ]  # fmt: skip


async def _measure(quick: bool) -> list[Contender]:
    port = free_port()
    shop = subprocess.Popen(
        [sys.executable, str(HERE / "servers" / "shop.py"), str(port)],
        env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        entered = contenders(folder, f"http://127.0.0.1:{port}/mcp")
        started: dict[str, Contender] = {}
        try:
            for one in entered:
                if one.url in started:
                    one.process = started[one.url].process
                else:
                    await one.start()
                    started[one.url] = one
                await one.round(TASKS[:1])  # the first fills caches
            for _ in range(1 if quick else 2):
                for one in entered:
                    one.found.append(await one.round())
        finally:
            for one in started.values():
                one.stop()
            shop.terminate()
            shop.wait()
    return entered


_FIGURES: Sequence[tuple[str, str, Callable[[Figures], float]]] = (
    ("requests to the model", "", lambda found: found.requests),
    ("tokens of all requests", "tokens", lambda found: found.tokens),
    ("time of a task", "ms", lambda found: found.seconds / len(TASKS) * 1000),
    ("CPU of the server, a task", "ms", lambda found: found.cpu / len(TASKS) * 1000),
)


def code(quick: bool) -> list[Row]:
    """The ratio is each contender's figure to that of direct calls through Spindle."""
    os.environ.update(ENVIRONMENT)
    entered = asyncio.run(_measure(quick))
    rows: list[Row] = []
    for what, unit, figure in _FIGURES:
        for one in entered:
            value = statistics.median(figure(found) for found in one.found)
            pairs = zip(one.found, entered[0].found, strict=True)
            ratio = statistics.median(figure(mine) / figure(direct) for mine, direct in pairs)
            rows.append(Row("code", f"ten tasks, {what}: {one.name}", value, unit, ratio))
    return rows


if __name__ == "__main__":
    from table import table

    print(table(code(quick=True)))
