"""Checks of the parts of one node, and of a flow's inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spindle.calls.record import marks_secrets, mentions_secrets
from spindle.documents.places import DocumentPath
from spindle.domain.json_schema import JsonObject, is_array, is_object, type_of, types_of
from spindle.domain.tool import Tool
from spindle.errors import FlowError, did_you_mean
from spindle.flows import templates
from spindle.flows.check.lookups import Complaint, Sight, Types, article, fits, holds_template
from spindle.flows.check.shapes import FAILED_ITEMS, Shape, results_of, within
from spindle.flows.check.types import condition_types, expression_types
from spindle.flows.definition import FAILED, RESULTS, NodeDefinition
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.parsing import WHOLE, parse
from spindle.flows.named_secrets import SECRETS
from spindle.flows.wait_node import moment, span
from spindle.schemas.compiled import CompiledSchema, schema_problem

Finding = tuple[DocumentPath, Complaint]


def other_templates(
    node: NodeDefinition, sight: Sight, here: DocumentPath, shape: Shape
) -> Iterator[Finding]:
    """Yields problems of a node's name, of what it asks, of the schema of the answer, and of its batch."""
    yield from _reserved(node.id, "node", here)
    for text_place, text in node.texts.items():
        called = f"{node.id}: {'the question' if node.ask is not None else text_place}"
        yield from _references(text, sight, (*here, *text_place.split(".")), called)
    if node.wait is not None:
        yield from _wait_findings(node, here)
    if node.approval is not None:
        place = (*here, "approval", "message")
        yield from _references(node.approval.message, sight, place, f"{node.id}: approval.message")
    schema = node.answer_schema
    problem = schema_problem(schema) if schema else None
    if problem is not None:
        message = f"{node.id}: the schema of the answer is not valid: {problem}"
        yield (*here, node.kinds[0], "schema"), Complaint("error", message)
    if node.batch is not None:
        place = (*here, "batch", "over")
        plain = Sight(sight.availability, sight.state, sight.inputs, sight.at, {}, sight.params)
        yield from _references(node.batch.over, plain, place, f"{node.id}: batch.over")
        types = _whole_types(node.batch.over, plain)
        if not fits(types, frozenset({"array"})):
            yield (
                place,
                Complaint("error", f"{node.id}: batch.over is {article(types)}, but should be a list"),
            )
        if node.batch.spread and node.kinds[0] not in ("tool", "model", "agent"):
            said = f"{node.id}: batch.spread is for tools, models and agents"
            hint = "save what it does as a flow, and call that as a tool"
            yield (*here, "batch", "spread"), Complaint("error", said, hint)
        if node.batch.reduce is not None:
            yield from _reduce_findings(node, node.batch.reduce, plain, (*here, "batch", "reduce"), shape)


def _reduce_findings(
    node: NodeDefinition, value: Any, sight: Sight, place: DocumentPath, shape: Shape
) -> Iterator[Finding]:
    """Yields problems of the value that a batch makes of its results."""
    results = {RESULTS: results_of(node, shape.result), FAILED: FAILED_ITEMS}
    called = f"{node.id}: batch.reduce"
    yield from _references(value, replace(sight, item=results), place, called)
    try:
        read = {str(read.path[0]) for read in templates.references(value)}
    except ExpressionError:
        return  # said already
    if not read & results.keys():
        message = f"{called} does not depend on the results"
        yield place, Complaint("error", message, "such as ${sum(results, item.price)}, or ${first(results)}")


def _wait_findings(node: NodeDefinition, here: DocumentPath) -> Iterator[Finding]:
    """Yields times to wait that are none, where they are written out."""
    for place, value in node.texts.items():
        read = {"wait.until": moment, "wait.for": span}.get(place)
        if read is None or holds_template(value):
            continue
        try:
            read(value, f"{node.id}: {place}")
        except FlowError as error:
            yield (*here, *place.split(".")), Complaint("error", error.message, error.hint)


def _references(value: Any, sight: Sight, place: DocumentPath, called: str) -> Iterator[Finding]:
    try:
        found = list(templates.expressions(value))
    except ExpressionError as error:
        yield place, Complaint("error", f"{called}: {error}", error.hint)
        return
    for reference in found:
        for complaint in expression_types(reference.expression, sight)[0]:
            yield place, Complaint(complaint.severity, f"{called}: {complaint.message}", complaint.hint)


