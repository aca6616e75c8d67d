"""Turns a flow as data into a flow that runs, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import FlowError
from spindle.flows.definition import (
    Approval,
    Batch,
    CacheRule,
    Edge,
    FlowDefinition,
    FlowLoop,
    Join,
    NodeDefinition,
    Retry,
)
from spindle.flows.flow import Flow
from spindle.flows.flow_node import FlowNode
from spindle.flows.model_node import AgentNode, ModelNode
from spindle.flows.node import BaseNode
from spindle.flows.problems import NOWHERE, Positions
from spindle.flows.signature import output_of
from spindle.flows.tool_node import Ask, ToolNode
from spindle.flows.transform import Transform
from spindle.flows.wait_node import WaitNode
from spindle.flows.workspace_node import WorkspaceNode


class DefinedFlow(Flow):
    """A flow built from a definition. `positions` and `place` say where its parts stand in their text."""

    def __init__(
        self,
        definition: FlowDefinition,
        id: str | None = None,
        positions: Positions = NOWHERE,
        place: str = "",
    ) -> None:
        super().__init__(
            on_unknown=definition.on_unknown,
            max_visits=definition.max_visits,
            name=definition.name,
            description=definition.description,
            inputs=definition.inputs,
            outputs=definition.outputs,
            cache=definition.cache,
            id=id,
        )
        self.definition = definition
        self.params = dict(definition.params)
        self.positions = positions
        self.place = place
        self.passed: object = None
        """The tools and given names with which it was last found to be right (`check/before.py`)."""

    @cached_property
    def document(self) -> JsonObject:
        """Its definition as a document, for the records of its runs."""
        from spindle.flows.text.writing import to_document

        return to_document(self.definition)

    @cached_property
    def json(self) -> bytes:
        """Its definition as JSON."""
        return to_json(self.definition, default=repr)

    def mentions(self, word: str) -> bool:
        return word.encode() in self.json or (
            self.params != self.definition.params and word in repr(self.params)
        )


def build(
    definition: FlowDefinition, id: str | None = None, positions: Positions = NOWHERE, place: str = ""
) -> DefinedFlow:
    """Returns the flow of a definition, with its nodes. Raises FlowError if the definition is
    inconsistent."""
    flow = DefinedFlow(definition, id, positions, place)
    nodes: dict[str, BaseNode] = {}
    for node in definition.nodes:
        if node.id in nodes:
            raise FlowError(f"two nodes have the id {node.id!r}", hint="give each node an id of its own")
        nodes[node.id] = _node(node)
    following: dict[tuple[str, str, str | None], list[BaseNode]] = {}
    for edge in definition.edges:
        for end in (edge.source, edge.target):
            if end not in nodes:
                raise FlowError(f"an edge names {end!r}, but there is no such node")
        targets = following.setdefault((edge.source, edge.action, edge.when), [])
        if nodes[edge.target] in targets:
            raise FlowError(f"two edges lead from {edge.source!r} to {edge.target!r} for {edge.way!r}")
        targets.append(nodes[edge.target])
    for (source, action, when), targets in following.items():
        nodes[source].fork(targets, action, when)
    if not nodes:
        raise FlowError("the flow has no nodes")
    if definition.start_id not in nodes:
        raise FlowError(f"the flow should start at {definition.start_id!r}, but there is no such node")
    flow.start_node = nodes[definition.start_id]
    return flow


_KINDS: Mapping[str, type[WorkspaceNode]] = {
    "tool": ToolNode,
    "ask": Ask,
    "model": ModelNode,
    "agent": AgentNode,
    "wait": WaitNode,
    "transform": Transform,
}


def _node(node: NodeDefinition) -> BaseNode:
    if node.flow is not None:
        return FlowNode(node, build(node.flow, node.id))
    return _KINDS[node.kinds[0]].of(node)


def inline(
    flow: Flow | FlowDefinition,
    *,
    id: str,
    params: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    batch: Batch | None = None,
    loop: FlowLoop | None = None,
    cache: CacheRule | bool | None = None,
    fail_when: str | None = None,
    approval: Approval | None = None,
    join: Join | None = None,
    description: str = "",
) -> FlowNode:
    """Returns a flow of tools and questions as a node of another: with inputs, retries, a time limit, done
    for each item of a list, or in a loop. Raises FlowError if a part of it is written in Python."""
    definition = definition_of(flow) if isinstance(flow, Flow) else flow
    return FlowNode(
        NodeDefinition(
            id=id, flow=definition, description=description, params=dict(params or {}),
            inputs=dict(inputs or {}), outputs=dict(outputs or {}), retry=retry or Retry(), timeout=timeout,
            batch=batch, loop=loop, cache=cache, fail_when=fail_when, approval=approval, join=join,
        ),
        build(definition, id),
    )  # fmt: skip


_NODES = (*_KINDS.values(), FlowNode)
_FLOWS = (Flow, DefinedFlow)


def _in_python(what: str) -> FlowError:
    return FlowError(
        f"{what} written in Python, which a file cannot hold",
        hint="offer it as a tool (a file in flows/, or @tool), and use a tool node",
    )


def definition_of(flow: Flow) -> FlowDefinition:
    """Returns the flow as data. Raises FlowError where it, or a node of it, is a class of its own."""
    if type(flow) not in _FLOWS:
        raise _in_python(f"the flow is a {type(flow).__name__}")
    name_nodes(flow)
    nodes: list[NodeDefinition] = []
    edges: list[Edge] = []
    for node in flow.nodes():
        assert node.id is not None
        if isinstance(node, WorkspaceNode) and type(node) in _NODES:
            same = node.join is node.definition.join
            nodes.append(node.definition if same else replace(node.definition, join=node.join))
        elif isinstance(node, Flow) and type(node) in _FLOWS:
            nodes.append(NodeDefinition(node.id, flow=definition_of(node), join=node.join))
        else:
            raise _in_python(f"node {node.id!r} is a {type(node).__name__}")
        for way, targets in node.following():
            action, when = node.edge_conditions.get(way, (way, None))
            edges += [Edge(node.id, _id(target), action, when) for target in targets]
    return FlowDefinition(
        nodes=tuple(nodes),
        edges=tuple(edges),
        name=flow.name,
        description=flow.description,
        inputs=flow.inputs,
        params=dict(flow.params),
        outputs=None
        if flow.outputs is None
        else {key: output_of(item) for key, item in flow.outputs.items()},
        start=flow.start_node.id if flow.start_node is not None else None,
        cache=flow.cache,
        on_unknown=flow.on_unknown,
        max_visits=flow.max_visits,
    )


def is_data(flow: Flow) -> bool:
    """True if a definition holds all of the flow: it is made of tools, questions and flows of them, and
    nothing in it is a class of its own, whose methods a definition would lose."""
    return type(flow) in _FLOWS and all(type(node) in _NODES for node in flow.nodes())


def name_nodes(flow: Flow) -> None:
    """Gives every node an id that no other node has: its own, or one derived from its class."""
    nodes = list(flow.nodes())
    taken: set[str] = set()
    for node in nodes:
        if node.id is not None and node.id in taken:
            raise FlowError(f"two nodes have the id {node.id!r}", hint="give each node an id of its own")
        if node.id is not None:
            taken.add(node.id)
    for node in nodes:
        if node.id is None:
            base = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(node).__name__).lower()
            count = 1
            while (name := base if count == 1 else f"{base}_{count}") in taken:
                count += 1
            taken.add(name)
            node.id = name
        if isinstance(node, Flow):
            name_nodes(node)


def _id(node: BaseNode) -> str:
    assert node.id is not None
    return node.id
