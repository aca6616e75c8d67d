"""The keys of the shared store that exist when a node begins: on some path to it, and on every path.

Writers and keys are bits of integers, so that a flow of thousands of nodes is analysed in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spindle.domain.json_schema import JsonObject
from spindle.domain.records import quick_dataclass
from spindle.flows.check.graph import Graph
from spindle.flows.check.shapes import Shape
from spindle.flows.definition import Edge, FlowDefinition, Join
from spindle.flows.meeting import Meeting, TangledError

ERROR_SCHEMA: JsonObject = {"type": "object"}

Here = str
"""The id of a node, below those of the flows that contain it: `outer/inner`."""


@quick_dataclass(frozen=True, slots=True)
class State:
    """`may`: the writers that can have run; `must`: the keys that exist whatever path was taken."""

    may: int = 0
    must: int = 0


@quick_dataclass(frozen=True, slots=True)
class Writer:
    """One node that writes a shared key, either when it succeeds or when it fails."""

    node: Here
    id: str
    bit: int
    schema: JsonObject
    has_failed: bool = False
    """True if this is what the node leaves when it fails."""
    is_declared: bool = True
    """True if the output's schema has this key, so that other nodes may rely on it."""


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """Several edges of one node for one action, and where their branches meet."""

    source: str
    action: str
    targets: tuple[str, ...]
    meeting: Meeting[str]
    rule: Join

    def results(self, each: JsonObject) -> JsonObject:
        """Returns the schema of an object by branch."""
        return {
            "type": "object",
            "properties": dict.fromkeys(self.targets, each),
            "additionalProperties": False,
        }


@dataclass(slots=True)
class Level:
    """One flow, standing alone or inside another."""

    definition: FlowDefinition
    graph: Graph
    shapes: Mapping[str, Shape]
    prefix: str = ""
    inner: dict[str, Level] = field(default_factory=dict[str, "Level"])
    ends: Callable[[str], bool] = lambda _: True
    forks: list[BranchPoint] = field(default_factory=list["BranchPoint"])
    tangled: list[TangledError] = field(default_factory=list[TangledError])
    """The mistakes of forks whose branches do not come together."""

    def branches_at(self, id: str) -> dict[str, str]:
        """Returns, by node, the branch that it belongs to, of those that meet at a node. Branches of which it
        is not certain that they arrive count as one."""
        return {
            node: target if fork.rule.wait == "all" and not fork.rule.keeps_errors else f"{fork.source}."
            for fork in self.forks
            if fork.meeting.join == id
            for target, region in zip(fork.targets, fork.meeting.regions, strict=True)
            for node in region
        }

    @property
    def each(self) -> frozenset[str]:
        """The inline flows that are done for each item of a list."""
        return frozenset(node.id for node in self.definition.nodes if node.flow and node.batch)


