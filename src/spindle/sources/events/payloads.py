"""Turns the payloads of messages into the schema of a tool's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spindle.documents.refs import Documents
from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import JsonObject, canonical, is_object, types_of
from spindle.errors import SpindleError
from spindle.schemas.compiled import schema_problem
from spindle.schemas.repair import Repairs, Usable
from spindle.sources.events.operations import EventMessage
from spindle.sources.schema_circles import circles
from spindle.sources.schemas import Schemas

PAYLOAD = "payload"
"""The argument that holds a payload which is not an object."""
PERMISSIVE: JsonObject = {"type": "object"}
# Beside these an object's properties stand alone, so that others can be added to them.
_PLAIN = frozenset({
    "type", "title", "description", "properties", "required", "additionalProperties", "examples",
    "deprecated", "default", "$comment", "minProperties",
})  # fmt: skip
_JSON_SCHEMA = ("application/vnd.aai.asyncapi", "application/schema+", "application/vnd.oai.openapi")


@dataclass(slots=True)
class Arguments:
    """The arguments of a tool, and the way they become a payload."""

    schema: JsonObject
    wrapped: bool
    """True if the payload is a single argument."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The parameters of the channel, by the argument that fills them."""


class Payloads:
    """Converts the payloads of one document."""

    def __init__(self, documents: Documents) -> None:
        self._schemas = Schemas(documents, version="3.1")
        self._repairs = Repairs()
        self._usable: dict[int, JsonObject] = {}
        """By payload, which the documents keep: many operations send the same messages."""

    def definitions(self) -> Definitions:
        """The definitions that the schemas refer to, so far: each payload may add some."""
        return Definitions(self._schemas.definitions)

    def schema(self, message: EventMessage, note: Callable[[str], None]) -> JsonObject:
        """The schema of one message. One that cannot be used accepts every object, with a note."""
        if message.payload is None:
            return dict(PERMISSIVE)
        kind = (message.schema_format or _JSON_SCHEMA[0]).lower()
        if not kind.startswith(_JSON_SCHEMA):
            note(f"the payload of {message.name} is described as {kind}, which is not checked")
            return dict(PERMISSIVE)
        node = message.payload.node
        if node is True or node == {}:
            return dict(PERMISSIVE)
        known = self._usable.get(id(node))
        if known is not None:
            return known
        usable = Usable({})
        try:
            problem = None if is_object(node) else f"it is {node!r}"
            schema = self._schemas.convert(node, message.payload.document) if problem is None else {}
            whole = self.definitions().completed(schema)
            holes = self._schemas.holes_of(whole.get("$defs", {}))
            for hole in holes:
                note(f"the payload of {message.name}: {hole}")
            if holes and not self._schemas.resolve(schema):
                return dict(PERMISSIVE)
            usable = self._repairs.of(whole)
            problem = problem or _circular(usable.schema) or schema_problem(usable.schema)
            if problem is None and usable.faults and not usable.schema.keys() - {"$defs"}:
                problem = usable.faults[0]
        except SpindleError as error:
            schema, problem = {}, error.message
        except RecursionError:
            schema, problem = {}, "it is nested too deeply"
        if problem is not None:
            note(f"the payload of {message.name} cannot be used, and is not checked: {problem}")
            return dict(PERMISSIVE)
        # Definitions are shared by all tools, and repaired with them.
        for fault in usable.faults:
            if not fault.startswith("$defs."):
                note(f"the payload of {message.name} is loosened: {fault}")
        made = {key: value for key, value in usable.schema.items() if key != "$defs"}
        self._usable[id(node)] = made
        return made

    def arguments(self, payloads: list[JsonObject], parameters: dict[str, JsonObject]) -> Arguments:
        """One schema for all payloads that may be sent, and for the channel's parameters."""
        unique = list({canonical(item): item for item in payloads}.values()) or [dict(PERMISSIVE)]
        if all(self._is_object(item) for item in unique):
            whole = self._whole(unique)
            if not parameters or _PLAIN.issuperset(whole):
                return beside(whole, parameters)
        payload = unique[0] if len(unique) == 1 else {"oneOf": unique}
        wrapper: JsonObject = {
            "type": "object",
            "properties": {PAYLOAD: payload},
            "required": [PAYLOAD],
            "additionalProperties": False,
        }
        arguments = beside(wrapper, parameters)
        arguments.wrapped = True
        return arguments

    def _whole(self, unique: list[JsonObject]) -> JsonObject:
        if len(unique) > 1:
            return {"type": "object", "oneOf": unique}
        schema = unique[0]
        if "$ref" in schema and not schema.keys() - {"$ref", "title", "description"}:
            # Models and forms read the properties at the top of the schema.
            schema = {**self._schemas.resolve(schema), **{k: v for k, v in schema.items() if k != "$ref"}}
        return {"type": "object", **schema} if schema.get("type") != "object" else dict(schema)

    def _is_object(self, schema: JsonObject) -> bool:
        whole = self.definitions().completed(schema)
        return types_of(whole, whole) == frozenset({"object"})


def beside(schema: JsonObject, parameters: dict[str, JsonObject]) -> Arguments:
    """The schema with the channel's parameters among its properties. A parameter whose name is taken gets
    another."""
    if not parameters:
        return Arguments(schema, wrapped=False)
    properties = dict(schema.get("properties") or {})
    required = list(schema.get("required") or [])
    names: dict[str, str] = {}
    for parameter, described in parameters.items():
        name = parameter if parameter not in properties else f"channel_{parameter}"
        while name in properties:
            name += "_"
        names[name] = parameter
        properties[name] = described
        if "default" not in described:
            required.append(name)
    whole = {**schema, "properties": properties}
    return Arguments(whole | ({"required": required} if required else {}), wrapped=False, names=names)


def _circular(whole: JsonObject) -> str | None:
    found = next(circles(whole.get("$defs", {})), None)
    return None if found is None else f"{found[1]} is defined by nothing but itself"
