"""Runs the mods of a workspace. A mod that fails is reported and left out; the others go on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.ports.source import Session
from spindle.sources.code.functions import call_function
from spindle.sources.code.schema import FunctionTool, UnusableFunctionError, function_tool, place
from spindle.sources.mods.loading import UnusableModError, make, mod_classes
from spindle.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.mod import Mod
    from spindle.ports.source import Note
    from spindle.sources.mods.config import ModsConfig

STOP_TIMEOUT = 10.0


class ModsSession(Session):
    """The running mods of a workspace."""

    def __init__(self, name: str, config: ModsConfig, root: Path, note: Note) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._note = note
        self._running: dict[str, Mod] = {}
        self._tools: dict[str, FunctionTool] | None = None
        self._specs: list[ToolSpec] = []
        self._loading = asyncio.Lock()

    async def discover(self) -> list[ToolSpec]:
        """Loads all mods, or loads them again after stopping the old ones."""
        async with self._loading:
            return await self._load()

    async def invoke(self, tool: Tool, call: Call) -> Result:
        if self._tools is None:
            async with self._loading:
                if self._tools is None:
                    await self._load()
        assert self._tools is not None
        return await call_function(self._tools.get(tool.spec.remote_name), tool, call, self._name)

    async def stop(self) -> None:
        """Stops all mods."""
        while self._running:
            name, mod = self._running.popitem()
            try:
                async with asyncio.timeout(STOP_TIMEOUT):
                    await self._do(getattr(mod, "stop", None))
            except Exception as error:  # noqa: BLE001 - the others must be stopped too
                self._note(f"mods.{name} could not be stopped: {type(error).__name__}: {error}")

    async def _load(self) -> list[ToolSpec]:
        await self.stop()
        folder = self._root / self._config.path if self._config.path else None
        with stdout_to_stderr():
            classes = await in_thread(
                lambda: mod_classes(folder, self._config.mods, self._note), f"spindle-load-{self._name}"
            )
        self._tools, self._specs = {}, []
        for name, cls in classes.items():
            settings = self._config.mods.get(name, {})
            if settings.get("enabled", True) is not False:
                await self._start(name, cls, settings)
        # Duplicate names are kept: the catalog refuses them and names both places.
        return self._specs

    async def _start(self, name: str, cls: type[Mod], settings: dict[str, Any]) -> None:
        assert self._tools is not None
        try:
            mod = await in_thread(lambda: make(name, cls, settings), f"spindle-load-{self._name}")
            # Counted as running even if the start fails: what it opened must be closed.
            self._running[name] = mod
            await self._do(getattr(mod, "start", None))
            functions = await in_thread(lambda: list(mod.get_tools()), f"spindle-load-{self._name}")
        except Exception as error:  # noqa: BLE001 - somebody else's code: reported, and left out
            reason = str(error) if isinstance(error, UnusableModError) else f"{type(error).__name__}: {error}"
            self._note(f"mods.{name} is left out: {reason}")
            return
        for function in functions:
            try:
                tool = function_tool(function)
            except UnusableFunctionError as error:
                self._note(f"mods.{name}: `{place(function)}` is left out: {error}")
                continue
            self._tools.setdefault(tool.spec.remote_name, tool)
            self._specs.append(tool.spec)

    async def _do(self, step: Callable[[], Any] | None) -> None:
        if step is None:
            return
        if inspect.iscoroutinefunction(step):
            await step()
        else:
            await in_thread(step, f"spindle-{self._name}")
