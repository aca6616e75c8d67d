"""The agents around a call: who gave a task to whom, and the budgets that all of it counts for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

from spindle.errors import ClientError, ConfigurationError

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject

MOST_DEEP: Final = 8
"""Agents that may work inside of each other."""
KIND: Final = "agents"
"""The kind of source whose tools are agents."""
USAGE: Final = "io.spindle/usage"
"""Names in `_meta` of an agent's result what it used, and the step at which it did."""


EndedBy = Literal["answer", "steps", "time", "tokens", "cost"]


class LimitReachedError(Exception):
    """Ends a run early. It is no failure: the result is what was achieved so far."""

    def __init__(self, by: EndedBy) -> None:
        super().__init__(by)
        self.by: EndedBy = by


class Used(Protocol):
    """The use of models that is counted."""

    @property
    def requests(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def cost(self) -> float | None: ...
    def to_dict(self) -> JsonObject: ...


class OuterBudget(Protocol):
    """The budget of an agent for which others work."""

    @property
    def remaining(self) -> float | None:
        """Seconds; None: no limit."""
        ...

    def set_inner(self, step: str, usage: Used) -> None:
        """Takes note of all that was used so far at a step, in whichever process."""
        ...

    def check_used(self) -> None:
        """Raises LimitReachedError if nothing more may be used."""
        ...

    def left(self) -> JsonObject:
        """Returns how many `tokens`, what `cost` and how much `time` may still be used; None: any."""
        ...


def check_used(usage: Used, tokens: float | None, cost: float | None) -> None:
    """Raises LimitReachedError if so much was used that nothing more may be."""
    if tokens is not None and usage.tokens >= tokens:
        raise LimitReachedError("tokens")
    if cost is None or usage.requests == 0:
        return
    if usage.cost is None:
        raise ConfigurationError(
            "there is a cost limit, but the price of this model is not known",
            hint='give its prices for a million tokens: prices={"MODEL": (input, output)}',
        )
    if usage.cost >= cost:
        raise LimitReachedError("cost")


@dataclass(frozen=True, slots=True)
class Delegation:
    """The agents that a call is made for, the outermost first."""

    tools: tuple[str, ...] = ()
    """Those of them that were called as tools."""
    depth: int = 0
    """The number of them."""
    budget: OuterBudget | None = None
    """The budget of the innermost."""

    def to_dict(self) -> JsonObject:
        """Returns what another process needs to work for the same agents, as JSON."""
        left = None if self.budget is None else self.budget.left()
        return {"tools": list(self.tools), "depth": self.depth, "left": left}


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
def inside(budget: OuterBudget) -> Generator[None]:
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