def _whole_types(value: Any, sight: Sight) -> Types:
    if not isinstance(value, str):
        return frozenset({type_of(value)})
    try:
        parts = templates.parse(value)
    except ExpressionError:
        return frozenset()
    if len(parts) == 1 and isinstance(parts[0], templates.Reference):
        return expression_types(parts[0].expression, sight)[1]
    return frozenset({"string"})


def item_schema(over: Any, sight: Sight) -> JsonObject:
    """Returns the schema of the items of a batch, as far as it is known."""
    if is_array(over):
        types = {type_of(item) for item in over if not holds_template(item)}
        whole = len(types) > 0 and not any(map(holds_template, over))
        return {"type": sorted(types)} if whole else {}
    try:
        parts = templates.parse(over) if isinstance(over, str) else ()
    except ExpressionError:
        return {}
    path = parts[0].path if len(parts) == 1 and isinstance(parts[0], templates.Reference) else None
    if path is None:
        return {}
    found: list[JsonObject] = []
    for schema in sight.parts(path):
        items = schema.get("items")
        found.append(within(schema, items) if is_object(items) else {})
    return found[0] if len(found) == 1 else {}


def cache_findings(node: NodeDefinition, tool: Tool | None, here: DocumentPath) -> Iterator[Finding]:
    """Yields the complaints about a cache for a tool whose results are never kept, and about secrets that
    stand in the flow."""
    yield from _secrets_in_clear(node, tool, here)
    if node.cache and tool is not None and not tool.pure:
        message = f"{node.id}: {tool.name} is not known to be pure, so that its results are not kept"
        hint = "a tool says itself that it is pure or only reads, or `cache.tools` of its source names it"
        yield (*here, "cache"), Complaint("warning", message, hint)


def unknown_output(node: NodeDefinition, name: str, shape: Shape, place: DocumentPath) -> Iterator[Finding]:
    """Yields the complaint about a mapping of an output that the node does not have."""
    if shape.is_open or not shape.natural or name in shape.natural:
        return
    known = [key for key in shape.natural if "." not in key]
    hint = did_you_mean(name, known, f"there are {', '.join(known)}")
    yield place, Complaint("error", f"{node.id}: the output has no key {name!r} to be renamed", hint)


def fail_when_findings(node: NodeDefinition, shape: Shape, here: DocumentPath) -> Iterator[Finding]:
    """Yields problems of a node's `fail_when`."""
    if node.fail_when is None:
        return
    place = (*here, "fail_when")
    try:
        condition = parse(node.fail_when)
    except ExpressionError as error:
        yield place, Complaint("error", f"{node.id}: fail_when: {error}", error.hint)
        return
    properties = shape.whole.get("properties")
    known = list(properties) if is_object(properties) else []
    for name in dict.fromkeys(str(read.path[0]) for read in condition.reads):
        if known and name not in known and name not in (WHOLE, SECRETS):
            hint = did_you_mean(name, known, f"there are {', '.join(known)}")
            message = f"{node.id}: fail_when: the output has no key {name!r} that its schema names"
            yield place, Complaint("warning", message, hint)


def carried_schemas(node: NodeDefinition) -> dict[str, JsonObject]:
    """Returns the schemas of the values that a loop carries. Those of the next rounds are not known."""
    return {name: {} for name in node.loop.carry} if node.loop is not None else {}


def loop_findings(node: NodeDefinition, sight: Sight, here: DocumentPath) -> Iterator[Finding]:
    """Yields problems of a loop: values that never change, and its condition. `sight`: the end of a round."""
    loop = node.loop
    assert loop is not None
    for name in loop.carry:
        if name not in sight.item:
            message = f"{node.id}: the loop carries {name!r}, but the flow has no output of that name"
            hint = f"{name} keeps its first value: make it an output, or an input"
            yield (*here, "loop", "carry", name), Complaint("warning", message, hint)
    place = (*here, "loop", "while")
    try:
        condition = parse(loop.repeat_while)
    except ExpressionError as error:
        yield place, Complaint("error", f"{node.id}: loop.while: {error}", error.hint)
        return
    for complaint in condition_types(condition, sight):
        message = f"{node.id}: loop.while: {complaint.message}"
        yield place, Complaint(complaint.severity, message, complaint.hint)
    if not condition.reads and not condition.uses_now:
        message = f"{node.id}: loop.while: `{loop.repeat_while}` is the same in every round"
        yield place, Complaint("error", message, "name an output of the flow")


