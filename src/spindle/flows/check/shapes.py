"""The inputs and outputs of a node, as far as they are known before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_object, parameters, resolve, type_of, types_of
from spindle.domain.records import quick_dataclass
from spindle.domain.tool import Tool
from spindle.flows.content_values import CONTENT
from spindle.flows.definition import DEFAULT_ACTION, FAILED, NodeDefinition
from spindle.flows.failures import ERROR, REFUSED
from spindle.flows.interface import ERROR_ACTIONS, Key, actions_of, is_wrapped, natural_key
from spindle.flows.signature import output_schema

MAY_HAVE_FAILED: Final = "x-may-have-failed"
"""Marks the schema of a result that is null where its item failed, as `keep_errors` of a batch says."""
FAILED_ITEMS: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}


@quick_dataclass(frozen=True, slots=True)
class Shape:
    """The inputs, outputs and actions of one node."""

    takes: Mapping[str, Key] = field(default_factory=dict[str, Key])
    """Its arguments, by name."""
    takes_others: bool = False
    """True if it accepts arguments that its schema does not name."""
    gives: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """The shared keys that it writes, renamed as the node says, with the schema of each."""
    natural: frozenset[str] = frozenset()
    """The keys of its output before they are renamed; none if they are not known."""
    whole: JsonObject = field(default_factory=dict[str, Any])
    """The schema of its whole output, as it is kept under the node's id."""
    fallback: str | None = None
    """The key that holds an output without keys of its own; no schema declares it."""
    is_open: bool = False
    """True if it may write keys that no schema names."""
    actions: Mapping[str, str] = field(default_factory=lambda: {DEFAULT_ACTION: ""})
    failures: frozenset[str] = frozenset()
    """The actions with which it leaves an error instead of an output."""
    result: JsonObject = field(default_factory=dict[str, Any])
    """The schema of one result: of the output, or of an item of a batch."""

    @property
    def can_end(self) -> bool:
        """False for a flow that can only fail: it never ends by itself."""
        return bool(set(self.actions) - self.failures)


_UNANSWERED = {REFUSED: "nobody answered", ERROR: "`fail_when` holds for the answer, or nobody answered"}


def shape_of(node: NodeDefinition, tool: Tool | None, ids: frozenset[str]) -> Shape:
    """Returns the shape of a tool (None: an unknown one), or of a question to a person or a model. `ids` are
    those of all nodes of the flow: no other node writes keys of these names."""
    schema = node.answer_schema
    if schema is not None:
        one = schema
        schema, gives, is_open = _together(node, one, node.id)
        if node.model is not None or node.agent is not None:
            gives |= {f"{node.id}.usage": {"type": "object"}}
        failures = _UNANSWERED if node.ask is not None else ERROR_ACTIONS
        if node.wait is not None:
            failures = {**_UNANSWERED, "timeout": "nothing came in time"}
        return Shape(
            gives=_renamed(gives, node, ids),
            natural=frozenset(gives),
            whole=schema,
            fallback=node.id,
            is_open=is_open,
            actions={DEFAULT_ACTION: "there is an answer", **failures},
            failures=frozenset(failures),
            result=one,
        )
    if node.transform is not None:
        return _shape_of_values(node, node.transform, ids)
    if tool is None:
        return Shape(takes_others=True, is_open=True, actions={DEFAULT_ACTION: "", **ERROR_ACTIONS},
                     failures=frozenset(ERROR_ACTIONS))  # fmt: skip
    plain = _plain_shape(tool)
    natural, one = natural_key(tool.name), plain.whole
    if node.parse == "json" and tuple(types_of(one, one)) == ("string",):
        one = JsonObject()  # it is what the text stands for
    if node.batch is None and one is plain.whole:
        whole, gives, is_open = one, dict(plain.gives), plain.is_open
    else:
        whole, gives, is_open = _together(node, one, natural)
    if natural in gives and natural != node.id:
        gives[f"{node.id}.{natural}"] = gives[natural]
    known = frozenset(gives)
    if CONTENT not in whole.get("properties", {}):
        gives[f"{node.id}.{CONTENT}"] = _BLOCKS
    return Shape(
        takes=plain.takes,
        takes_others=plain.takes_others,
        gives=_renamed(gives, node, ids, is_open=is_open),
        natural=known,
        whole=whole,
        fallback=natural if natural in gives and natural not in whole.get("properties", {}) else None,
        is_open=is_open,
        actions=plain.actions,
        failures=plain.failures,
        result=one,
    )


_BLOCKS: JsonObject = {"type": "array"}


def _plain_shape(tool: Tool) -> Shape:
    """Returns what all nodes of a tool have in common."""
    known: Shape | None = tool.forms.get("plain shape")
    if known is None:
        whole, rest = _whole(tool), tool.input_schema.get("additionalProperties")
        gives, is_open = _given(whole, natural_key(tool.name))
        known = tool.forms["plain shape"] = Shape(
            takes={
                item.name: Key(item.name, item.schema, "", item.required)
                for item in parameters(tool.input_schema)
            },
            takes_others=rest is True or (is_object(rest) and bool(rest)),
            gives=gives,
            whole=whole,
            is_open=is_open,
            actions={DEFAULT_ACTION: "it is done", **actions_of(tool)},
            failures=frozenset(ERROR_ACTIONS),
        )
    return known


def with_approval(shape: Shape) -> Shape:
    """Returns the shape of the same node, if a person must approve it."""
    actions = {REFUSED: "it was not approved", ERROR: "it was not approved, or failed", **shape.actions}
    return replace(shape, actions=actions, failures=shape.failures | {REFUSED, ERROR})


