"""The use that a run makes of its limits."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.agents.limits import Limits
from spindle.calls.delegation import LimitReachedError, check_used
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from spindle.calls.delegation import OuterBudget, Used

Prices = Mapping[str, tuple[float, float]]
"""By the name of a model, US dollars for a million tokens: of input, and of output."""


_without_price: BoundedMap[tuple[str | None, str | None], None] = BoundedMap(1000)
"""Models of which nobody knows the price: to look through all that are known takes half a millisecond."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens as the provider counted them. `cost` is in US dollars; None: a part of it is unknown."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> JsonObject:
        return dataclasses.asdict(self)

    def plus(self, response: ModelResponse, prices: Prices) -> ModelUsage:
        used, cost = response.usage, _cost(response, prices)
        one = ModelUsage(1, used.input_tokens, used.output_tokens, used.cache_read_tokens, cost)
        return self.together(one)

    def together(self, other: ModelUsage) -> ModelUsage:
        """Both added up."""
        if not (self.requests and other.requests):
            return self if self.requests else other
        return ModelUsage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )

    def without(self, other: ModelUsage) -> ModelUsage:
        """Returns what remains of it when a part of it is taken off."""
        if not other.requests:
            return self
        return ModelUsage(
            max(self.requests - other.requests, 0),
            max(self.input_tokens - other.input_tokens, 0),
            max(self.output_tokens - other.output_tokens, 0),
            max(self.cached_tokens - other.cached_tokens, 0),
            None if self.cost is None or other.cost is None else max(self.cost - other.cost, 0.0),
        )


def _cost(response: ModelResponse, prices: Prices) -> float | None:
    used, name = response.usage, response.model_name or ""
    # A provider answers with the dated name of a model, and the longest that begins it is its own.
    fitting = sorted(
        (known for known in prices if name.startswith(known.partition(":")[2] or known)), key=len
    )
    if fitting:
        per_input, per_output = prices[fitting[-1]]
        return (used.input_tokens * per_input + used.output_tokens * per_output) / 1_000_000
    if used.cost is not None:
        return float(used.cost)
    model = response.provider_name, response.model_name
    if model in _without_price:
        return None
    try:
        return float(response.cost().total_price)
    except LookupError:
        _without_price[model] = None
        return None
    except (ValueError, AssertionError):
        return None


class Budget:
    """Counts what an agent uses, also in other processes, and what agents use that it gave tasks to. They
    count for its limits as well."""

    def __init__(
        self,
        limits: Limits,
        prices: Prices,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        outer: OuterBudget | None = None,
        step: str = "",
    ) -> None:
        """`outer` is that of the agent which gave the task, in which this one is known by its `step`."""
        self._own = ModelUsage()
        self._inner: dict[str, ModelUsage] = {}
        """By step, the use of agents that were given tasks; by none, that of which only the sum is known."""
        self._outer = outer
        self._step = step
        self.sampled = ModelUsage()
        """The use of the model besides the run's own turns: by servers that asked it in calls, and for
        summaries."""
        self._limits = limits
        self._prices = prices
        self._monotonic = monotonic
        self._began = monotonic()
        self._before = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds of work, before the last pause and since."""
        return self._before + self._monotonic() - self._began

    @property
    def remaining(self) -> float | None:
        own = None if self._limits.time is None else max(self._limits.time - self.elapsed, 0.0)
        outer = None if self._outer is None else self._outer.remaining
        return min((left for left in (own, outer) if left is not None), default=None)

    @property
    def usage(self) -> ModelUsage:
        """All use of the model so far."""
        return self._own.together(self.sampled).together(self.inner)

    @property
    def inner(self) -> ModelUsage:
        """The use of agents that were given tasks."""
        total = ModelUsage()
        for usage in self._inner.values():
            total = total.together(usage)
        return total

    def set_inner(self, step: str, usage: Used) -> None:
        """Takes note of all that the agent at this step has used so far, in whichever process."""
        self._inner[step] = ModelUsage(**usage.to_dict())
        self._tell()

    def _tell(self) -> None:
        if self._outer is not None:
            self._outer.set_inner(self._step, self.usage)

    def add_sampled(self, response: ModelResponse) -> None:
        """Counts an answer that a server asked for."""
        self.sampled = self.sampled.plus(response, self._prices)
        self._tell()

    def add_besides(self, usage: ModelUsage) -> None:
        """Counts an answer that is no turn of the run."""
        self.sampled = self.sampled.together(usage)
        self._tell()

    def recorded(self) -> JsonObject:
        """Returns what a later process cannot count again, as JSON."""
        found = {"sampled": self.sampled, "inner": self.inner}
        used = {name: usage.to_dict() for name, usage in found.items() if usage.requests}
        return {"elapsed": self.elapsed, **used}

    def add(self, response: ModelResponse, record: Mapping[str, Any]) -> None:
        """Counts an answer of the model. `record` is what `recorded` returned by then."""
        elapsed: float = record["elapsed"]
        sampled: JsonObject | None = record.get("sampled")
        self._own = self._own.plus(response, self._prices)
        before = ModelUsage(**(sampled or {}))
        if before.requests > self.sampled.requests:
            self.sampled = before
        if elapsed > self.elapsed:  # on record from an earlier process
            self._before, self._began = elapsed, self._monotonic()
        # Agents that worked for a flow, or for a tool, tell nothing when that is answered from the record.
        told: JsonObject = record.get("inner") or {}
        inner = ModelUsage(**told)
        if inner.requests > self.inner.requests:
            known = self._inner.get("", ModelUsage())
            self._inner[""] = known.together(inner.without(self.inner))
        self._tell()

    def check(self, step: int) -> None:
        """Raises LimitReachedError if the limits allow no further answer of the model."""
        if step > self._limits.steps:
            raise LimitReachedError("steps")
        self.check_used()

    def check_used(self) -> None:
        """Raises LimitReachedError if nothing more may be used."""
        if self._outer is not None:
            self._outer.check_used()
        if self.remaining == 0.0:
            raise LimitReachedError("time")
        check_used(self.usage, self._limits.tokens, self._limits.cost)

    def left(self) -> JsonObject:
        """Returns how many `tokens`, what `cost` and how much `time` may still be used; None: any."""
        limits, used = self._limits, self.usage
        own = {
            "tokens": None if limits.tokens is None else limits.tokens - used.tokens,
            "cost": None if limits.cost is None else limits.cost - (used.cost or 0.0),
            "time": self.remaining,
        }
        outer = {} if self._outer is None else self._outer.left()
        return {
            name: min((each for each in (left, outer.get(name)) if each is not None), default=None)
            for name, left in own.items()
        }


def read_prices(given: Mapping[str, Any] | None) -> dict[str, tuple[float, float]]:
    """Reads prices from the settings. Raises ConfigurationError."""
    found: dict[str, tuple[float, float]] = {}
    for name, price in (given or {}).items():
        try:
            per_input, per_output = price
            found[name] = (float(per_input), float(per_output))
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"the price of {name!r} must be two numbers: US dollars for a million tokens in, and out"
            ) from None
    return found
