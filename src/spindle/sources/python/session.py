"""The functions of one source, loaded when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import ServerError
from spindle.sources.code.decorator import MARK, ToolOptions
from spindle.sources.code.functions import call_function
from spindle.sources.code.modules import FolderModules, load_module
from spindle.sources.code.schema import FunctionTool, UnusableFunctionError, function_tool, place
from spindle.sources.code.session import CodeSession
from spindle.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.sources.python.config import PythonConfig


class PythonSession(CodeSession[FunctionTool]):
    """The loaded functions of one source."""

    def __init__(
        self,
        name: str,
        config: PythonConfig,
        root: Path,
        functions: Sequence[Callable[..., Any]],
        note: Note,
        loaded: dict[str, str] | None = None,
    ) -> None:
        super().__init__(name, root, note, loaded)
        self._config = config
        self._functions = functions

    async def invoke(self, tool: Tool, call: Call) -> Result:
        return await call_function(await self._find(tool), tool, call, self._name, self._root)

    async def _load(self) -> list[tuple[ToolSpec, FunctionTool]]:
        with stdout_to_stderr():
            tools = await in_thread(self._function_tools, f"spindle-load-{self._name}")
        return [(tool.spec, tool) for tool in tools]

    def _function_tools(self) -> list[FunctionTool]:
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
                module = load_module(self._config.module, self._root, again=self._found is not None)
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
