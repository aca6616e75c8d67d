"""The functions of one source, loaded when they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import ServerError
from spindle.ports.source import Session
from spindle.sources.code.decorator import MARK, ToolOptions
from spindle.sources.code.functions import call_function
from spindle.sources.code.modules import FolderModules, load_module
from spindle.sources.code.schema import FunctionTool, UnusableFunctionError, function_tool, place
from spindle.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.sources.python.config import PythonConfig


class PythonSession(Session):
    """The loaded functions of one source."""

    def __init__(
        self,
        name: str,
        config: PythonConfig,
        root: Path,
        functions: Sequence[Callable[..., Any]],
        note: Note,
    ) -> None:
        self._name = name
        self._config = config
        self._root = root
        self._functions = functions
        self._note = note
        self._tools: dict[str, FunctionTool] | None = None
        self._loading = asyncio.Lock()

    async def discover(self) -> list[ToolSpec]:
        """Loads all functions, or loads them again."""
        async with self._loading:
            return await self._discover()

    async def _discover(self) -> list[ToolSpec]:
        with stdout_to_stderr():
            tools = await in_thread(self._load, f"spindle-load-{self._name}")
        self._tools = {tool.spec.remote_name: tool for tool in tools}
        return [tool.spec for tool in tools]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        if self._tools is None:
            async with self._loading:
                if self._tools is None:
                    await self._discover()
        assert self._tools is not None
        return await call_function(self._tools.get(tool.spec.remote_name), tool, call, self._name)

    def _load(self) -> list[FunctionTool]:
        tools: list[FunctionTool] = []
        seen: set[int] = set()
        for function in self._find_functions():
            if id(function) in seen:
                continue
            seen.add(id(function))
            try:
                tools.append(function_tool(function))
            except UnusableFunctionError as error:
                name = getattr(function, "__name__", None) or type(function).__name__
                self._note(f"{place(function)}: `{name}` is left out: {error}")
        return tools

    def _find_functions(self) -> Iterable[Callable[..., Any]]:
        yield from self._functions
        if self._config.path is not None:
            yield from self._functions_in_folder(self._root / self._config.path)
        elif self._config.module is not None:
            try:
                module = load_module(self._config.module, self._root, again=self._tools is not None)
            except (Exception, SystemExit) as error:
                reason = f"{type(error).__name__}: {error}"
                raise ServerError(f"cannot import {self._config.module}: {reason}") from error
            yield from _marked(vars(module), module.__name__)

    def _functions_in_folder(self, folder: Path) -> Iterable[Callable[..., Any]]:
        if not folder.is_dir():
            return
        for path, module in FolderModules(folder).load_all():
            if isinstance(module, str):
                self._note(f"{path} cannot be imported and is left out: {module}")
            else:
                yield from _marked(vars(module), module.__name__)


def _marked(names: dict[str, Any], module: str) -> Iterable[Callable[..., Any]]:
    """The functions that this module defines or marks; an imported one belongs to its own module."""
    own_classes = [
        value
        for value in names.values()
        if isinstance(value, type) and getattr(value, "__module__", None) == module
    ]
    # Marked methods are included so that their author is told why they are left out.
    methods = [item for cls in own_classes for item in vars(cls).values()]
    for value in [*names.values(), *methods]:
        options = getattr(value, MARK, None)
        if isinstance(options, ToolOptions) and module in (options.home, getattr(value, "__module__", None)):
            yield value
