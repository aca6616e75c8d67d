"""The guards between a source and its callers, one set for each source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.calls.breaker import Breakers
from spindle.calls.limits import Limit
from spindle.calls.rates import RateLimiter
from spindle.calls.record import configured_secrets
from spindle.calls.stored_rates import StoredRate

if TYPE_CHECKING:
    from spindle.catalog.sources import SourceSet
    from spindle.domain.source import SourceConfig
    from spindle.ports.serving_store import QuotaStore


@dataclass(slots=True)
class Guards:
    """The breakers and limits of a source, and the secrets that no record may hold."""

    config: SourceConfig
    breakers: Breakers
    limit: Limit
    rate: RateLimiter | None
    secrets: frozenset[str]


class SourceGuards:
    """The guards of every source, made anew when its settings are replaced."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        store: QuotaStore,
    ) -> None:
        """`store` counts rates for all processes, if it is a database that they share."""
        self._monotonic = monotonic
        self._sleep = sleep
        self._store = store
        self._made: dict[str, Guards] = {}

    def __getitem__(self, source: str) -> Guards:
        """Returns the guards of a source that was used before."""
        return self._made[source]

    def of(self, source: str, config: SourceConfig, sources: SourceSet) -> Guards:
        """Returns the guards of a source with these settings."""
        found = self._made.get(source)
        if found is None or found.config is not config:
            for gone in self._made.keys() - {*sources.names, source}:
                del self._made[gone]
            found = self._made[source] = Guards(
                config,
                Breakers(source, config.breaker, self._monotonic),
                Limit(
                    config.max_concurrency,
                    repr(source),
                    f"try again later, or raise sources.{source}.max_concurrency",
                    config.max_waiting,
                    is_shared=True,
                ),
                self._rate(source, config),
                frozenset(sources.secrets(source) | configured_secrets(config)),
            )
        return found

    def _rate(self, source: str, config: SourceConfig) -> RateLimiter | None:
        limit = config.rate_limit
        if limit is None:
            return None
        stored = StoredRate(f"calls of {source}", limit, self._store) if self._store.is_server else None
        return RateLimiter(
            limit,
            self._monotonic,
            self._sleep,
            of=repr(source),
            max_waiting=config.max_waiting,
            stored=stored,
        )
