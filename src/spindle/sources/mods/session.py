"""Runs the mods of a workspace. A mod that fails is reported and left out; the others go on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.sources.code.functions import call_function
from spindle.sources.code.schema import FunctionTool, UnusableFunctionError, function_tool, place
from spindle.sources.code.session import CodeSession
from spindle.sources.mods.loading import UnusableModError, make, mod_classes
from spindle.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.mod import Mod
    from spindle.ports.source import Note
    from spindle.sources.mods.config import ModsConfig

STOP_TIMEOUT = 10.0


class ModsSession(CodeSession[FunctionTool]):
    """The running mods of a workspace."""

    def __init__(
        self, name: str, config: ModsConfig, root: Path, note: Note, loaded: dict[str, str] | None = None
    ) -> None:
        super().__init__(name, root, note, loaded)
        self._config = config
        self._running: dict[str, Mod] = {}

    async def invoke(self, tool: Tool, call: Call) -> Result:
        return await call_function(await self._find(tool), tool, call, self._name, self._root)

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stops all mods."""
        while self._running:
            name, mod = self._running.popitem()
            try:
                async with asyncio.timeout(STOP_TIMEOUT):
                    await self._do(getattr(mod, "stop", None))
            except Exception as error:  # noqa: BLE001 - the others must be stopped too
                self._note(f"mods.{name} could not be stopped: {type(error).__name__}: {error}")

    async def _load(self) -> list[tuple[ToolSpec, FunctionTool]]:
        """Starts all mods, after stopping the old ones. A call waits until their tools are found again."""
        await self.stop()
        self._found = None
        folder = self._root / self._config.path if self._config.path else None
        with stdout_to_stderr():
            classes = await in_thread(
                lambda: mod_classes(folder, self._config.mods, self._note), f"spindle-load-{self._name}"
            )
        tools: list[FunctionTool] = []
        for name, cls in classes.items():
            settings = self._config.mods.get(name, {})
            if settings.get("enabled", True) is not False:
                tools += await self._start(name, cls, settings)
        return [(tool.spec, tool) for tool in tools]

    async def _start(self, name: str, cls: type[Mod], settings: dict[str, Any]) -> list[FunctionTool]:
        try:
            mod = await in_thread(lambda: make(name, cls, settings), f"spindle-load-{self._name}")
            # Counted as running even if the start fails: what it opened must be closed.
            self._running[name] = mod
            await self._do(getattr(mod, "start", None))
            functions = await in_thread(lambda: list(mod.get_tools()), f"spindle-load-{self._name}")
        except Exception as error:  # noqa: BLE001 - somebody else's code: reported, and left out
            reason = str(error) if isinstance(error, UnusableModError) else f"{type(error).__name__}: {error}"
            self._note(f"mods.{name} is left out: {reason}")
            return []
        tools: list[FunctionTool] = []
        for function in functions:
            try:
                tools.append(function_tool(function))
            except UnusableFunctionError as error:
                self._note(f"mods.{name}: `{place(function)}` is left out: {error}")
        return tools

    async def _do(self, step: Callable[[], Any] | None) -> None:
        if step is None:
            return
        if inspect.iscoroutinefunction(step):
            await step()
        else:
            await in_thread(step, f"spindle-{self._name}")
