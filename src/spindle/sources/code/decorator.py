"""`@tool`: offers a function as a tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

MARK = "__spindle_tool__"

TaskSupport = Literal["optional", "required"]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options given to `@tool`."""

    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | type[Any] | None = None
    tags: tuple[str, ...] = ()
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    pure: bool = False
    task: TaskSupport | None = None
    home: str | None = None
    """The module that marked the function, which need not be the one that defines it."""


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
    open_world: bool | None = None,
    task: TaskSupport | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, tags: Sequence[str] = (), **options: Any) -> Any:
    """Offers a function as a tool. It stays an ordinary function.

    The schema comes from its type hints and docstring. `input_schema` replaces it with a JSON Schema, whose
    properties are passed by name, or a Pydantic model, of which one instance is passed. `open_world` says
    that it may return words of anybody, such as a web page or a mail. `task` says of one that takes long that
    MCP clients which know tasks get a task to ask after, or (`required`) that only they may call it.
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
