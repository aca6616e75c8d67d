"""Follows a run node by node: keeps inputs and outputs in its history, and reports them while it runs."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean_json
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.records import quick_dataclass
from spindle.flows.build import DefinedFlow
from spindle.flows.content_values import CONTENT
from spindle.flows.definition import CacheRule
from spindle.flows.failures import told
from spindle.flows.flow import Flow
from spindle.flows.flow_node import FlowNode
from spindle.flows.node_cache import is_flow_safe
from spindle.flows.run_context import RunContext
from spindle.flows.visits import Report, kept
from spindle.flows.workspace_node import WorkspaceNode

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.domain.doubt import InDoubt
    from spindle.flows.batch_items import BatchItems
    from spindle.flows.node import BaseNode
    from spindle.flows.node_cache import PureNodes

ENDS = ("arrived", "failed", "elsewhere", "given_up")
"""The ways in which a branch ends, as the note of its fork has them."""


@quick_dataclass(frozen=True, slots=True)
class NodeEvent:
    """One visit of a node: sent when it begins, and again when it has ended."""

    node: str
    """Its id, below those of the flows that contain it: `outer/inner`."""
    visit: int
    kind: Literal["started", "ended"]
    started_at: float
    tool: str | None = None
    action: str | None = None
    duration: float = 0.0
    attempts: int = 0
    """The number of calls made; 0 if the run had made them before it was resumed."""
    cached: bool = False
    inputs: Any = None
    output: Any = None
    wrote: JsonObject | None = None
    """The shared keys that a node written by hand has set."""
    usage: JsonObject | None = None
    """The use that a model or an agent has made."""
    error: JsonObject | None = None
    items: JsonObject | None = None
    """The end of the items of a batch: `total`, `failed`, `not_begun`, `slowest`, `first_failures`."""
    was_known: bool = False
    """True if it had ended before the run was resumed."""
    branch: str | None = None
    """The first node of the branch in which it ran, below those of the branches around it: `a/b`."""

    is_masked: bool = False
    """True if a secret is masked in what it left for other nodes."""

    def without(self, secrets: frozenset[str]) -> NodeEvent:
        """Returns the event with these secrets masked."""
        if not secrets:
            return self
        left = self.output, self.wrote, self.error
        inputs, items, output, wrote, error = clean_json([self.inputs, self.items, *left], secrets)
        return replace(
            self, inputs=inputs, items=items, output=output, wrote=wrote, error=error,
            is_masked=[*left] != [output, wrote, error],
        )  # fmt: skip

    def to_dict(self) -> JsonObject:
        shown = {
            name: value
            for name, value in zip(_WRITTEN, _values_written(self), strict=True)
            if value is not None
        }
        if self.is_masked:
            shown["is_masked"] = True
        return shown

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NodeEvent:
        return cls(kind="ended", **data)


_WRITTEN = ("node", "visit", "started_at", "duration", "tool", "action", "attempts", "cached", "inputs",
            "output", "wrote", "usage", "error", "items", "branch")  # fmt: skip
_values_written: Callable[[NodeEvent], tuple[Any, ...]] = attrgetter(*_WRITTEN)

Observe = Callable[[NodeEvent], None]

observer: ContextVar[Observe | None] = ContextVar("spindle_flow_observer", default=None)
"""Is told of the nodes of a run that is executed in this context."""


class Recording:
    """Records one run of one flow, and of the flows in it."""

    def __init__(
        self,
        flow: Flow,
        host: Host,
        pure: PureNodes | None = None,
        *,
        use_cache: bool = True,
        prefix: str = "",
        rule: CacheRule | None = None,
        note: Callable[[str, JsonObject], bool] | None = None,
        branch: str | None = None,
    ) -> None:
        """`rule` is the cache's rule of the flow around it; `note` takes the notes, by default the host;
        `branch` is the branch that the flow is in."""
        self._host = host
        self._keep = note or host.note
        self._pure = pure
        self._use_cache = use_cache
        self.prefix = prefix
        self._ids = frozenset(node.id for node in flow.nodes() if node.id is not None)
        self._rule: CacheRule | None = flow.cache or rule
        self._visits: Counter[str] = Counter()
        self._reports: dict[int, Report] = {}
        self._branch = branch
        self._current: tuple[str, int, float] | None = None
        """The visit that has begun and not ended: its node, its number, and when it began."""
        self.output: Any = None
        """The output of the last node."""
        self.content: list[JsonObject] = []
        """All that its tool returned, where that is more than text."""
        self.failed: str | None = None
        """The innermost node at which the run ended with an error."""

    # --- what a flow calls

    async def visit(self, node: BaseNode, shared: Any, running: RunContext) -> Any:
        assert node.id is not None
        visit = self._visits[node.id] = self._visits[node.id] + 1
        name, started_at = f"{self.prefix}{node.id}", time.time()
        self._current = name, visit, started_at
        observe = observer.get()
        if observe is not None:
            observe(NodeEvent(name, visit, "started", started_at, branch=self._branch))
        report = self.equip(node, visit)
        before = dict(shared) if is_object(shared) and not isinstance(node, WorkspaceNode) else None
        began = time.perf_counter()
        action: Any = None
        problem: JsonObject | None = None
        paused = False
        inner = self._within(node, visit)
        try:
            within = running if inner is None else RunContext(notes=inner, host=running.host)
            action = await node._run(shared, within)  # pyright: ignore[reportPrivateUsage] - a node's own
            if inner is not None:
                report.output = inner.leave_output(node, shared)
            action = node.edge_taken(action, shared)
            return action
        except Exception as error:
            problem = told(error)
            self.failed = (inner.failed if inner is not None else None) or name
            raise
        except BaseException:
            paused = True  # it waits for a person, or was given up: it will be visited again
            raise
        finally:
            if not paused:
                self._current = None
                self.output = report.output
                self.content = (report.wrote or {}).get(f"{node.id}.{CONTENT}", [])
                ended = NodeEvent(
                    name, visit, "ended", started_at, report.tool,
                    action if isinstance(action, str) or action is None else repr(action),
                    time.perf_counter() - began, report.attempts, report.cached, kept(report.inputs),
                    kept(report.output), kept(report.wrote) or written(before, shared), report.usage,
                    report.error or problem,
                    report.batch.told() if report.batch is not None else None, branch=self._branch,
                )  # fmt: skip
                if report.batch is not None:
                    self._note_items(node, ended, report.batch)
                self._note(ended, observe)
            self._reports.pop(id(node), None)

    async def remember(self, node: BaseNode, given: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        from spindle.flows.context import entered

        report = self._reports.get(id(node))

        async def made(host: Host) -> Any:
            with entered(host, node.id or ""):
                return await make()

        in_doubt: InDoubt = "repeat" if is_flow_safe(type(node)) else getattr(node, "in_doubt", "ask")
        key = [self.prefix, node.id, node.params, given]
        pure = self._pure.key(node, given, self._host.principal) if self._pure and self._rule else None
        if pure is not None and self._pure is not None and self._rule is not None:
            is_loop = self._visits[node.id or ""] > 1
            value, was_kept = await self._pure.value(
                pure,
                self._rule,
                lambda: self._host.remember(f"node {node.id}", key, made, in_doubt=in_doubt),
                use_cache=self._use_cache and (not is_loop or self._rule.loops),
            )
            if report is not None:
                report.cached = was_kept
        else:
            value = await self._host.remember(f"node {node.id}", key, made, in_doubt=in_doubt)
        if report is not None:
            report.inputs, report.output, report.attempts = given, value, 1
        return value

    def fork(self, place: str, at: str) -> ForkRecording:
        return ForkRecording(self, place, at)

    # --- for its branches

    def beside(self, host: Host, name: str) -> Recording:
        """Returns the recording of one branch, with an output of its own. Visits are counted together."""
        made = copy.copy(self)
        made._host = host
        made._branch = name if self._branch is None else f"{self._branch}/{name}"
        made.output = made.failed = made._current = None
        return made

    def settle(self, counts: Mapping[str, int], fork: NodeEvent, given_up: Iterable[Recording]) -> None:
        """Notes the end of a fork, and the visits that were given up; sets the numbers of visits of nodes
        whose branches do not count."""
        observe = observer.get()
        reason: JsonObject = {"category": "cancelled", "message": f"given up: {fork.node} has enough"}
        for branch in given_up:
            if branch._current is not None:
                node, visit, started_at = branch._current
                duration = time.time() - started_at
                ended = NodeEvent(
                    node, visit, "ended", started_at, duration=duration, error=reason, branch=branch._branch
                )
                self._note(ended, observe)
        self._visits.update({name: count - self._visits[name] for name, count in counts.items()})
        self._visits[fork.node] += 1
        ended = replace(
            fork, node=f"{self.prefix}{fork.node}", visit=self._visits[fork.node], branch=self._branch
        )
        self._note(ended, observe)

    # --- helpers of its own

    def equip(self, node: BaseNode, visit: int) -> Report:
        """Gives a node what it needs for one visit."""
        if not isinstance(node, WorkspaceNode):
            report = self._reports[id(node)] = Report()
            return report
        node.host, node.visit, node.ids = self._host, visit, self._ids
        node.place = f"{self.prefix}{node.id}"
        node.report = Report()
        rule = node.definition.cache
        if rule is None or rule is True:
            rule = self._rule or (CacheRule() if rule else None)
        node.cache, node.use_cache = rule or None, self._use_cache
        if isinstance(node, FlowNode):
            node.within = self._inside
        return node.report

    def _inside(self, node: WorkspaceNode, flow: Flow, host: Host, suffix: str) -> Recording:
        """Returns the recording of one attempt of an inline flow; `suffix` says which item and attempt."""
        number = f":{node.visit}" if node.visit > 1 else ""
        return Recording(
            flow, host, self._pure, use_cache=self._use_cache and node.definition.cache is not False,
            prefix=f"{self.prefix}{node.id}{number}{suffix}/", rule=node.cache, note=self._keep,
            branch=self._branch,
        )  # fmt: skip

    def _within(self, node: BaseNode, visit: int) -> Recording | None:
        if not isinstance(node, Flow):
            return None
        number = f":{visit}" if visit > 1 else ""
        return Recording(
            node, self._host, self._pure, use_cache=self._use_cache,
            prefix=f"{self.prefix}{node.id}{number}/", rule=self._rule, note=self._keep,
            branch=self._branch,
        )  # fmt: skip

    def leave_output(self, flow: BaseNode, shared: Any) -> Any:
        """Returns the output of an inner flow; one built from a definition also leaves it under its id."""
        if isinstance(flow, DefinedFlow) and flow.id is not None:
            shared[flow.id] = self.output
        return self.output

    def _note_items(self, node: BaseNode, event: NodeEvent, items: BatchItems) -> None:
        """Notes the items of a batch one by one, where the note of the node does not hold them. Those of a
        flow have notes of their nodes."""
        is_reduced = isinstance(node, WorkspaceNode) and node.definition.batch is not None and (
            node.definition.batch.reduce is not None
        )  # fmt: skip
        if (
            isinstance(node, FlowNode)
            or items.parts is not None
            or not (is_reduced or _is_left_out(event.inputs) or _is_left_out(event.output))
        ):
            return
        for index, given, output, error, duration in items.each():
            one = NodeEvent(
                f"{event.node}[{index}]", event.visit, "ended", event.started_at, event.tool,
                duration=duration, inputs=kept(given), output=kept(output), error=error, branch=event.branch,
                attempts=1,
            )  # fmt: skip
            self._note(one, None)

    def _note(self, event: NodeEvent, observe: Observe | None) -> None:
        event = event.without(with_known(frozenset()))
        is_new = self._keep(f"{event.node}:{event.visit}", event.to_dict())
        if observe is not None:
            observe(event if is_new else replace(event, was_known=True))


class ForkRecording:
    """Records the branches of one fork, each at a place of its own in the run."""

    def __init__(self, recording: Recording, place: str, at: str) -> None:
        self._recording = recording
        self._at = at
        self._host = recording._host.branch(place)  # pyright: ignore[reportPrivateUsage] - of this module
        self._hosts: dict[str, Host] = {}
        self._branches: dict[str, Recording] = {}
        self._began = time.time()

    def decided(self) -> JsonObject | None:
        return self._host.recall("joined", self._at)

    async def decide(self, decision: JsonObject) -> None:
        async def made(_: Host) -> JsonObject:
            return decision

        await self._host.remember("joined", self._at, made)
        for name in decision["given_up"]:
            self._hosts[name].give_up()

    def branch(self, name: str) -> Recording:
        host = self._hosts[name] = self._host.branch(name)
        made = self._branches[name] = self._recording.beside(host, name)
        return made

    def settle(self, decision: JsonObject, visits: Mapping[str, int]) -> JsonObject:
        for name in decision["given_up"]:
            self._hosts[name].give_up()
        ended = NodeEvent(
            f"{self._at}.branches", 0, "ended", self._began, duration=time.time() - self._began,
            output={key: decision[key] for key in ENDS if decision[key]},
        )  # fmt: skip
        given_up = [self._branches[name] for name in decision["given_up"]]
        self._recording.settle(visits, ended, given_up)
        if (raises := decision["raises"]) is not None:
            self._recording.failed = self._branches[raises].failed
        outputs: JsonObject = {name: self._branches[name].output for name in decision["arrived"]}
        self._recording.output = outputs
        return outputs


def _is_left_out(value: Any) -> bool:
    return is_object(value) and "$left_out" in value


def written(before: Mapping[str, Any] | None, shared: Any) -> JsonObject | None:
    """Returns the shared keys that were added or changed."""
    if before is None or not is_object(shared):
        return None
    changed = {key: value for key, value in shared.items() if key not in before or before[key] is not value}
    return kept(changed) if changed else None