def _shape_of_values(node: NodeDefinition, values: JsonObject, ids: frozenset[str]) -> Shape:
    properties: JsonObject = {name: _schema_of(value) for name, value in values.items()}
    one: JsonObject = {
        "type": "object", "properties": properties, "required": list(values), "additionalProperties": False,
    }  # fmt: skip
    whole, gives, is_open = _together(node, one, node.id)
    return Shape(
        gives=_renamed(gives, node, ids),
        natural=frozenset(gives),
        whole=whole,
        is_open=is_open,
        actions={DEFAULT_ACTION: "it is done", ERROR: "`fail_when` holds for the values"},
        failures=frozenset({ERROR}),
        result=one,
    )


def results_of(node: NodeDefinition, one: JsonObject) -> JsonObject:
    """Returns the schema of the results of a batch, by that of one of them."""
    is_kept = node.batch is not None and node.batch.keep_errors
    return {"type": "array", "items": _or_failed(one) if is_kept else one}


def _together(
    node: NodeDefinition, one: JsonObject, natural: str
) -> tuple[JsonObject, dict[str, JsonObject], bool]:
    """Returns the schema of a node's output, by that of one result; the keys under which it is written, and
    whether there may be others."""
    if node.batch is None:
        return one, *_given(one, natural)
    failed = {f"{node.id}.{FAILED}": FAILED_ITEMS}
    if node.batch.reduce is None:
        whole = results_of(node, one)
        return whole, {natural: whole, **failed}, False
    whole = _schema_of(node.batch.reduce)
    gives, is_open = _given(whole, natural)
    return whole, {**gives, **failed}, is_open


def _or_failed(schema: JsonObject) -> JsonObject:
    """Returns the schema of a result that is null if its item failed."""
    kind = schema.get("type")
    types = [kind] if isinstance(kind, str) else list(kind or ())
    return {**schema, **({"type": [*types, "null"]} if types else {}), MAY_HAVE_FAILED: True}


def _schema_of(value: Any) -> JsonObject:
    """Returns the schema of a value with templates, as far as it is known without them."""
    if isinstance(value, str) and "${" in value:
        is_one = value.startswith("${") and value.endswith("}")
        return {} if is_one else {"type": "string"}
    return {"type": type_of(value)}


def shape_of_flow(node: NodeDefinition, endings: Mapping[str, str], ids: frozenset[str]) -> Shape:
    """Returns the shape of a flow inside a flow. Its nodes write their own keys into the shared store, except
    in a batch."""
    flow = node.flow
    assert flow is not None
    takes = {
        name: Key(
            name, {key: value for key, value in schema.items() if key != "required"}, "", is_required(schema)
        )
        for name, schema in flow.inputs.items()
    }
    one = output_schema(dict(flow.outputs)) if flow.outputs is not None else {}
    assert one is not None
    whole, gives, is_open = _together(node, one, node.id)
    if node.batch is None:
        gives, is_open = (gives, False) if flow.outputs is not None else ({}, True)
    ends = endings if node.batch is None else {DEFAULT_ACTION: ""} if endings else {}
    return Shape(
        takes=takes,
        takes_others=True,
        gives=_renamed(gives, node, ids),
        natural=frozenset(gives),
        whole=whole,
        is_open=is_open,
        actions={**ends, **ERROR_ACTIONS},
        failures=frozenset(ERROR_ACTIONS) - set(ends),
        result=one,
    )


def is_required(schema: JsonObject) -> bool:
    """True if an input of a flow must be given."""
    return "default" not in schema and schema.get("required") is not False


def _whole(tool: Tool) -> JsonObject:
    schema = tool.output_schema
    if schema is None:
        return {}
    # References are followed from the root, so parts of it are taken with its definitions.
    return within(schema, schema["properties"]["result"]) if is_wrapped(schema) else schema


def within(root: JsonObject, part: Any) -> JsonObject:
    """Returns a part of a schema that can stand by itself."""
    found = resolve(root, part)
    shared = {key: root[key] for key in ("$defs", "definitions") if key in root and key not in found}
    return {**found, **shared} if found and shared else found


def _given(schema: JsonObject, natural: str) -> tuple[dict[str, JsonObject], bool]:
    """Returns the keys under which an output of this schema is written, and whether there may be others."""
    found = {item.name: within(schema, item.schema) for item in parameters(schema)}
    if not found:
        kind = schema.get("type")
        return {natural: schema}, kind is None or kind == "object" or (
            isinstance(kind, list) and "object" in kind
        )
    for name, part in list(found.items()):
        for inner in parameters(part):
            found[f"{name}.{inner.name}"] = within(part, inner.schema)
    return found, False


def _renamed(
    gives: dict[str, JsonObject], node: NodeDefinition, ids: frozenset[str], *, is_open: bool = False
) -> dict[str, JsonObject]:
    if not node.outputs:
        return {key: schema for key, schema in gives.items() if key not in ids}
    # Of an output that may have any keys, those that are mapped are taken to be there.
    renamed: dict[str, JsonObject] = {}
    if is_open:
        renamed = {name: {} for key, name in node.outputs.items() if key not in gives and name not in ids}
    for key, schema in gives.items():
        first, dot, rest = key.partition(".")
        name = node.outputs.get(key) or (f"{node.outputs.get(first, first)}{dot}{rest}")
        if name not in ids:
            renamed[name] = schema
    return renamed
