"""The use that a run makes of its limits."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.agents.limits import LimitReachedError, Limits
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

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
    """Counts what a run uses, also in other processes."""

    def __init__(
        self, limits: Limits, prices: Prices, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._own = ModelUsage()
        self.sampled = ModelUsage()
        """The use that servers made of the model which they asked in calls of the run."""
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
        return None if self._limits.time is None else max(self._limits.time - self.elapsed, 0.0)

    @property
    def usage(self) -> ModelUsage:
        """All use of the model so far."""
        return self._own.together(self.sampled)

    def add_sampled(self, response: ModelResponse) -> None:
        """Counts an answer that a server asked for."""
        self.sampled = self.sampled.plus(response, self._prices)

    def add(self, response: ModelResponse, elapsed: float, sampled: Mapping[str, Any] | None = None) -> None:
        """Counts an answer of the model. `elapsed` and `sampled` are as they were on record by then."""
        self._own = self._own.plus(response, self._prices)
        before = ModelUsage(**(sampled or {}))
        if before.requests > self.sampled.requests:
            self.sampled = before
        if elapsed > self.elapsed:  # on record from an earlier process
            self._before, self._began = elapsed, self._monotonic()

    def check(self, step: int) -> None:
        """Raises LimitReachedError if the limits allow no further answer of the model."""
        limits, usage = self._limits, self.usage
        if step > limits.steps:
            raise LimitReachedError("steps")
        if self.remaining == 0.0:
            raise LimitReachedError("time")
        if limits.tokens is not None and usage.tokens >= limits.tokens:
            raise LimitReachedError("tokens")
        if limits.cost is None or usage.requests == 0:
            return
        if usage.cost is None:
            raise ConfigurationError(
                "there is a cost limit, but the price of this model is not known",
                hint='give its prices for a million tokens: prices={"MODEL": (input, output)}',
            )
        if usage.cost >= limits.cost:
            raise LimitReachedError("cost")


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
