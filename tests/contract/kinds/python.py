"""Kinds whose tools run in this process: functions, mods, flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from contract.kinds.kind import QUICKLY, Kind, Request
from contract.witness import Witness
from spindle.domain.call import Result
from spindle.errors import ToolError

FUNCTIONS = '''
import asyncio
from spindle import tool


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@tool
async def fail() -> str:
    """Fails."""
    raise ValueError("out of stock")


@tool
async def hang(witness: str) -> str:
    """Never returns."""
    with open(witness, "w") as pipe:
        print("begun", file=pipe, flush=True)
        await asyncio.Event().wait()
    return "never"
'''

MOD = '''
import asyncio


class Shop:
    """Tools that share a task."""

    async def start(self) -> None:
        self.task = asyncio.create_task(asyncio.Event().wait(), name="the task of a mod")

    async def stop(self) -> None:
        self.task.cancel()

    def get_tools(self):
        return [self.echo, self.fail, self.hang]

    def echo(self, text: str) -> str:
        """Returns the text."""
        return text

    async def fail(self) -> str:
        """Fails."""
        raise ValueError("out of stock")

    async def hang(self, witness: str) -> str:
        """Never returns."""
        with open(witness, "w") as pipe:
            print("begun", file=pipe, flush=True)
            await asyncio.Event().wait()
        return "never"
'''


class InProcess(Kind):
    """All of them."""

    tools = frozenset({"echo", "fail", "hang"})
    lacks: ClassVar = {
        "lost link": "its tools are part of this process",
        "answers out of order": "a call returns to its caller, there is no message to be mixed up",
        "credentials": "functions of this process are shown no credential; they know the principal",
    }

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self.witness = Witness(root / "witness")

    async def __aenter__(self) -> Self:
        await self.witness.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.witness.close()

    def hang(self) -> Request:
        return Request("hang", {"witness": str(self.witness.path)})

    async def begun(self) -> None:
        await self.witness.begun()

    async def over(self) -> None:
        await self.witness.over()

    def written(self, path: str, text: str) -> None:
        """Put a file into the workspace."""
        place = self.root / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)


class PythonFiles(InProcess):
    """A folder of functions. One that is not async cannot be stopped, so the hanging one is."""

    @property
    def settings(self) -> dict[str, Any]:
        self.written("functions/shop.py", FUNCTIONS)
        return {"kind": "python", "path": "functions"}


class Mods(InProcess):
    @property
    def settings(self) -> dict[str, Any]:
        self.written("objects/shop.py", MOD)
        return {"kind": "mods", "path": "objects"}


class Flows(InProcess):
    """Flows of one node, over the functions above."""

    failure = ToolError

    @property
    def settings(self) -> dict[str, Any]:
        inputs = {"echo": {"text": {"type": "string"}}, "hang": {"witness": {"type": "string"}}}
        for name in self.tools:
            flow = {
                "version": 1,
                "name": name,
                "inputs": inputs.get(name, {}),
                "nodes": [{"id": "n", "tool": f"t.{name}"}],
            }
            self.written(f"graphs/{name}.json", json.dumps(flow))
        return {"kind": "flows", "path": "graphs"}

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        self.written("functions/shop.py", FUNCTIONS)
        return {**super().sources, "t": {**QUICKLY, "kind": "python", "path": "functions"}}

    def said(self, result: Result) -> str:
        return str(result.value)
