"""The calls that a flow would make, as far as they are known without calling anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spindle.calls.record import clean_json, masked
from spindle.domain.json_schema import JsonObject, is_array, is_object, parameters
from spindle.errors import FlowError
from spindle.flows.definition import DEFAULT_ACTION, FlowDefinition, NodeDefinition, NodeKind, says
from spindle.flows.expressions.errors import ExpressionError, UnresolvedError
from spindle.flows.expressions.paths import MISSING, Lookup, written_path
from spindle.flows.interface import natural_outputs
from spindle.flows.program_words import find_tool, spread
from spindle.flows.secrets import secret_inputs
from spindle.flows.shared import SharedLookup
from spindle.flows.templates import references, render

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

Find = Callable[[str], Awaitable["Tool"]]


@dataclass(frozen=True, slots=True)
class Planned:
    """One node of a plan. Values that depend on earlier nodes appear as templates in `arguments`."""

    node: str
    tool: str | None = None
    kind: NodeKind = "tool"
    """The nodes of a flow inside the flow follow it."""
    text: str = ""
    """The question to a person or a model, or the task of an agent."""
    arguments: JsonObject = field(default_factory=dict[str, Any])
    missing: tuple[str, ...] = ()
    """Required arguments for which there is no value."""
    over: Any = None
    """The items of a batch, or the template for them."""
    approval: tuple[str, ...] | None = None
    """Those who may approve it, besides the owner, if somebody must."""
    next: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By action and condition, the next node; several if they are branches that run at the same time."""
    repeat_while: str | None = None
    """The condition of a loop."""
    join: str | None = None
    """The branches that it waits for, in words."""

    @property
    def says(self) -> str:
        """Its work in words."""
        return self.tool or says(self.kind, self.text)

    def without(self, secrets: set[str]) -> Planned:
        """Returns the node with these secrets masked."""
        text, arguments, over = clean_json([self.text, self.arguments, self.over], secrets)
        return replace(self, text=text, arguments=arguments, over=over)

    def to_dict(self) -> JsonObject:
        fields: JsonObject = {
            "node": self.node,
            "tool": self.tool,
            **({self.kind: self.text or True} if self.kind != "tool" else {}),
            "while": self.repeat_while,
            "arguments": self.arguments if self.kind in ("tool", "flow", "transform") else None,
            "missing": list(self.missing) or None,
            "over": self.over,
            "approval": list(self.approval) if self.approval is not None else None,
            "next": {
                action: list(targets) if len(targets) > 1 else "".join(targets)
                for action, targets in self.next.items()
            }
            or None,
            "join": self.join,
        }
        return {key: value for key, value in fields.items() if value is not None}


async def plan(
    flow: FlowDefinition,
    given: JsonObject,
    find: Find,
    *,
    start: str | None = None,
    only: bool = False,
) -> list[Planned]:
    """Returns the nodes in the order in which they can be reached. `given`: the shared store at the start."""
    shared = dict(given)
    for name, schema in flow.inputs.items():
        if "default" in schema:
            shared.setdefault(name, schema["default"])
    planned = await _Planning(find).nodes(flow, shared, flow.params, start or flow.start_id, only)
    hidden = {text for _, texts in secret_inputs(flow.inputs, shared) for text in texts}
    return [node.without(hidden) for node in planned] if hidden else planned


