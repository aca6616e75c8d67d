"""The rules that hold for a run, and have to hold for the parts of its batches in other processes too: for
which agents it works and what is left of their budgets, the flows around it, and the words of others that it
has seen. And back: what a part has used, and what it has seen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.allowance import Allowance, Spent, on_behalf
from spindle.calls.delegation import Delegation, delegation
from spindle.domain import trail
from spindle.domain.flow_of_trust import TrustPolicy
from spindle.runs.parts import SPENT, spreading

if TYPE_CHECKING:
    from spindle.calls.host import CallHost
    from spindle.domain.call import Host
    from spindle.domain.json_schema import JsonObject

AROUND: Final = "around"
UNTRUSTED: Final = "untrusted"

flows_around: ContextVar[tuple[str, ...]] = ContextVar("spindle_flows", default=())
"""The flows that are executed in this context, one inside the other."""


def handed_over(host: Host) -> JsonObject:
    """Returns what a part of a batch is given of all this."""
    around = {
        **delegation.get().to_dict(),
        "flows": list(flows_around.get()),
        "policy": None if host.policy is None else host.policy.to_dict(),
        UNTRUSTED: host.untrusted or "",
    }
    return {AROUND: around, trail.FIELD: trail.written(trail.current())}


def handed_back(told: JsonObject, part: str, host: Host) -> None:
    """Counts what a part has used for the agents that its run works for, and marks the run with what the part
    has seen."""
    budget = delegation.get().budget
    if budget is not None and (spent := told.get(SPENT)) is not None:
        budget.set_inner(part, Spent(**spent))
    if origin := told.get(UNTRUSTED):
        host.under(None, origin)


class PartWork:
    """The work of a part, in the place of its run."""

    def __init__(self, host: CallHost, allowance: Allowance) -> None:
        self.host = host
        self._allowance = allowance
        self._records: dict[int, int] = {}
        """By item, how often something was recorded that it has used."""

    def recall(self, items: int) -> None:
        """Reads what an earlier execution has used."""
        for index in range(items):
            while (found := self.host.recall(SPENT, [index, self._records.get(index, 0)])) is not None:
                self._allowance.know(found)
                self._records[index] = self._records.get(index, 0) + 1

    async def ended(self, index: int) -> None:
        """Records what was used until this item ended: its steps, answered from the record, tell nothing."""
        news = self._allowance.news()
        if not news:
            return

        async def made(_: Host) -> Any:
            return news

        number = self._records.get(index, 0)
        self._records[index] = number + 1
        await self.host.remember(SPENT, [index, number], made)

    def told(self) -> JsonObject:
        """Returns what the run of the part has to know."""
        spent = self._allowance.spent
        used = {SPENT: spent.to_dict()} if spent.requests else {}
        origin = self.host.untrusted
        return {**used, UNTRUSTED: origin} if origin is not None else used


@asynccontextmanager
async def taken_over(given: JsonObject, host: CallHost) -> AsyncGenerator[PartWork]:
    """Calls inside are made in the place of the run that a part belongs to."""
    # A part that was submitted by an earlier version has none of it.
    around: JsonObject = given.get(AROUND) or {**Delegation().to_dict(), "flows": [], "policy": None}
    left, parts = around["left"], spreading.get()
    is_bounded = left is not None and (left["tokens"] is not None or left["cost"] is not None)
    others = await parts.spent(given) if is_bounded and parts is not None else Spent()
    allowance = Allowance(left, others)
    policy = around["policy"]
    host.under(None if policy is None else TrustPolicy.from_dict(policy), around.get(UNTRUSTED, ""))
    token = flows_around.set(tuple(around["flows"]))
    try:
        with on_behalf(around, allowance), trail.on_kept(given):
            yield PartWork(host.with_model(None), allowance)
    finally:
        flows_around.reset(token)
