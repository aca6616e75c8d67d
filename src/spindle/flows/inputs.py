"""The values that a user gives to a flow by name: inputs of the flow, and parameters of its nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object, parameters
from spindle.errors import AuthorizationRequired, InvalidArgumentsError, SpindleError, suggest
from spindle.flows.definition import FlowDefinition, NodeDefinition
from spindle.flows.signature import input_schema

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

Find = Callable[[str], Awaitable["Tool"]]


@dataclass(frozen=True, slots=True)
class InputNames:
    """The names that can be given, each with its JSON Schema. A name that is both is an input."""

    inputs: Mapping[str, JsonObject]
    params: Mapping[str, JsonObject]
    required: frozenset[str] = frozenset()
    """The inputs without which the flow cannot run."""

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of everything that can be given, by which flags are read."""
        return {"type": "object", "properties": {**self.params, **self.inputs}}


async def names_of(flow: FlowDefinition, find: Find) -> InputNames:
    """Returns the names of a flow: its params and those of its nodes' tools; also for one node, as
    `node.name`."""
    schema = input_schema(dict(flow.inputs))
    params: dict[str, JsonObject] = {}
    below: dict[str, JsonObject] = {}
    for node in _nodes(flow):
        for name, found in (await _params(node, find)).items():
            params.setdefault(name, found)
            below[f"{node.id}.{name}"] = found
    own: dict[str, JsonObject] = {name: {} for name in flow.params if name not in params}
    return InputNames(schema["properties"], {**own, **params, **below}, frozenset(schema.get("required", ())))


async def _params(node: NodeDefinition, find: Find) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {name: {} for name in node.params}
    if node.tool is None:
        return found
    try:
        tool = await find(node.tool)
    except (SpindleError, AuthorizationRequired):
        return found  # that there is no such tool, or none before a consent, is said when the flow is run
    return found | {item.name: _whole(item.schema, tool) for item in parameters(tool.input_schema)}


def _whole(schema: JsonObject, tool: Tool) -> JsonObject:
    """Returns the schema of a parameter with the definitions that it refers to."""
    shared = tool.input_schema.get("$defs")
    return {**schema, "$defs": shared} if is_object(shared) else schema


def _nodes(flow: FlowDefinition) -> Iterator[NodeDefinition]:
    for node in flow.nodes:
        yield node
        if node.flow is not None:
            yield from _nodes(node.flow)


def with_params(flow: FlowDefinition, params: Mapping[str, Any]) -> FlowDefinition:
    """Returns the flow with other parameters: set where nodes set one of that name, else for all nodes.
    `node.name` is for one node."""
    for name, value in params.items():
        id, _, own = name.partition(".")
        if own and any(node.id == id for node in _nodes(flow)):
            flow = _with_param(flow, own, value, id)
            continue
        is_set = name in flow.params or any(name in node.params for node in _nodes(flow))
        flow = (
            _with_param(flow, name, value, None)
            if is_set
            else replace(flow, params={**flow.params, name: value})
        )
    return flow


def _with_param(flow: FlowDefinition, name: str, value: Any, id: str | None) -> FlowDefinition:
    def changed(node: NodeDefinition) -> NodeDefinition:
        if node.flow is not None:
            node = replace(node, flow=_with_param(node.flow, name, value, id))
        is_meant = node.id == id or (id is None and name in node.params)
        return replace(node, params={**node.params, name: value}) if is_meant else node

    params = {**flow.params, name: value} if id is None and name in flow.params else flow.params
    return replace(flow, nodes=tuple(map(changed, flow.nodes)), params=params)


def unknown_name(
    name: str, names: InputNames, flow: str, also: tuple[str, ...] = ()
) -> InvalidArgumentsError:
    """Returns the error for a name that the flow does not have. `also`: other flags to suggest."""
    meant = suggest(name, [*names.inputs, *names.params, *also])
    plain = [known for known in names.params if "." not in known]
    listed = ", ".join(f"--{known}" for known in [*names.inputs, *plain][:12])
    hint = f"did you mean --{meant}?" if meant else f"it takes {listed or 'nothing'}"
    return InvalidArgumentsError(f"{flow} has neither an input nor a parameter {name!r}", hint=hint)
