"""Agents that work in processes of their own, which can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from servers import warm
from servers.running import PATIENCE

PROCESS = Path(__file__).parents[1] / "agents" / "agent_process.py"
MODEL = "openai-chat:gpt-scripted"
TOOLS = """
from pathlib import Path
from spindle import tool

@tool
def effect(name: str) -> str:
    with (Path(__file__).parent.parent / "effects").open("a") as file:
        file.write(name + "\\n")
    return f"did {name}"
"""


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, kind: str) -> Any:
        """The next line of this kind; those before it are events."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE * 2):
            while True:
                line = await self._process.stdout.readline()
                assert line, f"the process ended without {kind!r}"
                said = json.loads(line)
                if kind in said:
                    return said[kind]

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(warm.pid_of(self._process.pid), signal.SIGKILL)
        await self._process.wait()


@contextlib.asynccontextmanager
async def started(root: Path, *words: str, context: dict[str, Any] | None = None) -> AsyncIterator[Process]:
    given = [str(root), MODEL, *words, json.dumps(context or {})]
    made = await asyncio.create_subprocess_exec(
        warm.PYTHON, str(PROCESS), *given, stdout=asyncio.subprocess.PIPE
    )
    process = Process(made)
    try:
        yield process
    finally:
        await process.kill()