def input_findings(name: str, schema: JsonObject, place: DocumentPath) -> Iterator[Finding]:
    """Yields problems of one input of a flow: its name, its schema, and its default."""
    yield from _reserved(name, "input", place)
    plain = {key: value for key, value in schema.items() if key != "required" or not isinstance(value, bool)}
    problem = schema_problem(plain)
    if problem is not None:
        yield place, Complaint("error", f"the input {name!r}: its schema is not valid: {problem}")
        return
    if "default" in schema and mentions_secrets(plain):
        message = f"the input {name!r} is a secret, and its default stands here for all to read"
        yield place, Complaint("warning", message, "leave the default out, or read ${secrets.NAME} instead")
    types = types_of(plain, plain)
    if "default" in schema and not fits(frozenset({type_of(schema["default"])}), types):
        given = article([type_of(schema["default"])])
        yield (
            place,
            Complaint("error", f"the input {name!r}: its default is {given}, but should be {article(types)}"),
        )


def _reserved(name: str, what: str, place: DocumentPath) -> Iterator[Finding]:
    """Yields the complaint about a name that templates keep for something else."""
    if name == SECRETS:
        message = f"the {what} {name!r} has the name of the workspace's secrets, ${{secrets.NAME}}"
        yield place, Complaint("error", message, "give it another name")


def _secrets_in_clear(node: NodeDefinition, tool: Tool | None, here: DocumentPath) -> Iterator[Finding]:
    """Yields the complaint about secrets that are written in the flow itself."""
    if tool is None or not marks_secrets(tool):
        return
    for name, value in node.params.items():
        schema = tool.input_schema.get("properties", {}).get(name)
        if is_object(schema) and mentions_secrets(schema) and value and not holds_template(value):
            message = f"{node.id}: `{name}` is a secret, which stands here for all to read"
            hint = "`spindle secret set NAME` keeps it, and ${secrets.NAME} reads it"
            yield (*here, "params", name), Complaint("warning", message, hint)


class InputSchemas:
    """The input schemas of the tools of a flow, each compiled once: many nodes may call the same tool."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[JsonObject, CompiledSchema | None]] = {}

    def errors(self, tool: Tool, given: JsonObject) -> Iterator[tuple[list[str | int], str]]:
        """Yields the path and message of every argument that does not fit the tool's schema."""
        schema = self._of(tool.input_schema)
        for steps, problem in schema.mistakes(given) if schema is not None else ():
            if steps:  # what is said of all arguments together speaks of those that are not here
                yield steps, problem

    def _of(self, schema: JsonObject) -> CompiledSchema | None:
        """None for a schema that is not valid: a call says what is wrong with it."""
        if id(schema) not in self._compiled:
            try:
                compiled = CompiledSchema(schema)
            except ValueError:
                compiled = None
            self._compiled[id(schema)] = schema, compiled  # kept, so that no other gets this id
        return self._compiled[id(schema)][1]


def no_input(node: NodeDefinition, name: str, shape: Shape) -> Complaint:
    """Returns the complaint about an argument that the tool does not have."""
    known = (
        f"there are {', '.join(shape.takes)}" if shape.takes else f"{node.tool or node.id} takes no inputs"
    )
    message = f"{node.id}: {node.tool or 'the flow'} has no input {name!r}"
    return Complaint("error", message, did_you_mean(name, shape.takes, known))


def types_wanted(shape: Shape, name: str) -> Types:
    """Returns the types that a node accepts for an argument."""
    schema = schema_wanted(shape, name)
    return types_of(schema, schema)


def schema_wanted(shape: Shape, name: str) -> JsonObject:
    """Returns the schema of an argument; an empty one if it is not known."""
    key = shape.takes.get(name)
    return key.schema if key is not None else {}


def name_of(node: NodeDefinition, name: str) -> str:
    """Returns an argument of a node as messages call it."""
    return f"{node.id}: `{name}`"
