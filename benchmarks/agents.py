"""What a turn of an agent costs besides the model: beside bare pydantic-ai and LangGraph, on one script.

The two requests alone, by OpenAI's own client, are what no agent can do without; they are taken off.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from table import Row

HERE = Path(__file__).parent
CONTENDERS = {
    "pydantic-ai": "pydantic-ai, in memory",
    "langgraph": "LangGraph, in memory",
    "spindle": "Agent, guarded, journal on disk",
}


@contextlib.contextmanager
def running(*command: str) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()


def agents(quick: bool) -> list[Row]:
    rounds, size = (3, 10) if quick else (12, 25)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(str(HERE / "servers" / "model.py")))
        assert server.stdout
        url = server.stdout.readline().strip()
        workers = {
            name: stack.enter_context(running(str(HERE / "agent_worker.py"), name, url))
            for name in ("requests", *CONTENDERS)
        }

        def round(name: str) -> dict[str, float]:
            worker = workers[name]
            assert worker.stdin
            assert worker.stdout
            print(size, file=worker.stdin, flush=True)
            return json.loads(worker.stdout.readline())

        for name in workers:
            round(name)
        # One after the other, so that a busy moment of the machine meets all of them.
        found = [{name: round(name) for name in workers} for _ in range(rounds)]
    rows: list[Row] = []
    for key, what in (("cpu_ms", "CPU a turn"), ("latency_ms", "time a turn")):
        above = {name: [item[name][key] - item["requests"][key] for item in found] for name in CONTENDERS}
        floor = statistics.median(item["requests"][key] for item in found)
        rows.append(Row("agents", f"{what}: the request alone, OpenAI's client", floor, "ms"))
        for name, label in CONTENDERS.items():
            pairs = zip(above[name], above["pydantic-ai"], strict=True)
            ratio = statistics.median(mine / theirs for mine, theirs in pairs)
            rows.append(
                Row("agents", f"{what}, above that: {label}", statistics.median(above[name]), "ms", ratio)
            )
    return rows
