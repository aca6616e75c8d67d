"""Calls Python functions: async ones on the event loop, sync ones in threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from spindle.calls.context import Context
from spindle.calls.failure import failure_of
from spindle.calls.reported import result_of
from spindle.domain.call import Block, Call, Result
from spindle.errors import (
    InvalidArgumentsError,
    NotFoundError,
    ServerError,
    SpindleError,
    ToolError,
    interruption_in,
)
from spindle.remedies import Remedy
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.sources.code.schema import FunctionTool


async def call_function(
    found: FunctionTool | None, tool: Tool, call: Call, source: str, root: Path
) -> Result:
    """Calls the function and returns its result. An exception becomes an error result, with its place in the
    workspace at `root`."""
    if found is None:
        raise NotFoundError(f"{tool.name} is no longer defined", remedy=Remedy("sync"))
    context = Context(tool.name, call, asyncio.get_running_loop())
    try:
        arguments = found.bind(call.arguments, context)
    except ValidationError as error:
        raise _invalid(tool, error) from None
    try:
        value = await _run(found.function, arguments, source)
    except ToolError as error:
        value = Result.of_text(error.message, is_error=True)
    except SpindleError as error:
        # Its category is kept, whether the function raised it or a call that it made.
        value = replace(result_of(error), failure=failure_of(error, root))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's function raises is its result
        said = Result.of_text(f"{type(error).__name__}: {error}", is_error=True)
        value = replace(said, failure=failure_of(error, root))
    except BaseException as error:
        context.abandon()
        pause = interruption_in(error)
        if pause is None or pause is error:
            raise
        raise pause from None  # taken out of the exception group of a task group
    await context.settle()
    return _result(found, tool, value)


async def _run(function: Callable[..., Any], arguments: dict[str, Any], source: str) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    # A sync function cannot be stopped; after a cancelled call its thread ends by itself.
    work = functools.partial(function, **arguments)
    value = await in_thread(work, f"spindle-{source}")
    return await value if inspect.isawaitable(value) else value


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
        return Result((Block.of_bytes(value),))
    if returns.adapter is None:
        if value is None:
            return Result()
        if isinstance(value, str):
            return Result.of_text(value)
    try:
        if returns.adapter is not None:
            structured = returns.adapter.dump_python(value, mode="json", warnings="error")
        else:
            structured = to_jsonable_python(value)
    except (PydanticSerializationError, UserWarning, ValueError) as error:
        raise _wrong_return(tool, str(error)) from None
    return Result.of_value(structured, structured if isinstance(structured, str) else None)


def _wrong_return(tool: Tool, problem: str) -> ServerError:
    return ServerError(
        f"what {tool.name} returned is not what it declares: {problem}", hint=f"see {tool.spec.place}"
    )
