"""A kind of source made for these tests: its tools and answers are chosen by the test, and it counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from spindle.app import Spindle
from spindle.calls.caller import Clock
from spindle.domain.call import Block, Call, CallRecord, Result
from spindle.domain.identity import Credential
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Hints, Tool, ToolSpec
from spindle.ports.source import Session, Source

PATIENCE = 30.0

Answer = Callable[[Tool, Call], Awaitable[Result]]


class MadeConfig(SourceConfig):
    kind: Literal["made"] = "made"
    headers: dict[str, str] = Field(default_factory=dict)


async def _echo(_tool: Tool, call: Call) -> Result:
    return text("done")


class MadeSource(Source, Session):
    """Implements the source port. `answer` is what a call does; `calls` are those that arrived."""

    def __init__(self, name: str, config: MadeConfig, root: Path, note: Callable[[str], None]) -> None:
        self.name = name
        self.config = config
        self.specs: list[ToolSpec] = []
        self.answer: Answer = _echo
        self.calls: list[Call] = []
        self.credentials: list[Credential] = []
        self.running = 0
        self.most = 0
        self.refuse_opening: Exception | None = None
        self.lost: asyncio.Future[str] | None = None

    @staticmethod
    def config_model() -> type[SourceConfig]:
        return MadeConfig

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncIterator[MadeSource]:
        if self.refuse_opening is not None:
            raise self.refuse_opening
        self.credentials.append(credential)
        yield self

    async def discover(self) -> list[ToolSpec]:
        return self.specs

    async def wait_closed(self) -> str:
        self.lost = asyncio.get_running_loop().create_future()
        return await self.lost

    def lose(self, reason: str) -> None:
        assert self.lost is not None
        self.lost.set_result(reason)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        self.calls.append(call)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.answer(tool, call)
        finally:
            self.running -= 1


class FakeClock:
    """Time that passes only when somebody sleeps or a test turns it."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None
        self.gate: asyncio.Event | None = None
        """Keeps asleep whoever sleeps, until it is opened."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.on_sleep()
        if self.gate is not None:
            await self.gate.wait()
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, lambda: self.time, lambda: self.time, self.sleep)


@dataclass
class Desk:
    """An open app with one made source, and what a test looks at."""

    app: Spindle
    source: MadeSource
    clock: FakeClock
    notes: list[str] = field(default_factory=list)

    async def call(self, tool: str, /, *given: Any, **named: Any) -> Result:
        return await self.app.call(tool, *given, **named)

    async def records(self) -> list[CallRecord]:
        """All records, the first call first."""
        return list(reversed(await self.app.history(limit=1000)))

    async def last(self) -> CallRecord:
        return (await self.app.history(limit=1))[0]


OpenDesk = Callable[..., AbstractAsyncContextManager[Desk]]


def spec(name: str = "do", schema: dict[str, Any] | None = None, **more: Any) -> ToolSpec:
    hints = Hints(read_only=more.pop("read_only", None), idempotent=more.pop("idempotent", None))
    return ToolSpec(name, input_schema=schema or {"type": "object"}, hints=hints, **more)


def text(words: str, **more: Any) -> Result:
    return Result((Block("text", text=words),), **more)


def failing(*errors: Exception, then: str = "done") -> Answer:
    """Raises these errors, one a call, then answers."""
    left = list(errors)

    async def answer(_tool: Tool, _call: Call) -> Result:
        if left:
            raise left.pop(0)
        return text(then)

    return answer


async def until(condition: Callable[[], Any]) -> None:
    """Let everything else run until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)
