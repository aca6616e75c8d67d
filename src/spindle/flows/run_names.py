"""The names of runs of flows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow

NAMED_NODES = 8


def name_of(flow: Flow) -> str:
    """Returns the name of a run of the flow: the flow's name, or for a line of tools its nodes."""
    if flow.name:
        return flow.name
    nodes = [node.id or "" for node in itertools.islice(flow.nodes(), NAMED_NODES + 1)]
    return " >> ".join([*nodes[:NAMED_NODES], "…"] if len(nodes) > NAMED_NODES else nodes) or "flow"


def named_flow(flow: Flow | FlowDefinition) -> Flow:
    """Returns the flow of a definition, or the flow itself, with names for all of its nodes."""
    from spindle.flows.build import build, name_nodes
    from spindle.flows.definition import FlowDefinition

    made = build(flow) if isinstance(flow, FlowDefinition) else flow
    name_nodes(made)
    return made
