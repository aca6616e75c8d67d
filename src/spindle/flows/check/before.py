"""Refuses a flow that would certainly fail, before its first node has done anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from spindle.errors import AuthorizationRequired, NotFoundError
from spindle.flows.build import DefinedFlow
from spindle.flows.check.check import Find, check
from spindle.flows.definition import FlowDefinition
from spindle.flows.flow import Flow
from spindle.flows.flow_node import FlowNode
from spindle.flows.problems import BrokenFlowError
from spindle.flows.tool_node import ToolNode


async def refuse_broken(
    flow: Flow,
    find: Find,
    given: Collection[str],
    params: Mapping[str, Any] | None = None,
) -> None:
    """Raises BrokenFlowError with all that is certainly wrong. `given`: the names that the shared store has
    when the flow begins, declared or not. Of a flow with parts written in Python, whose data nobody knows,
    only the tools are looked for: NotFoundError."""
    if not isinstance(flow, DefinedFlow):
        for node in _tool_nodes(flow):
            await _look_for(node, find)
        return
    state = await _state(flow, find, given, params or {})
    if state is not None and flow.passed == state:
        return
    definition = flow.definition
    if params:
        definition = replace(definition, params={**definition.params, **params})
    found = await check(definition, find, flow.positions, flow.place, given=given)
    errors = [problem for problem in found if problem.severity == "error"]
    if errors:
        raise BrokenFlowError(errors)
    flow.passed = state


async def _state(flow: DefinedFlow, find: Find, given: Collection[str], params: Mapping[str, Any]) -> object:
    """Returns what the judgement depends on, besides the definition; None if a tool cannot be had."""
    try:
        fingerprints = [(await find(name)).fingerprint for name in tool_names(flow.definition)]
    except (Exception, AuthorizationRequired):  # noqa: BLE001 - said by the check, with its place
        return None
    return fingerprints, frozenset(given), dict(params)


def tool_names(definition: FlowDefinition) -> Iterator[str]:
    """Yields the names of all tools of a flow, as they are written there."""
    for node in definition.nodes:
        if node.tool is not None:
            yield node.tool
        if node.flow is not None:
            yield from tool_names(node.flow)


def _tool_nodes(flow: Flow) -> Iterator[ToolNode]:
    for node in flow.nodes():
        if isinstance(node, ToolNode):
            yield node
        elif isinstance(node, (Flow, FlowNode)):
            yield from _tool_nodes(node if isinstance(node, Flow) else node.inner)


async def _look_for(node: ToolNode, find: Find) -> None:
    try:
        await find(node.tool)
    except NotFoundError as error:
        message = f"node {node.id!r}: {error.message}"
        raise NotFoundError(message, tool=node.tool, **error.way_out) from None
    except AuthorizationRequired:
        return  # it is asked for where it is needed
