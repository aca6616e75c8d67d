"""`@tool` and the `Context` that a tool may ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from spindle.domain.call import Call
from spindle.domain.identity import Principal

MARK = "__spindle_tool__"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolOptions:
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | type[Any] | None = None
    tags: tuple[str, ...] = ()
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    pure: bool = False


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: dict[str, Any] | type[Any] | None = None,
    tags: Sequence[str] = (),
    read_only: bool | None = None,
    idempotent: bool | None = None,
    destructive: bool | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, tags: Sequence[str] = (), **options: Any) -> Any:
    """Offer a function as a tool. It stays an ordinary function.

    The schema comes from its type hints and docstring. `input_schema` replaces it: a JSON Schema, whose
    properties are passed by name, or a Pydantic model, of which one instance is passed.
    """

    def mark(target: Any) -> Any:
        setattr(target, MARK, ToolOptions(tags=tuple(tags), **options))
        return target

    return mark if function is None else mark(function)


@dataclass
class Context:
    """What a tool may know about the call it serves. Ask for it with a parameter of this type; it is
    not part of the tool's schema."""

    tool: str
    call: Call = field(repr=False)
    _loop: asyncio.AbstractEventLoop = field(repr=False)
    _reports: list[asyncio.Future[None]] = field(default_factory=list[Any], repr=False)

    @property
    def principal(self) -> Principal:
        return self.call.principal

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the work is. Does not wait, and works in sync and async tools."""
        self._loop.call_soon_threadsafe(self._report, done, total, message)

    def log(self, message: str, level: int = logging.INFO) -> None:
        logging.getLogger(f"spindle.tools.{self.tool}").log(level, message)

    def _report(self, done: float, total: float | None, message: str | None) -> None:
        if self.call.on_progress is not None:
            report = self.call.on_progress(done, total, message)
            self._reports.append(asyncio.ensure_future(report))

    async def settle(self) -> None:
        """Wait until all progress has been passed on, so that none arrives after the result."""
        await asyncio.sleep(0)
        for report in self._reports:
            await report