class Availability:
    """The keys that each node of a flow can read. `states` is by node; `ends`, by the prefix of each
    level, is the state when its flow is done."""

    def __init__(self, level: Level) -> None:
        self.writers: dict[str, list[Writer]] = {}
        """By shared key."""
        self.kinds: dict[str, list[tuple[JsonObject, int]]] = {}
        """By shared key, the schemas of what is written there, each with the bits of its writers."""
        self.open_writers = 0
        self.states: dict[Here, State] = {}
        self.after: dict[Here, State] = {}
        """By node, the state when it is done."""
        self.ends: dict[str, State] = {}
        self._done: dict[Here, State] = {}
        self._failed: dict[Here, State] = {}
        self._joined: dict[Here, State] = {}
        """By node at which branches meet, what there is of them."""
        self._bits = 0
        self._keys: dict[str, int] = {}
        self._number(level)
        self._walk(level, State())

    def is_certain(self, key: str, state: State) -> bool:
        return bool(state.must & self._keys.get(key, 0))

    # --- who writes what

    def _number(self, level: Level) -> None:
        for id in level.graph.ids:
            node, shape = level.prefix + id, level.shapes[id]
            gives = {**shape.gives, id: shape.whole}
            self._done[node] = self._writes(node, id, gives, undeclared=shape.fallback)
            left = {f"{id}.error": ERROR_SCHEMA, "error": ERROR_SCHEMA}
            self._failed[node] = self._writes(node, id, left if shape.failures else {}, has_failed=True)
            if shape.is_open:
                self.open_writers |= self._done[node].may
            if id in level.inner:
                self._number(level.inner[id])
        for fork in level.forks:
            at = fork.meeting.join or fork.source
            whole = {f"{at}.branches": fork.results({}), f"{at}.errors": fork.results(ERROR_SCHEMA)}
            self._joined[level.prefix + at] = self._writes(level.prefix + at, at, whole)

    def _writes(
        self,
        node: Here,
        id: str,
        gives: dict[str, JsonObject],
        *,
        has_failed: bool = False,
        undeclared: str | None = None,
    ) -> State:
        bit = 1 << self._bits
        self._bits += 1
        keys = 0
        for key, schema in gives.items():
            writer = Writer(node, id, bit, schema, has_failed, key != undeclared)
            known = self._keys.get(key)
            if known is None:  # as nearly all are: they are below the node's own id
                self.writers[key], self.kinds[key] = [writer], [(schema, bit)]
                known = self._keys[key] = 1 << len(self._keys)
            else:
                self.writers[key].append(writer)
                self._note_kind(self.kinds[key], schema, bit)
            keys |= known
        return State(bit, keys)

    def _note_kind(self, kinds: list[tuple[JsonObject, int]], schema: JsonObject, bit: int) -> None:
        for index, (known, bits) in enumerate(kinds):
            if known is schema or known == schema:
                kinds[index] = (known, bits | bit)
                return
        kinds.append((schema, bit))

    # --- what is there when

    def _walk(self, level: Level, entry: State) -> State:
        """Repeats until nothing changes any more. Returns the state when the flow is done."""
        graph, each, out = level.graph, level.each, dict[str, State]()
        has_changed, has_loops = graph.start is not None, graph.has_loops
        while has_changed:
            has_changed = False
            for id in graph.order:
                state = self._entering(level, id, entry, out)
                node = level.prefix + id
                if id in out and self.states.get(node) == state:
                    continue
                self.states[node] = state
                before = self._walk(level.inner[id], state) if id in level.inner else state
                if id in each:
                    before = state  # what its nodes write for one item, nobody else sees
                done = self._done[node]
                out[id] = self.after[node] = State(before.may | done.may, before.must | done.must)
                has_changed = has_loops  # without, each node comes after all that lead to it
        last = [out[id] for id in graph.order if level.ends(id)]
        end = _joined(last) if last else entry
        self.ends[level.prefix] = end
        return end

    def leaving(self, node: Here, *, has_failed: bool) -> State:
        """Returns the state when the node is left, done or failed."""
        if not has_failed:
            return self.after[node]
        before, left = self.states[node], self._failed[node]
        return State(before.may | left.may, before.must | left.must)

    def _taking(self, level: Level, edge: Edge) -> State:
        """Returns the state when this edge is taken."""
        has_failed = edge.action in level.shapes[edge.source].failures
        return self.leaving(level.prefix + edge.source, has_failed=has_failed)

    def _entering(self, level: Level, id: str, entry: State, out: dict[str, State]) -> State:
        edges, is_start = level.graph.incoming[id], id == level.graph.start
        if len(edges) == 1 and not is_start and not level.forks and edges[0].source in out:
            return self._taking(level, edges[0])  # one way leads to it, as to most nodes
        arriving = {"": [entry]} if is_start else dict[str, list[State]]()
        branch_of = level.branches_at(id)
        for edge in edges:
            if edge.source in out:
                branch = branch_of.get(edge.source, "")
                arriving.setdefault(branch, []).append(self._taking(level, edge))
        if not arriving:
            return entry
        aside = arriving.pop("", None)
        found = _together([_joined(states) for states in arriving.values()])
        if (more := self._joined.get(level.prefix + id)) is not None and arriving:
            found = _together([found, more])
        return found if aside is None else _joined([*aside, found]) if arriving else _joined(aside)


def _together(states: list[State]) -> State:
    """Returns the state where all of these ways have been taken."""
    may = must = 0
    for state in states:
        may |= state.may
        must |= state.must
    return State(may, must)


def _joined(states: list[State]) -> State:
    may, must = 0, states[0].must
    for state in states:
        may |= state.may
        must &= state.must
    return State(may, must)
