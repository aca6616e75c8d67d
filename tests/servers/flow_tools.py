"""Small tools for flows, and what they are opened with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import spindle
from spindle import Context, tool

OpenFlows = Callable[..., AbstractAsyncContextManager[spindle.Spindle]]


@tool(read_only=True)
def upper(text: str) -> str:
    return text.upper()


@tool
def join(a: str, b: str, by: str = " ") -> str:
    return f"{a}{by}{b}"


@tool
def add(a: int, b: int = 1) -> int:
    return a + b


@tool
def count(text: str) -> dict[str, int]:
    return {"words": len(text.split()), "letters": len(text)}


@tool
def person() -> dict[str, Any]:
    return {
        "name": "Ada",
        "born": {"year": 1815, "place": {"city": "London"}},
        "tags": ["math", "code"],
        "jobs": [{"title": "analyst"}, {"title": "poet"}],
    }


@tool
def items() -> list[int]:
    return [3, 1, 2]


@tool
def same(value: Any) -> dict[str, Any]:
    return {"value": value}


@tool
def optional(text: str | None = None, limit: int = 5) -> dict[str, Any]:
    return {"text": text, "limit": limit}


@tool
def nothing() -> None:
    return None


@tool
def report(ok: bool, error: str | None = None) -> dict[str, Any]:
    return {"ok": ok, "error": error}


@tool
def fail(why: str = "no reason") -> str:
    raise ValueError(why)


@tool
async def whose(context: Context) -> str:
    return context.principal.id


TOOLS = [upper, join, add, count, person, items, same, optional, nothing, report, fail, whose]
