"""The tools that a program may call, as modules."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from spindle.code_mode.naming import ToolFunction, functions_of
from spindle.code_mode.sandbox import ToolModule
from spindle.code_mode.stubs import described, stub_of
from spindle.errors import NotFoundError, SpindleError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spindle.code_mode.sandbox import Modules
    from spindle.domain.tool import Tool, ToolSummary

Find = Callable[[str], Awaitable["Tool"]]
_WORD = re.compile(r"\w+")


class ToolLibrary:
    """The tools of one principal. What it may not see is not in it."""

    def __init__(self, every: Iterable[ToolSummary], usable: Collection[str], find: Find) -> None:
        """`every` tool has its name among all others; only those that are `usable` are there. `find` returns
        a whole tool, or raises."""
        named = functions_of(every)
        self._find = find
        self._by_tool = {tool: function for tool, function in named.items() if tool in usable}
        self._by_path = {function.path: function for function in self._by_tool.values()}

    @property
    def modules(self) -> Sequence[str]:
        """The names of all modules."""
        return sorted({function.module for function in self._by_path.values()})

    def function(self, tool: str) -> ToolFunction | None:
        """Returns the function of a tool, if it is there."""
        return self._by_tool.get(tool)

    def functions_in(self, module: str) -> Sequence[ToolFunction]:
        """Returns the functions of a module; none if there is no such module."""
        return [function for _, function in sorted(self._by_path.items()) if function.module == module]

    def at(self, path: str) -> ToolFunction:
        """Returns the function that a program calls by this name. Raises NotFoundError."""
        found = self._by_path.get(path)
        if found is None:
            hint = did_you_mean(
                path, list(self._by_path), f"the modules are {', '.join(self.modules) or 'none'}"
            )
            raise NotFoundError(f"there is no function {path!r}", hint=hint, tool=path)
        return found

    async def tool(self, function: ToolFunction) -> Tool:
        """Returns the tool of a function."""
        return await self._find(function.tool)

    async def described(self, function: ToolFunction, *, briefly: bool = False) -> str:
        """Returns a function for a model to read."""
        return described(function, await self.tool(function), briefly=briefly)

    async def modules_for(self, code: str) -> Modules:
        """Returns the modules that a program may import. Only functions whose names it has somewhere are
        declared, so that a source with thousands of tools costs nothing."""
        words = frozenset(_WORD.findall(code))
        named = [one for one in self._by_path.values() if one.module in words and one.name in words]
        whole: dict[str, list[tuple[ToolFunction, Tool]]] = {}
        for function in named:
            try:
                whole.setdefault(function.module, []).append((function, await self.tool(function)))
            except SpindleError:
                continue  # gone since it was listed: the type checker says so
        return {module: _made(module, whole.get(module, ())) for module in self.modules if module in words}


def _made(module: str, tools: Sequence[tuple[ToolFunction, Tool]]) -> Callable[[], ToolModule]:
    def made() -> ToolModule:
        return ToolModule([function.name for function, _ in tools], stub_of(tools))

    return made
