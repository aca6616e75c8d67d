"""`@tool` and the `Context` that a tool may ask for."""

from __future__ import annotations

import asyncio
import logging
import sys
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
    home: str | None = None
    """The module in which the function was marked, which is not always where it was written."""


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

    home = sys._getframe(1).f_globals.get("__name__")  # pyright: ignore[reportPrivateUsage] - as logging does

    def mark(target: Any) -> Any:
        if isinstance(target, type) or not callable(target):
            raise TypeError(f"@tool goes on a function, not on {target!r}")
        try:
            setattr(target, MARK, ToolOptions(tags=tuple(tags), home=home, **options))
        except AttributeError:
            raise TypeError(f"{target!r} cannot be marked; write a function that calls it") from None
        return target

    return mark if function is None else mark(function)


def mcp_level(level: int) -> str:
    """The name that MCP has for a level of Python's."""
    levels = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
    for least, name in (*levels, (logging.INFO, "info")):
        if level >= least:
            return name
    return "debug"


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
        """Write to the log, and show it to the program that made the call, where that wants to see it."""
        logging.getLogger(f"spindle.tools.{self.tool}").log(level, message)
        peer = self.call.peer
        if peer is not None and peer.log_level is not None:
            self._loop.call_soon_threadsafe(peer.log, mcp_level(level), message, self.tool)

    def _report(self, done: float, total: float | None, message: str | None) -> None:
        if self.call.on_progress is not None:
            report = self.call.on_progress(done, total, message)
            self._reports.append(asyncio.ensure_future(report))

    async def settle(self) -> None:
        """Wait until all progress has been passed on, so that none arrives after the result."""
        await asyncio.sleep(0)
        for report in await asyncio.gather(*self._reports, return_exceptions=True):
            if isinstance(report, Exception):
                # The work is done; a listener that fails does not undo it.
                logging.getLogger("spindle").warning("progress of %s was not taken: %r", self.tool, report)

    def abandon(self) -> None:
        """Nobody waits for this call any more."""
        for report in self._reports:
            report.cancel()
