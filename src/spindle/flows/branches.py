"""Runs the branches of a fork at the same time, up to the node where they meet.

Each branch sees the shared store as it was at the fork, with its own changes. What the branches that arrive
have changed is put together at the join, in the order of the edges: the result does not depend on which was
faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from spindle.errors import FlowError, Interruption, interruption_in
from spindle.flows.definition import Join
from spindle.flows.failures import told
from spindle.flows.node import BaseNode, Fork
from spindle.flows.run_context import RunContext

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.meeting import Meeting
    from spindle.flows.run_context import Notes

    Follow = Callable[[BaseNode, Any, RunContext], Awaitable[BaseNode | None]]
    """Runs nodes from one on, up to a join, which is returned."""


class EndlessError(FlowError):
    """A loop that went on for too long. It ends the flow, also in a branch whose failures are kept."""


State = Literal["running", "arrived", "elsewhere", "failed", "paused"]


class ForkNotes(Protocol):
    """Follows the branches of one fork."""

    def decided(self) -> JsonObject | None:
        """Returns the decision of an earlier execution of the run."""
        ...

    async def decide(self, decision: JsonObject) -> None:
        """Returns when the decision would survive the death of this process. What given up branches have
        asked is not asked any more."""
        ...

    def branch(self, name: str) -> Notes:
        """Returns the notes of one branch."""
        ...

    def settle(self, decision: JsonObject, visits: Mapping[str, int]) -> JsonObject:
        """Notes how the fork ended, with the numbers of visits of nodes whose branches do not count, and
        returns the outputs of the branches that arrived."""
        ...


@dataclass(eq=False, slots=True)
class _Branch:
    name: str
    start: BaseNode
    region: frozenset[BaseNode]
    shared: dict[str, Any]
    running: RunContext
    state: State = "running"
    error: BaseException | None = None

    async def run(self, follow: Follow, join: BaseNode | None) -> None:
        try:
            reached = await follow(self.start, self.shared, self.running)
            self.state = "arrived" if reached is join else "elsewhere"
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            question = interruption_in(error)
            if question is None and not isinstance(error, Exception):
                raise
            self.state, self.error = ("failed", error) if question is None else ("paused", question)


async def run_branches(
    fork: Fork,
    meeting: Meeting[BaseNode],
    shared: Any,
    running: RunContext,
    follow: Follow,
    visits: dict[int, int],
) -> BaseNode | None:
    """Runs the branches of a fork, and returns the node where they meet. None: they have all ended."""
    if not isinstance(shared, MutableMapping):
        raise FlowError(
            f"branches need a shared store that is a dict, not a {type(shared).__name__}",
            hint="run the flow with a dict",
        )
    beside = running
    if running.blocking:
        beside = RunContext(host=running.host)
    race = _Race(fork, meeting, cast("MutableMapping[str, Any]", shared), beside, follow, visits)
    await running.settled(race.run())
    return meeting.join


class _Race:
    def __init__(
        self,
        fork: Fork,
        meeting: Meeting[BaseNode],
        shared: MutableMapping[str, Any],
        running: RunContext,
        follow: Follow,
        visits: dict[int, int],
    ) -> None:
        self._join = meeting.join
        self._rule = (meeting.join.join if meeting.join is not None else None) or Join()
        self._at = named(meeting.join if meeting.join is not None else fork.source)
        self._shared = shared
        self._before = dict(shared)
        self._follow = follow
        self._visits = visits
        notes = running.notes
        place = f"fork {named(fork.source)}.{fork.action}"
        self._notes = None if notes is None else notes.fork(place, self._at)
        self._arrived: list[str] = []
        """In the order in which they did."""
        self._branches: dict[str, _Branch] = {}
        for start, region in zip(fork.targets, meeting.regions, strict=True):
            name = base = named(start)
            while name in self._branches:  # nodes without an id, of one class
                name = f"{base}_{len(self._branches)}"
            within = None if self._notes is None else self._notes.branch(name)
            self._branches[name] = _Branch(
                name, start, region, dict(shared), RunContext(notes=within, host=running.host)
            )

    async def run(self) -> None:
        decision = None if self._notes is None else self._notes.decided()
        if decision is None:
            decision = await self._decide()
        else:
            await self._repeat(decision)
        self._settle(decision)

    # --- the first time

    async def _decide(self) -> JsonObject:
        tasks = {
            asyncio.create_task(self._one(branch), name=f"branch {branch.name}")
            for branch in self._branches.values()
        }
        try:
            while tasks and not self._is_over():
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # cancelled from below: so is all of it
            decision = self._decision()
            if self._notes is not None and len(decision["arrived"]) < len(self._branches):
                # Before anything is given up: whoever repeats the run must not begin it again.
                await self._notes.decide(decision)
            return decision
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, branch: _Branch) -> None:
        await branch.run(self._follow, self._join)
        if branch.state == "arrived":
            self._arrived.append(branch.name)

    def _those(self, state: State) -> list[_Branch]:
        return [branch for branch in self._branches.values() if branch.state == state]

    @property
    def _needed(self) -> int:
        return self._rule.needed(len(self._branches))

    def _is_over(self) -> bool:
        if self._fatal() is not None:
            return True
        if self._rule.wait != "all" and len(self._arrived) >= self._needed:
            return True
        return self._too_few()

    def _fatal(self) -> str | None:
        """Returns the branch whose failure is that of the flow."""
        failed = self._those("failed")
        if self._rule.keeps_errors:
            failed = [branch for branch in failed if isinstance(branch.error, EndlessError)]
        return failed[0].name if failed else None

    def _too_few(self) -> bool:
        """True if the join can no longer be met."""
        lost = len(self._those("elsewhere"))
        if self._rule.wait == "all":
            return lost > 0
        return len(self._branches) - lost - len(self._those("failed")) < self._needed

    def _decision(self) -> JsonObject:
        """Returns how the fork ends. Raises the question that it waits for."""
        failed = {branch.name: told(branch.error) for branch in self._those("failed")}
        raises = self._fatal()
        if raises is None and not self._too_few():
            paused = self._those("paused")
            is_met = self._rule.wait != "all" and len(self._arrived) >= self._needed
            if paused and not is_met:
                question = paused[0].error
                assert isinstance(question, Interruption)
                raise question
        chosen = self._arrived if self._rule.wait == "all" else self._arrived[: self._needed]
        arrived = [name for name in self._branches if name in chosen]
        left = [branch for name, branch in self._branches.items() if name not in arrived]
        visits = {named(node): self._visits.get(id(node), 0) for branch in left for node in branch.region}
        return {
            "arrived": arrived,
            "failed": failed,
            "elsewhere": [branch.name for branch in self._those("elsewhere")],
            "given_up": [branch.name for branch in left if branch.state in ("running", "paused", "arrived")],
            "raises": raises,
            "visits": {name: count for name, count in visits.items() if count},
        }

    # --- again

    async def _repeat(self, decision: JsonObject) -> None:
        """Runs the branches again that count, from the record; no other is begun."""
        again = [self._branches[name] for name in decision["arrived"] if name in self._branches]
        if (failed := self._branches.get(decision["raises"] or "")) is not None:
            again.append(failed)
        tasks = [asyncio.create_task(self._one(branch)) for branch in again]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for branch in again:
            if branch.error is not None and branch is not failed:
                raise branch.error

    # --- together

    def _settle(self, decision: JsonObject) -> None:
        arrived: list[str] = decision["arrived"]
        # What given up branches have done since does not count.
        visits: dict[str, int] = {}
        for name, branch in self._branches.items():
            if name not in arrived:
                for node in branch.region:
                    visits[named(node)] = self._visits[id(node)] = decision["visits"].get(named(node), 0)
        results: JsonObject = {} if self._notes is None else self._notes.settle(decision, visits)
        if (name := decision["raises"]) is not None:
            error = self._branches[name].error
            raise error if error is not None else FlowError(decision["failed"][name]["message"])
        self._refuse_too_few(decision)
        for name in arrived:
            _merge(self._shared, self._before, self._branches[name].shared)
        if self._notes is not None:
            self._shared[f"{self._at}.branches"] = {**results, **dict.fromkeys(decision["failed"])}
        if decision["failed"] or self._notes is not None:
            self._shared[f"{self._at}.errors"] = decision["failed"]

    def _refuse_too_few(self, decision: JsonObject) -> None:
        elsewhere, failed = decision["elsewhere"], decision["failed"]
        if elsewhere and self._rule.wait == "all":
            raise FlowError(
                f"the branch {elsewhere[0]!r} ended without reaching {self._at!r}, which waits for all",
                hint=f"let every way of it lead to {self._at!r}, or wait for fewer: `join: any` or a number",
            )
        if self._rule.wait != "all" and len(decision["arrived"]) < self._needed:
            why = [f"{name}: {error['message']}" for name, error in failed.items()]
            why += [f"{name}: it ended elsewhere" for name in elsewhere]
            more = f"; and {len(why) - 5} more" if len(why) > 5 else ""
            raise FlowError(
                f"{self._at!r} waits for {self._needed} of {len(self._branches)} branches, and too few "
                f"reached it: {'; '.join(why[:5])}{more}",
                details={"failed": failed, "elsewhere": elsewhere},
            )


def _merge(shared: MutableMapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Takes over what one branch has changed."""
    for key, value in after.items():
        if key not in before or before[key] is not value:
            shared[key] = value
    for key in before:
        if key not in after:
            shared.pop(key, None)


def named(node: BaseNode) -> str:
    """Returns the name of a node in messages and records."""
    return node.id or type(node).__name__