class _Planning:
    def __init__(self, find: Find) -> None:
        self._find = find
        self._writers: dict[str, str] = {}
        """By shared key, the template for the value that an earlier node writes there."""
        self._pending: set[str] = set()
        """Names whose values are unknown until nodes have run."""

    async def nodes(
        self,
        flow: FlowDefinition,
        shared: JsonObject,
        params: Mapping[str, Any],
        start: str,
        only: bool = False,
        prefix: str = "",
    ) -> list[Planned]:
        planned: list[Planned] = []
        nodes = [_node(flow, start)] if only else _in_order(flow, start)
        self._pending |= {node.id for node in nodes}
        for node in nodes:
            following: dict[str, tuple[str, ...]] = {}
            for edge in flow.edges:
                if edge.source == node.id:
                    others = following.get(edge.way, ())
                    following[edge.way] = (*others, f"{prefix}{edge.target}")
            found = await self._node(node, shared, params, following, prefix)
            if node.join is not None:
                found[0] = replace(found[0], join=node.join.words)
            planned += found
        return planned

    async def _node(
        self,
        node: NodeDefinition,
        shared: JsonObject,
        params: Mapping[str, Any],
        following: Mapping[str, tuple[str, ...]],
        prefix: str,
    ) -> list[Planned]:
        name = f"{prefix}{node.id}"
        if node.flow is not None:
            return await self._inline(node, node.flow, shared, params, following, name)
        if node.transform is not None:
            return [self._values(node, node.transform, shared, following, name)]
        if node.tool is None:
            self._writers[node.id] = node.id
            lookup = SharedLookup(shared)
            by = _approvers(node)
            said = str(self._known(next(iter(node.texts.values()), "for a webhook"), lookup))
            over = self._known(node.batch.over, lookup) if node.batch is not None else None
            return [Planned(name, kind=node.kinds[0], text=said, over=over, approval=by, next=following)]
        tool = await find_tool(node, self._find)
        node = spread(node, tool)
        lookup = SharedLookup(shared)
        arguments, missing = self._arguments(node, tool, lookup, params)
        over = self._known(node.batch.over, lookup) if node.batch is not None else None
        for key in natural_outputs(tool):
            written = node.outputs.get(key.name, key.name)
            self._writers[written] = written_path((node.id, key.name))
            self._pending.add(written)
            shared.pop(written, None)  # what was given under that name is not what will be there
        self._writers[node.id] = node.id
        shown = masked(arguments, tool.input_schema, ())
        by = _approvers(node)
        return [
            Planned(
                name, tool.name, arguments=shown, missing=tuple(missing), over=over, approval=by,
                next=following,
            )
        ]  # fmt: skip

    def _values(
        self,
        node: NodeDefinition,
        values: JsonObject,
        shared: JsonObject,
        following: Mapping[str, tuple[str, ...]],
        name: str,
    ) -> Planned:
        lookup = SharedLookup(shared)
        known: JsonObject = {key: self._known(value, lookup) for key, value in values.items()}
        over = self._known(node.batch.over, lookup) if node.batch is not None else None
        for key in values:
            written = node.outputs.get(key, key)
            self._writers[written] = written_path((node.id, key))
            self._pending.add(written)
            shared.pop(written, None)
        self._writers[node.id] = node.id
        by = _approvers(node)
        return Planned(name, kind="transform", arguments=known, over=over, approval=by, next=following)

    async def _inline(
        self,
        node: NodeDefinition,
        flow: FlowDefinition,
        shared: JsonObject,
        params: Mapping[str, Any],
        following: Mapping[str, tuple[str, ...]],
        name: str,
    ) -> list[Planned]:
        lookup = SharedLookup(shared)
        given: JsonObject = {}
        for key, schema in flow.inputs.items():
            if key in node.params:
                given[key] = self._known(node.params[key], lookup)
            elif key in node.inputs:
                given[key] = self._known(f"${{{node.inputs[key]}}}", lookup)
            elif lookup((key,)) is MISSING and "default" in schema:
                given[key] = schema["default"]
        if node.loop is not None:
            given |= {key: self._known(value, lookup) for key, value in node.loop.carry.items()}
        over = self._known(node.batch.over, lookup) if node.batch is not None else None
        # What its inputs are is said once, here: its nodes show their templates.
        self._pending |= {*given, *([node.batch.item] if node.batch is not None else [])}
        own = {**params, **flow.params, **node.params}
        own = {key: value for key, value in own.items() if key not in flow.inputs}
        inside = await self.nodes(flow, shared, own, flow.start_id, prefix=f"{name}/")
        self._writers[node.id] = node.id
        by = _approvers(node)
        if not given and over is None and by is None and node.loop is None:
            return inside
        again = node.loop.repeat_while if node.loop is not None else None
        outside = Planned(
            name, kind="flow", arguments=given, over=over, approval=by, next=following, repeat_while=again
        )
        return [outside, *inside]

    def _arguments(
        self, node: NodeDefinition, tool: Tool, lookup: Lookup, params: Mapping[str, Any]
    ) -> tuple[JsonObject, list[str]]:
        """Returns the arguments as a tool node would find them, and the names of missing ones."""
        arguments: JsonObject = {name: self._known(value, lookup) for name, value in node.params.items()}
        missing: list[str] = []
        for parameter in parameters(tool.input_schema):
            name = parameter.name
            if name in arguments:
                continue
            if name in params:
                arguments[name] = self._known(params[name], lookup)
            elif name in node.inputs:
                arguments[name] = self._known(f"${{{node.inputs[name]}}}", lookup)
            elif (found := lookup((name,))) is not MISSING:
                arguments[name] = found
            elif name in self._writers:
                arguments[name] = f"${{{self._writers[name]}}}"
            elif node.batch is not None and name == node.batch.item:
                arguments[name] = f"${{{name}}}"
            elif parameter.required:
                missing.append(name)
        return arguments, missing

    def _known(self, value: Any, lookup: Lookup) -> Any:
        """Returns the value with the templates resolved that can be; the others stay as they are."""
        if isinstance(value, str):
            try:
                if any(reference.path[0] in self._pending for reference in references(value)):
                    return value
                return render(value, lookup)
            except (UnresolvedError, ExpressionError):
                return value
        if is_object(value):
            return {key: self._known(item, lookup) for key, item in value.items()}
        if is_array(value):
            return [self._known(item, lookup) for item in value]
        return value


def _approvers(node: NodeDefinition) -> tuple[str, ...] | None:
    return node.approval.by if node.approval is not None else None


def _node(flow: FlowDefinition, id: str) -> NodeDefinition:
    found = flow.node(id)
    if found is None:
        raise FlowError(f"the flow has no node {id!r}")
    return found


def _in_order(flow: FlowDefinition, start: str) -> list[NodeDefinition]:
    """Returns the nodes nearest first, those that follow a success before others."""
    waiting, seen = [start], {start}
    found: list[NodeDefinition] = []
    while waiting:
        id = waiting.pop(0)
        found.append(_node(flow, id))
        following = sorted(
            (edge for edge in flow.edges if edge.source == id), key=lambda edge: edge.action != DEFAULT_ACTION
        )
        new = {edge.target: edge for edge in reversed(following) if edge.target not in seen}
        seen |= set(new)
        # Where branches meet comes after all of them.
        near = [target for target in reversed(new) if new[target].action == DEFAULT_ACTION]
        near = [target for target in near if _node(flow, target).join is None]
        waiting = [*near, *waiting, *(target for target in reversed(new) if target not in near)]
    return found
