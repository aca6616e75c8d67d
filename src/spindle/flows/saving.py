"""Writing down which tools a flow was made for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from spindle.domain.tool import Tool
from spindle.errors import NotFoundError
from spindle.flows.definition import FlowDefinition, NodeDefinition


async def save(definition: FlowDefinition, find: Callable[[str], Awaitable[Tool]]) -> FlowDefinition:
    """The flow with each tool's full name and fingerprint; nothing else changes. Raises NotFoundError."""
    return replace(definition, nodes=tuple([await _saved(node, find) for node in definition.nodes]))


async def _saved(node: NodeDefinition, find: Callable[[str], Awaitable[Tool]]) -> NodeDefinition:
    if node.flow is not None:
        return replace(node, flow=await save(node.flow, find))
    if node.tool is None:
        return node
    try:
        tool = await find(node.tool)
    except NotFoundError as error:
        raise NotFoundError(f"node {node.id!r}: {error.message}", hint=error.hint, tool=node.tool) from None
    return replace(node, tool=tool.name, fingerprint=tool.fingerprint)
