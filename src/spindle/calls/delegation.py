"""The agents around a call: who gave a task to whom, and the budgets that all of it counts for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from spindle.errors import ClientError

MOST_DEEP: Final = 8
"""Agents that may work inside of each other."""
KIND: Final = "agents"
"""The kind of source whose tools are agents."""
USAGE: Final = "io.spindle/usage"
"""Names in `_meta` of an agent's result what it used, and the step at which it did."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """The agents that a call is made for, the outermost first."""

    tools: tuple[str, ...] = ()
    """Those of them that were called as tools."""
    depth: int = 0
    """The number of them."""
    budget: Any = None
    """The budget of the innermost."""


delegation: ContextVar[Delegation] = ContextVar("spindle_delegation", default=Delegation())  # noqa: B039 - frozen


@contextmanager
def delegated(tool: str) -> Generator[None]:
    """Calls inside are made for the agent that is this tool. Raises ClientError if it works already, further
    out."""
    around = delegation.get()
    if tool in around.tools:
        way = " → ".join((*around.tools, tool))
        raise ClientError(
            f"the agent {tool!r} is at work already, and waits for this: {way}",
            hint="do it without that agent",
            tool=tool,
        )
    token = delegation.set(replace(around, tools=(*around.tools, tool)))
    try:
        yield
    finally:
        delegation.reset(token)


@contextmanager
def inside(budget: Any) -> Generator[None]:
    """Calls inside are made for one more agent, with this budget. Raises ClientError where too many wait for
    each other."""
    around = delegation.get()
    if around.depth >= MOST_DEEP:
        named = f" ({' → '.join(around.tools)})" if around.tools else ""
        raise ClientError(
            f"{around.depth} agents work inside of each other{named}, and no more may",
            hint="do it without a further agent",
        )
    token = delegation.set(replace(around, depth=around.depth + 1, budget=budget))
    try:
        yield
    finally:
        delegation.reset(token)
