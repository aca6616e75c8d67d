"""Refuses a flow that would certainly fail, before its first node has done anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool
from spindle.errors import AuthorizationRequired, ConfigurationError, NotFoundError
from spindle.flows.build import DefinedFlow
from spindle.flows.check.check import Find, check
from spindle.flows.definition import FlowDefinition, NodeDefinition
from spindle.flows.flow import Flow
from spindle.flows.flow_node import FlowNode
from spindle.flows.model_node import work_of
from spindle.flows.node import BaseNode
from spindle.flows.problems import BrokenFlowError
from spindle.flows.program_words import find_tool, spread
from spindle.flows.tool_node import ToolNode
from spindle.flows.workspace_node import WorkspaceNode

Require = Callable[[str, JsonObject], Awaitable[None]]


async def refuse_broken(
    flow: Flow,
    find: Find,
    given: Collection[str],
    params: Mapping[str, Any] | None = None,
    require: Require | None = None,
) -> None:
    """Raises BrokenFlowError with all that is certainly wrong. `given`: the names that the shared store has
    when the flow begins, declared or not. Of a flow with parts written in Python, whose data nobody knows,
    only the tools are looked for: NotFoundError. `require` raises ConfigurationError for a model or an agent
    that cannot be used."""
    if require is not None:
        for node in _nodes(flow):
            if isinstance(node, WorkspaceNode) and (node.definition.model or node.definition.agent):
                await _require(node.definition, require)
    find = _once(find)
    if not isinstance(flow, DefinedFlow):
        for node in _nodes(flow):
            if isinstance(node, ToolNode):
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


def _once(find: Find) -> Find:
    """Returns the same for one check, during which each tool is looked for once."""
    found: dict[str, Tool] = {}

    async def finding(name: str) -> Tool:
        tool = found.get(name)
        if tool is None:
            tool = found[name] = await find(name)
        return tool

    return finding


async def _state(flow: DefinedFlow, find: Find, given: Collection[str], params: Mapping[str, Any]) -> object:
    """Returns what the judgement depends on, besides the definition; None if a tool cannot be had."""
    try:
        fingerprints = [(await find(name)).fingerprint for name in dict.fromkeys(tool_names(flow.definition))]
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


def _nodes(flow: Flow) -> Iterator[BaseNode]:
    """Yields the nodes of a flow, and of the flows inside it."""
    for node in flow.nodes():
        yield node
        if isinstance(node, (Flow, FlowNode)):
            yield from _nodes(node if isinstance(node, Flow) else node.inner)


async def _require(node: NodeDefinition, require: Require) -> None:
    try:
        await require(*work_of(node))
    except ConfigurationError as error:
        raise ConfigurationError(f"node {node.id!r}: {error.message}", **error.way_out) from None


async def _look_for(node: ToolNode, find: Find) -> None:
    try:
        spread(node.definition, await find_tool(node.definition, find))
    except NotFoundError as error:
        message = f"node {node.id!r}: {error.message}"
        raise NotFoundError(message, tool=node.tool, **error.way_out) from None
    except AuthorizationRequired:
        return  # it is asked for where it is needed
