"""Holds clients to their quotas: calls, calls at once, bytes and units of cost, counted in the store, so
that they hold over all servers of a workspace and over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import is_object, to_json
from spindle.domain.quota import QuotaRule
from spindle.errors import RateLimitedError, SpindleError
from spindle.ports.serving_store import QuotaHold, QuotaUse
from spindle.telemetry import metrics

if TYPE_CHECKING:
    from spindle.domain.access_entry import AccessEntry
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.ports.serving_store import QuotaStore

logger = logging.getLogger("spindle.serve")

LEASE: Final = 60.0
"""Seconds after which the places of a server that died are free again."""


@dataclass(frozen=True, slots=True)
class _Applies:
    """A quota that counts a call, and the one whose quota it is."""

    name: str
    rule: QuotaRule
    whose: str

    def key(self, limit: str) -> str:
        return f"{self.name}\0{limit}\0{self.whose}"


class QuotaGate:
    """Counts the calls of clients. `costs` are units by tool or pattern; a call costs 1 where none fits."""

    def __init__(self, store: QuotaStore, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self.rules: Mapping[str, QuotaRule] = {}
        self.costs: Mapping[str, float] = {}
        self._held: set[str] = set()

    def follow(self, config: ServeConfig, entries: Iterable[AccessEntry]) -> None:
        """Takes the quotas of the settings, and besides them those of administrators."""
        made = {
            entry.name: QuotaRule.model_validate(entry.body) for entry in entries if entry.kind == "quota"
        }
        self.rules, self.costs = {**made, **config.quotas.rules}, config.costs

    async def within(
        self, principal: Principal, tool: str, arguments: Any, work: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Does the work of a call within all quotas that are about it. Raises RateLimitedError if
        one has not enough left."""
        applying = [
            _Applies(name, rule, "" if rule.shared else principal.id)
            for name, rule in self.rules.items()
            if _is_about(rule, principal, tool)
        ]
        if not applying:
            return await work()
        holder = secrets.token_hex(8)
        holds = [
            QuotaHold(each.key("concurrency"), each.rule.concurrency)
            for each in applying
            if each.rule.concurrency is not None
        ]
        refusal = await self._store.take_quota(
            [*self._uses(applying, tool)], holds, holder, LEASE, self._now()
        )
        if refusal is not None:
            raise _refused(refusal.key, refusal.wait)
        if holds:
            self._held.add(holder)
        result: Any = None
        try:
            result = await work()
            return result
        finally:
            await asyncio.shield(self._settle(applying, arguments, result, holder if holds else None))

    def _uses(self, applying: list[_Applies], tool: str) -> list[QuotaUse]:
        found: list[QuotaUse] = []
        for each in applying:
            rule = each.rule
            if rule.calls is not None:
                used = rule.calls.seconds / rule.calls.calls
                found.append(QuotaUse(each.key("calls"), used, rule.calls.seconds))
            if rule.cost is not None:
                used = self._cost(tool) * rule.cost.seconds / rule.cost.calls
                found.append(QuotaUse(each.key("cost"), used, rule.cost.seconds))
            if rule.bytes is not None:
                found.append(QuotaUse(each.key("bytes"), 0.0, rule.bytes.seconds))
        return sorted(found, key=lambda use: use.key)  # in one order, so that no two wait for each other

    def _cost(self, tool: str) -> float:
        exact = self.costs.get(tool)
        if exact is not None:
            return exact
        fitting = (units for pattern, units in self.costs.items() if fnmatch.fnmatchcase(tool, pattern))
        return next(fitting, 1.0)

    async def _settle(
        self, applying: list[_Applies], arguments: Any, result: Any, holder: str | None
    ) -> None:
        """Charges the bytes of a call that ended, and gives its places back."""
        try:
            rated = [each for each in applying if each.rule.bytes is not None]
            size = sum(len(to_json(part, default=str)) for part in (arguments, result)) if rated else 0
            for each in rated:
                assert each.rule.bytes is not None
                rate = each.rule.bytes
                use = QuotaUse(each.key("bytes"), size * rate.seconds / rate.bytes, rate.seconds)
                await self._store.charge_quota(use, self._now())
            if holder is not None:
                self._held.discard(holder)
                await self._store.release_quota_holds(holder)
        except SpindleError as error:
            # The call is made; its places are free when their lease ends.
            logger.warning("the quotas of a call could not be settled: %s", error.message)

    async def run(self) -> None:
        """Keeps the places of calls that take long, and tidies up."""
        while True:
            await asyncio.sleep(LEASE / 3)
            with contextlib.suppress(SpindleError):
                if self._held:
                    await self._store.renew_quota_holds(sorted(self._held), LEASE, self._now())
                await self._store.forget_quotas(self._now())


def _is_about(rule: QuotaRule, principal: Principal, tool: str) -> bool:
    everybody = not rule.users and not rule.groups
    if not (everybody or principal.id in rule.users or not principal.groups.isdisjoint(rule.groups)):
        return False
    return not rule.tools or any(fnmatch.fnmatchcase(tool, pattern) for pattern in rule.tools)


def _refused(key: str, wait: float) -> RateLimitedError:
    name, limit, whose = key.split("\0")
    if metrics.active is not None:
        metrics.active.refused.add((name, limit))
    what = {
        "calls": "calls",
        "cost": "units of cost",
        "bytes": "bytes",
        "concurrency": "calls at once",
    }[limit]
    shared = "" if whose else ", which its users share,"
    seconds = round(max(wait, 0.001), 3)
    return RateLimitedError(
        f"the quota {name!r} of {what}{shared} is used up; some is there again in {seconds:g} s",
        hint="wait, or ask an administrator for more",
        retry_after=seconds,
        sent=False,
        details={"quota": name},
    )


def is_used_up(error: SpindleError) -> bool:
    """True for the error of a quota that is used up, and not for one of a source that asks to wait."""
    is_ours = isinstance(error, RateLimitedError) and error.sent is False
    return is_ours and is_object(error.details) and "quota" in error.details
