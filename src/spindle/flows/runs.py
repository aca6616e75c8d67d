"""Flows as runs: started, gone on with elsewhere, looked at afterwards, and made again from a node."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.validate import Validation
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import FlowError, NotFoundError
from spindle.flows.build import DefinedFlow, build, definition_of, input_schema, name_nodes
from spindle.flows.definition import FlowDefinition
from spindle.flows.execution import execute, starting_at
from spindle.flows.interface import natural_key
from spindle.flows.node_cache import PureNodes
from spindle.flows.problems import NOWHERE
from spindle.flows.shared import write_output
from spindle.flows.tool_node import WorkspaceNode
from spindle.flows.trace import NodeEvent, Observe, observer

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.host import CallHost
    from spindle.domain.call import Result
    from spindle.domain.run import Run
    from spindle.flows.flow import Flow
    from spindle.ports.store import RunStore
    from spindle.runs.outcomes import Outcome
    from spindle.runs.runner import Runner

KIND = "flow"
NAMED_NODES = 8
LOOKED_AT = 20
"""Runs among which one is looked for that can be made again from a node."""


class FlowWork:
    """What a run of a flow does, whenever it is executed."""

    def __init__(self, pure: PureNodes, known: Mapping[str, Flow]) -> None:
        self._pure = pure
        self._known = known

    async def __call__(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        flow = copy.copy(self._flow(given))
        flow.params = {**flow.params, **given["params"]}
        return await execute(
            flow, dict(given["shared"]), host, self._pure,
            use_cache=options.use_cache, start=given["start"], only=given["only"],
        )  # fmt: skip

    def _flow(self, given: JsonObject) -> Flow:
        from spindle.flows.text.document import from_document

        if given["definition"] is not None:
            return build(from_document(given["definition"], NOWHERE, ""))
        known = self._known.get(given["flow"])
        if known is None:
            raise FlowError(
                f"the run is of the flow {given['flow']!r}, which is written in Python and not here",
                hint="give it to spindle.open(flows=[…]) in the program that goes on with the run",
            )
        return known


class FlowRuns:
    """Flows of a workspace, run and looked at."""

    def __init__(self, runner: Runner, store: RunStore, sealer: Sealer, known: dict[str, Flow]) -> None:
        self._runner = runner
        self._store = store
        self._sealer = sealer
        self._known = known
        self._validation = Validation()

    async def run(
        self,
        flow: Flow | FlowDefinition,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        params: Mapping[str, Any] | None = None,
        observe: Observe | None = None,
        start: str | None = None,
        only: bool = False,
        reuse: str | None = None,
        id: str | None = None,
    ) -> Outcome:
        made = build(flow) if isinstance(flow, FlowDefinition) else flow
        given = dict(inputs or {})
        if start is None:
            self._check_inputs(made, given)
        else:
            starting_at(made, start)
        shared = given if reuse is None else {**await self.left_by(reuse, made, start), **given}
        kept: JsonObject = {
            "flow": made.name,
            "definition": self._document(made),
            "inputs": given,
            "shared": shared,
            "params": dict(params or {}),
            "start": start,
            "only": only,
        }
        token = observer.set(observe)
        try:
            return await self._runner.start(KIND, name_of(made), kept, options, id=id)
        finally:
            observer.reset(token)

    def _document(self, flow: Flow) -> JsonObject | None:
        from spindle.flows.text.writing import to_document

        name_nodes(flow)
        if isinstance(flow, DefinedFlow) or all(isinstance(node, WorkspaceNode) for node in flow.nodes()):
            return to_document(definition_of(flow))
        if not flow.name:
            raise FlowError(
                "a flow with nodes written in Python needs a name to be run here",
                hint='Flow(start, name="…"): a run that pauses is gone on with by it',
            )
        self._known[flow.name] = flow
        return None

    def _check_inputs(self, flow: Flow, given: JsonObject) -> None:
        spec = ToolSpec(flow.name or "flow", input_schema=input_schema(flow.inputs))
        self._validation.check_arguments(
            Tool(spec.remote_name, "flows", "flows", spec, spec.fingerprint), given
        )

    # --- afterwards

    async def runs(self, *, limit: int = 50, flow: str | None = None) -> list[Run]:
        """Of flows, the newest first."""
        return await self._store.runs(limit=limit, kind=KIND, name=flow)

    async def trace(self, run: str) -> tuple[Run, JsonObject, list[NodeEvent]]:
        """A run, what it was given, and its nodes in the order in which they ended. Of a flow, its own alone:
        nodes of flows that it called as tools may have the same ids."""
        found = await self._store.run(run) if run else None
        if found is None:
            raise NotFoundError(f"there is no run {run!r}", hint="`spindle runs` lists them")
        events: list[NodeEvent] = []
        given: JsonObject = {}
        history = await self._store.history(found.id)
        # The place of the run itself is the beginning of all others.
        places = (event.path.partition("#")[0] for event in history if event.kind == "note")
        own = f"{min(places, key=len, default='')}#" if found.kind == KIND else ""
        for event in history:
            if event.sealed is None:
                continue
            if event.kind == "note" and event.path.startswith(own):
                data = self._sealer.open(event.sealed, f"run:{found.id}:{event.path}")
                if "node" in data:  # others note other things
                    events.append(NodeEvent.from_dict(data))
            elif event.kind == "started":
                given = self._sealer.open(event.sealed, f"run:{found.id}:started")
        return found, given, events

    async def came_to(self, node: str, flow: Flow) -> str | None:
        """The newest run of the flow that came to this node; else the newest of all."""
        name_nodes(flow)
        before = {one.id for one in flow.nodes() if any(s.id == node for s in one.successors.values())}
        found = await self.runs(limit=LOOKED_AT, flow=name_of(flow))
        for run in found:
            _, _, events = await self.trace(run.id)
            if any(event.node == node for event in events) or (events and events[-1].node in before):
                return run.id
        return found[0].id if found else None

    async def left_by(self, run: str, flow: Flow, before: str | None) -> JsonObject:
        """What the shared store of a run held when it first came to a node."""
        found, given, events = await self.trace(run)
        if found.kind != KIND:
            raise FlowError(f"run {found.id} is not one of a flow")
        name_nodes(flow)
        nodes = {node.id: node for node in flow.nodes()}
        shared: JsonObject = dict(given.get("shared") or {})
        for event in events:
            if event.node == before:
                break
            _restore(shared, event, nodes)
        return shared


def name_of(flow: Flow) -> str:
    """What a run of the flow is called: one that was written in a line has no name, but nodes."""
    if flow.name:
        return flow.name
    nodes = [node.id or "" for node in itertools.islice(flow.nodes(), NAMED_NODES + 1)]
    return " >> ".join([*nodes[:NAMED_NODES], "…"] if len(nodes) > NAMED_NODES else nodes) or "flow"


def _restore(shared: JsonObject, event: NodeEvent, nodes: Mapping[str | None, Any]) -> None:
    if event.wrote is not None:
        shared.update(event.wrote)
    node = nodes.get(event.node)
    if not isinstance(node, WorkspaceNode):
        return
    if event.error is not None:
        shared[event.node], shared["error"] = {"error": event.error}, event.error
    elif is_object(event.output) and "$left_out" in event.output:
        raise FlowError(
            f"what node {event.node!r} gave was too large to be kept ({event.output['$left_out']})",
            hint="run the flow from its start",
        )
    else:
        natural = natural_key(node.definition.tool or event.node)
        ids = {id for id in nodes if id is not None}
        write_output(shared, event.node, event.output, natural, node.definition.outputs, ids)
