"""The nodes of one run as they stand, by its history and its flow: done, failed, at work, waiting, passed by.

The history holds the visits that have ended. What is at work now follows from them: the nodes to which the
last ones lead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from spindle.flows.definition import DEFAULT_ACTION

if TYPE_CHECKING:
    from spindle.domain.run import RunEvent, RunStatus
    from spindle.flows.definition import FlowDefinition, NodeDefinition
    from spindle.flows.trace import NodeEvent

NodeState = Literal["done", "failed", "running", "waiting", "skipped", "open"]
"""`skipped`: the run ended without it. `open`: it may come yet."""
ENDED: Final = frozenset({"done", "failed", "cancelled"})
_NUMBERS: Final = re.compile(r"(?<=[^/])(?::\d+|\[\d+\]|[~@]\d+)+(?=/|$)")


@dataclass(frozen=True, slots=True)
class Standing:
    """One node of the flow, over all of its visits."""

    state: NodeState
    visits: int = 0
    seconds: float = 0.0
    """The time that its visits took together."""
    failures: int = 0
    cached: bool = False
    message: str = ""
    """The message of its last error."""

    @property
    def words(self) -> str:
        """Its standing, for a person."""
        if self.state == "open":
            return "not yet"
        if self.state == "skipped":
            return "not needed"
        if self.state in ("running", "waiting"):
            return {"running": "at work", "waiting": "waits"}[self.state]
        said = f"{self.state} after {self.seconds:.2f} s"
        if self.visits > 1:
            said += f", {self.visits} visits" + (f", {self.failures} failed" if self.failures else "")
        said += ", from the cache" if self.cached else ""
        return f"{said}: {self.message[:200]}" if self.message and self.state == "failed" else said


def node_of(visit: str) -> str:
    """Returns the node of a visit, without the numbers of visits, items and attempts: `each[3]/look` is
    `each/look`."""
    return _NUMBERS.sub("", visit)


def standings(
    definition: FlowDefinition,
    events: Sequence[NodeEvent],
    status: RunStatus,
    history: Iterable[RunEvent] = (),
    start: str | None = None,
) -> dict[str, Standing]:
    """Returns the standing of each node of a flow, by its place: `outer/inner`. `history` has the steps,
    which are on record a little sooner than the visit that made them. `start`: where the run began, if not
    at the flow's beginning."""
    visits: dict[str, list[NodeEvent]] = {}
    for event in events:
        visits.setdefault(node_of(event.node), []).append(event)
    reading = _Reading(visits, status, _steps(history))
    reading.level(definition, "", start, is_at_work=status in ("running", "paused"))
    return reading.found


class _Reading:
    def __init__(
        self, visits: Mapping[str, Sequence[NodeEvent]], status: RunStatus, steps: Counter[str]
    ) -> None:
        self.found: dict[str, Standing] = {}
        self._visits = visits
        self._now: NodeState = "waiting" if status == "paused" else "running"
        self._never: NodeState = "skipped" if status in ENDED else "open"
        self._steps = steps

    def level(self, flow: FlowDefinition, prefix: str, start: str | None, *, is_at_work: bool) -> None:
        """Reads the nodes of one flow, and of the flows in it."""
        places = {node.id: f"{prefix}{node.id}" for node in flow.nodes}
        for id, place in places.items():
            self.found[place] = self._ended(self._visits.get(place, ()), id)
        at_work = self._at_work(flow, places, start) if is_at_work else set[str]()
        for id in at_work:
            before = self.found[places[id]]
            self.found[places[id]] = Standing(self._now, before.visits, before.seconds, before.failures)
        for node in flow.nodes:
            if node.flow is not None:
                self.level(node.flow, f"{places[node.id]}/", None, is_at_work=node.id in at_work)

    def _ended(self, visits: Sequence[NodeEvent], id: str) -> Standing:
        if not visits:
            return Standing(self._never)
        failures = [visit for visit in visits if visit.error is not None]
        error = (failures[-1].error or {}) if failures else {}
        return Standing(
            "failed" if visits[-1].error is not None else "done",
            len(visits),
            sum(visit.duration for visit in visits),
            len(failures),
            all(visit.cached for visit in visits),
            str(error.get("message", "")),
        )

    def _at_work(self, flow: FlowDefinition, places: Mapping[str, str], start: str | None) -> set[str]:
        nodes = {node.id: node for node in flow.nodes}
        last = {id: visits[-1] for id, place in places.items() if (visits := self._visits.get(place))}
        if not last:
            first = start if start in nodes else flow.start_id if flow.nodes else None
            found = {first} if first in nodes else set[str]()
        else:
            found = {
                target
                for id, event in last.items()
                for target in _after(flow, id, event)
                if target in nodes and not _was_visited_since(last.get(target), event)
            }
        found = {id for one in found for id in self._further(flow, nodes, places, one)}
        joins = {id for id in found if nodes[id].join is not None}
        return found - joins or found  # one where branches meet waits for those that are still at work

    def _further(
        self, flow: FlowDefinition, nodes: Mapping[str, NodeDefinition], places: Mapping[str, str], id: str
    ) -> set[str]:
        """Returns the node itself, or those after it if its call is on record and only its visit is not."""
        tool = nodes[id].tool
        known = sum(
            len(self._visits.get(places[other], ())) for other, node in nodes.items() if node.tool == tool
        )
        if tool is None or nodes[id].batch is not None or self._steps[tool] <= known:
            return {id}
        ways = {edge.way for edge in flow.edges if edge.source == id}
        if ways - {DEFAULT_ACTION}:
            return {id}
        self.found[places[id]] = Standing("done", 1)
        return {edge.target for edge in flow.edges if edge.source == id and edge.target in nodes}


def _after(flow: FlowDefinition, id: str, event: NodeEvent) -> list[str]:
    """Returns the nodes to which a visit leads."""
    if event.error is not None and event.action is None:
        return []
    taken = event.action or DEFAULT_ACTION
    edges = [edge for edge in flow.edges if edge.source == id]
    return [edge.target for edge in edges if taken in (edge.way, edge.action if edge.when is None else "")]


def _was_visited_since(visit: NodeEvent | None, event: NodeEvent) -> bool:
    return visit is not None and visit.started_at + visit.duration >= event.started_at + event.duration


def _steps(history: Iterable[RunEvent]) -> Counter[str]:
    """Counts the calls of a run's own flow that are on record, by tool."""
    paths = [event.path for event in history if event.kind == "step"]
    own = min((path.count("/") for path in paths), default=0)
    last = (path.rpartition("/")[2] for path in paths if path.count("/") == own)
    return Counter(part.rsplit(":", 2)[0] for part in last)
