"""A workspace whose tools leave a line in a file each time they really run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.app import Spindle
from spindle.calls.caller import Clock

TOOLS = '''
import asyncio
import os
from pathlib import Path

from spindle import Context, tool

EFFECTS = Path(__file__).parent.parent / "effects"


def leave(line: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(line + "\\n")


@tool
def effect(name: str) -> str:
    leave(name)
    return f"did {name}"


@tool(destructive=True)
def delete(name: str) -> str:
    leave(f"deleted {name}")
    return f"deleted {name}"


@tool
async def report(topic: str, context: Context) -> str:
    """Two effects, a question, a third effect."""
    first = await context.call("effect", name=f"{topic} one")
    second = await context.call("effect", {"name": f"{topic} two"})
    answer = context.ask("Which colour?")
    third = await context.call("effect", name=f"{topic} {answer}")
    return " / ".join([first.text, second.text, third.text])


@tool
def report_in_thread(topic: str, context: Context) -> str:
    first = context.call_blocking("effect", name=f"{topic} one")
    answer = context.ask("How many?", int)
    second = context.call_blocking("effect", name=f"{topic} {answer + 1}")
    return f"{first.text} / {second.text}"


@tool
async def clean(names: list[str], context: Context) -> list[str]:
    """Delete several at once."""
    done = await asyncio.gather(*(context.call("delete", name=name) for name in names))
    return [result.text for result in done]


@tool
async def nested(topic: str, context: Context) -> str:
    await context.call("effect", name="before")
    inner = await context.call("report", topic=topic)
    after = await context.call("effect", name="after")
    return f"{inner.text} / {after.text}"
'''


class Workspace:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = ""

    @property
    def effects(self) -> list[str]:
        file = self.root / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def write(self, tools: str = "", settings: str = "") -> None:
        (self.root / "tools").mkdir(exist_ok=True)
        (self.root / "tools" / "work.py").write_text(TOOLS + tools)
        (self.root / "spindle.toml").write_text(settings)


Open = Callable[..., AbstractAsyncContextManager[Spindle]]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write()
    return made


@pytest.fixture
def opened(workspace: Workspace) -> Open:
    """`async with opened() as app`: another process, as far as the store can tell."""

    @contextlib.asynccontextmanager
    async def open_it(**options: Any) -> AsyncIterator[Spindle]:
        async with spindle.open(workspace.root, **options) as app:
            yield app

    return open_it


class TurnedClock:
    def __init__(self) -> None:
        self.ahead = 0.0

    @property
    def clock(self) -> Clock:
        import time

        return Clock(now=lambda: time.time() + self.ahead)


@pytest.fixture
def turned() -> TurnedClock:
    return TurnedClock()
