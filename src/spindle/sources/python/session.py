"""Calling Python functions: async ones on the loop, sync ones in threads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from spindle.domain.call import Block, Call, Result
from spindle.errors import InvalidArgumentsError, NotFoundError, ServerError, ToolError
from spindle.sources.python.decorator import MARK, Context
from spindle.sources.python.files import FolderModules, load_module
from spindle.sources.python.schema import FunctionTool, UnusableFunctionError, function_tool

if TYPE_CHECKING:
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.sources.python.config import PythonConfig

MAX_THREADS = 64


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
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix=f"spindle-{name}")
        self._lost = asyncio.get_running_loop().create_future()

    async def discover(self) -> list[ToolSpec]:
        """Load, or load again, all functions."""
        tools = await asyncio.to_thread(self._load)
        self._tools = {tool.spec.remote_name: tool for tool in tools}
        return [tool.spec for tool in tools]

    async def wait_closed(self) -> str:
        return await self._lost  # functions in this process cannot be lost

    async def invoke(self, tool: Tool, call: Call) -> Result:
        if self._tools is None:
            await self.discover()
        assert self._tools is not None
        found = self._tools.get(tool.spec.remote_name)
        if found is None:
            raise NotFoundError(f"{tool.name} is no longer defined", hint="run `spindle sync`")
        context = Context(tool.name, call, asyncio.get_running_loop())
        try:
            positional, named = found.bind(call.arguments, context)
        except ValidationError as error:
            raise _invalid(tool, error) from None
        try:
            value = await self._run(found.function, positional, named)
        except ToolError as error:
            return Result((Block("text", text=error.message),), is_error=True)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises is its result
            return Result((Block("text", text=f"{type(error).__name__}: {error}"),), is_error=True)
        await context.settle()
        return _result(found, tool, value)

    def close(self) -> None:
        # A sync function cannot be stopped; its thread is left to end by itself.
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(inspect.unwrap(function)):
            return await function(*positional, **named)
        work = functools.partial(function, *positional, **named)
        context = contextvars.copy_context()
        value = await asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)
        return await value if inspect.isawaitable(value) else value

    def _load(self) -> list[FunctionTool]:
        tools: list[FunctionTool] = []
        # What a user's file prints while it is imported must not mix with results on stdout.
        with contextlib.redirect_stdout(sys.stderr):
            for function in self._find_functions():
                try:
                    tools.append(function_tool(function))
                except UnusableFunctionError as error:
                    self._note(f"{_place(function)}: `{function.__name__}` is left out: {error}")
        return tools

    def _find_functions(self) -> Iterable[Callable[..., Any]]:
        yield from self._functions
        if self._config.path is not None:
            yield from self._functions_in_folder(self._root / self._config.path)
        elif self._config.module is not None:
            try:
                module = load_module(self._config.module, self._root, again=self._tools is not None)
            except Exception as error:
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
    """Functions that this module itself defines: one that it imports is its home's to offer."""
    seen: set[int] = set()
    for value in list(names.values()):
        if hasattr(value, MARK) and getattr(value, "__module__", None) == module and id(value) not in seen:
            seen.add(id(value))
            yield value


def _place(function: Callable[..., Any]) -> str:
    return getattr(getattr(function, "__code__", None), "co_filename", function.__module__)


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
        items = cast("Sequence[Any]", value)
        if items and all(isinstance(item, Block) for item in items):
            return Result(tuple(items))
    if isinstance(value, bytes):
        data = base64.b64encode(value).decode()
        return Result((Block("resource", data=data, mime_type="application/octet-stream", size=len(value)),))
    if found.returns is None:
        if value is None:
            return Result()
        if isinstance(value, str):
            return Result((Block("text", text=value),))
    try:
        if found.returns is not None:
            structured = found.returns.dump_python(value, mode="json", warnings="error")
        else:
            structured = to_jsonable_python(value)
    except (PydanticSerializationError, UserWarning, ValueError) as error:
        raise ServerError(
            f"what {tool.name} returned is not what it declares: {error}",
            hint=f"see {tool.spec.place}",
        ) from None
    text = structured if isinstance(structured, str) else orjson.dumps(structured).decode()
    return Result((Block("text", text=text),), structured=structured, has_structured=True)
