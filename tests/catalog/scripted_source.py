"""A kind of source that is known through an entry point alone, and does what a test tells it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spindle.domain.call import Block, Call, Result
from spindle.domain.identity import Credential
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Tool, ToolSpec
from spindle.ports.source import Session, Source


class ScriptedConfig(SourceConfig):
    kind: Literal["scripted"] = "scripted"
    greeting: str = "hello"


@dataclass
class Script:
    """What the source of one name does, and what happened to it."""

    tools: list[ToolSpec] = field(default_factory=list)
    failure: Exception | None = None
    refuses_to_open: Exception | None = None
    signature: str | None = None
    gate: asyncio.Event | None = None
    opened: int = 0
    listed: int = 0
    changed: Callable[[], None] = lambda: None

    def offer(self, *names: str, **spec: Any) -> None:
        self.tools = [ToolSpec(name, **{"description": f"does {name}", **spec}) for name in names]


SCRIPTS: dict[str, Script] = {}


class ScriptedSource(Source):
    def __init__(self, name: str, config: ScriptedConfig, root: Path, note: Callable[[str], None]) -> None:
        self.name = name
        self.config = config

    @staticmethod
    def config_model() -> type[SourceConfig]:
        return ScriptedConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        script = SCRIPTS.get(str(settings.get("description", "")))
        return script.signature if script else None

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncGenerator[ScriptedSession]:
        script = SCRIPTS.setdefault(self.name, Script())
        script.opened += 1
        if script.refuses_to_open:
            raise script.refuses_to_open
        script.changed = on_change
        yield ScriptedSession(script, self.config)


class ScriptedSession(Session):
    def __init__(self, script: Script, config: ScriptedConfig) -> None:
        self._script = script
        self._config = config

    async def discover(self) -> list[ToolSpec]:
        self._script.listed += 1
        if self._script.gate is not None:
            await self._script.gate.wait()
        if self._script.failure:
            raise self._script.failure
        return list(self._script.tools)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        return Result((Block("text", text=f"{self._config.greeting} from {tool.spec.remote_name}"),))
