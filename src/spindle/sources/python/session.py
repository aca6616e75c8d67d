"""Calling Python functions: async ones on the loop, sync ones in threads."""

from __future__ import annotations

import asyncio
import base64
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from spindle.domain.call import Block, Call, Result
from spindle.domain.json_schema import to_json
from spindle.errors import (
    InvalidArgumentsError,
    NotFoundError,
    ServerError,
    ToolError,
    interruption_in,
)
from spindle.sources.python.context import Context
from spindle.sources.python.decorator import MARK, ToolOptions
from spindle.sources.python.files import FolderModules, load_module
from spindle.sources.python.schema import FunctionTool, UnusableFunctionError, function_tool, place
from spindle.sources.python.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.sources.python.config import PythonConfig


class PythonSession:
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
        self._lost = asyncio.get_running_loop().create_future()

    async def discover(self) -> list[ToolSpec]:
        """Load, or load again, all functions."""
        async with self._loading:
            return await self._discover()

    async def _discover(self) -> list[ToolSpec]:
        with stdout_to_stderr():
            tools = await in_thread(self._load, f"spindle-load-{self._name}")
        self._tools = {tool.spec.remote_name: tool for tool in tools}
        return [tool.spec for tool in tools]

    async def wait_closed(self) -> str:
        return await self._lost  # functions in this process cannot be lost

    async def invoke(self, tool: Tool, call: Call) -> Result:
        if self._tools is None:
            async with self._loading:
                if self._tools is None:
                    await self._discover()
        assert self._tools is not None
        found = self._tools.get(tool.spec.remote_name)
        if found is None:
            raise NotFoundError(f"{tool.name} is no longer defined", hint="run `spindle sync`")
        context = Context(tool.name, call, asyncio.get_running_loop())
        try:
            arguments = found.bind(call.arguments, context)
        except ValidationError as error:
            raise _invalid(tool, error) from None
        try:
            value = await self._run(found.function, arguments)
        except ToolError as error:
            value = _failure(error.message)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's function raises is its result
            value = _failure(f"{type(error).__name__}: {error}")
        except BaseException as error:
            context.abandon()
            pause = interruption_in(error)
            if pause is None or pause is error:
                raise
            raise pause from None  # out of the group that a task group made of it
        await context.settle()
        return _result(found, tool, value)

    async def _run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        # A sync function cannot be stopped; when the call is given up, its thread ends by itself.
        work = functools.partial(function, **arguments)
        value = await in_thread(work, f"spindle-{self._name}")
        return await value if inspect.isawaitable(value) else value

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
    """Functions that this module itself defines or marks: one that it imports is its home's to offer."""
    own_classes = [
        value
        for value in names.values()
        if isinstance(value, type) and getattr(value, "__module__", None) == module
    ]
    # A marked method is found so that its author is told why it is left out.
    methods = [item for cls in own_classes for item in vars(cls).values()]
    for value in [*names.values(), *methods]:
        options = getattr(value, MARK, None)
        if isinstance(options, ToolOptions) and module in (options.home, getattr(value, "__module__", None)):
            yield value


def _failure(message: str) -> Result:
    return Result((Block("text", text=message),), is_error=True)


def _invalid(tool: Tool, error: ValidationError) -> InvalidArgumentsError:
    problems = [
        {"path": ".".join(str(step) for step in item["loc"]) or "arguments", "problem": item["msg"]}
        for item in error.errors()
    ]
    lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
    return InvalidArgumentsError(f"the arguments do not fit {tool.name}: {lines}", details=problems)


def _result(found: FunctionTool, tool: Tool, value: Any) -> Result:
    if isinstance(value, Result):
        return value
    if isinstance(value, Block):
        return Result((value,))
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        if items and all(isinstance(item, Block) for item in items):
            return Result(tuple(cast("Sequence[Block]", items)))
    returns = found.returns
    if returns.plain is not None and not isinstance(value, returns.plain):
        raise _wrong_return(tool, f"a value of type {type(cast(object, value)).__name__}")
    if isinstance(value, bytes):
        data = base64.b64encode(value).decode()
        return Result((Block("resource", data=data, mime_type="application/octet-stream", size=len(value)),))
    if returns.adapter is None:
        if value is None:
            return Result()
        if isinstance(value, str):
            return Result((Block("text", text=value),))
    try:
        if returns.adapter is not None:
            structured = returns.adapter.dump_python(value, mode="json", warnings="error")
        else:
            structured = to_jsonable_python(value)
    except (PydanticSerializationError, UserWarning, ValueError) as error:
        raise _wrong_return(tool, str(error)) from None
    text = structured if isinstance(structured, str) else to_json(structured).decode()
    return Result((Block("text", text=text),), structured=structured, has_structured=True)


def _wrong_return(tool: Tool, problem: str) -> ServerError:
    return ServerError(
        f"what {tool.name} returned is not what it declares: {problem}", hint=f"see {tool.spec.place}"
    )
