"""The budget of agents in another process: what was left of it when the work was handed over."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.calls.delegation import Delegation, LimitReachedError, check_used, delegation

if TYPE_CHECKING:
    from spindle.calls.delegation import Used
    from spindle.domain.json_schema import JsonObject


@dataclass(frozen=True, slots=True)
class Spent:
    """The use of models by several together. `cost`: None if that of one is not known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> JsonObject:
        names = ("requests", "input_tokens", "output_tokens", "cached_tokens", "cost")
        return {name: getattr(self, name) for name in names}

    def plus(self, one: Mapping[str, Any]) -> Spent:
        """Returns both added up."""
        cost = None if self.cost is None or one["cost"] is None else self.cost + one["cost"]
        return Spent(
            self.requests + one["requests"],
            self.input_tokens + one["input_tokens"],
            self.output_tokens + one["output_tokens"],
            self.cached_tokens + one["cached_tokens"],
            cost,
        )


class Allowance:
    """The rest of a budget. It counts what is used of it here, and knows what others have used of it."""

    def __init__(
        self, left: JsonObject | None, others: Spent, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`left`: None where there is no budget, and the use is only counted."""
        self._left: Mapping[str, Any] = left or {}
        self._others = others
        self._used: dict[str, JsonObject] = {}
        """By step, all that was used there."""
        self._told: dict[str, JsonObject] = {}
        """The same as far as it was taken to be recorded."""
        self._monotonic = monotonic
        self._began = monotonic()

    @property
    def remaining(self) -> float | None:
        seconds = self._left.get("time")
        return None if seconds is None else max(seconds - (self._monotonic() - self._began), 0.0)

    @property
    def spent(self) -> Spent:
        """All that was used here."""
        return self._sum(Spent())

    def set_inner(self, step: str, usage: Used) -> None:
        self._used[step] = usage.to_dict()

    def check_used(self) -> None:
        if self.remaining == 0.0:
            raise LimitReachedError("time")
        check_used(self._sum(self._others), self._left.get("tokens"), self._left.get("cost"))

    def left(self) -> JsonObject:
        used, tokens, cost = self._sum(self._others), self._left.get("tokens"), self._left.get("cost")
        return {
            "tokens": None if tokens is None else tokens - used.tokens,
            "cost": None if cost is None else cost - (used.cost or 0.0),
            "time": self.remaining,
        }

    def news(self) -> dict[str, JsonObject]:
        """Returns what was used since this was asked last, by step, to be recorded."""
        found = {step: usage for step, usage in self._used.items() if self._told.get(step) != usage}
        self._told |= found
        return found

    def know(self, recorded: Mapping[str, JsonObject]) -> None:
        """Takes what was used by an earlier execution, of which steps that are on record tell nothing."""
        for step, usage in recorded.items():
            if usage["requests"] >= self._used.get(step, usage)["requests"]:
                self._used[step] = self._told[step] = usage

    def _sum(self, total: Spent) -> Spent:
        for usage in self._used.values():
            total = total.plus(usage)
        return total


@contextmanager
def on_behalf(handed: JsonObject, allowance: Allowance) -> Generator[None]:
    """Calls inside are made for the agents for which another process has handed work over."""
    token = delegation.set(Delegation(tuple(handed["tools"]), handed["depth"], allowance))
    try:
        yield
    finally:
        delegation.reset(token)
