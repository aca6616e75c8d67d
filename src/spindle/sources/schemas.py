"""Schemas of OpenAPI and AsyncAPI as JSON Schema 2020-12, each converted once and shared by all tools.

A schema is converted where it stands, in the document that was just read: the documents of large APIs
have hundreds of thousands of nodes, and copies of them are what makes other importers slow. What conversion
takes from its place is remembered, because a reference that comes later may lead there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from spindle.documents.refs import MAX_HOPS, Document, Documents
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError
from spindle.sources.schema_circles import circles, of_the_same_value

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_DROPPED = frozenset({"externalDocs", "$schema", "$id", "$anchor", "id", "allowEmptyValue"})
_INSIDE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
           "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_INSIDE_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_INSIDE_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SAME_VALUE = ("allOf", "anyOf", "oneOf")
_BESIDE_REFERENCES = ("description", "readOnly", "writeOnly", "deprecated")

UPLOAD: JsonObject = {
    "description": "A file: its text, or an object with its name, type and content.",
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "filename": {"type": "string"},
                "content": {"type": "string", "description": "the content as text"},
                "data": {"type": "string", "description": "the content as base64"},
                "content_type": {"type": "string"},
            },
            "additionalProperties": False,
            "oneOf": [{"required": ["content"]}, {"required": ["data"]}],
        },
    ],
}


class Schemas:
    """Converts schemas of one source, and collects the definitions they refer to."""

    def __init__(self, documents: Documents, *, version: str) -> None:
        self._documents = documents
        # 3.1 and later are JSON Schema already; references are all that differs.
        self._older = not version.startswith(("3.1", "3.2"))
        self.definitions: dict[str, JsonObject] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._converted: dict[int, JsonObject] = {}
        """By id. It holds the objects, too: the id of one that is gone may become another's."""
        self._waiting: list[tuple[str, Any, Document]] = []
        self.holes: dict[str, str] = {}
        """By definition, why it takes any value: its reference leads nowhere, or back to itself alone."""
        self._taken: dict[int, JsonObject] = {}
        """By converted object, the entries that it had and has no more."""
        self._places: dict[str, tuple[str, str]] = {}
        """By definition, the address that references to it had."""
        self._one_way: dict[tuple[str, str], bool] = {}
        self._discriminators = 0

    def convert(self, schema: Any, document: Document) -> JsonObject:
        """Returns the schema, ready for a tool."""
        if not is_object(schema):
            return {"not": {}} if schema is False else {}
        self._convert(schema, document)
        while self._waiting:
            name, node, where = self._waiting.pop()
            if is_object(node):
                self._convert(node, where)
            self.definitions[name] = node if is_object(node) else {"not": {}} if node is False else {}
        return schema

    def upload(self) -> JsonObject:
        """Returns a reference to the schema of files that are sent."""
        name = self._names.get(("", "upload"))
        if name is None:
            name = self._new_name("", "UploadedFile", "upload")
            self.definitions[name] = UPLOAD
        return {"$ref": f"#/$defs/{name}"}

    def resolve(self, schema: JsonObject) -> JsonObject:
        """Follows a converted schema's references to the schema that says something."""
        for _ in range(MAX_HOPS):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self.definition(reference)
        return {}

    def definition(self, reference: str) -> JsonObject:
        """Returns the converted schema that one reference stands for; `{}` where there is none."""
        return self.definitions.get(reference.removeprefix("#/$defs/"), {})

    def remarks(self) -> list[str]:
        """Returns what a user should know of the schemas as a whole."""
        if not self._discriminators:
            return []
        count = f"{self._discriminators} schema{'s' if self._discriminators > 1 else ''}"
        return [f"{count} with a discriminator but no list of choices: it is shown, and not checked"]

    def holes_of(self, names: Iterable[str]) -> list[str]:
        """Returns why some of these definitions take any value, in the words of a note."""
        return [f"{self.holes[name]}, so that any value is taken" for name in names if name in self.holes]

    def cut_circles(self) -> None:
        """Opens every schema that is defined by nothing but itself: checking a value would never end."""
        cuts: dict[str, set[str]] = {}
        for name, other, way in circles(self.definitions):
            cuts.setdefault(name, set()).add(f"#/$defs/{other}")
            self.holes.setdefault(name, f"the schema {other} goes in a circle: {way}")
        for name, references in cuts.items():
            for node in of_the_same_value(self.definitions[name]):
                if node.get("$ref") in references:
                    del node["$ref"]

    def remember(self, holder: JsonObject, taken: JsonObject) -> None:
        """Notes entries that are about to be taken from an object, for references that lead through them."""
        kept = {key: value for key, value in taken.items() if is_object(value) or is_array(value)}
        if kept:
            self._taken[id(holder)] = {**kept, **self._taken.get(id(holder), {})}

    def _as_read(self, node: JsonObject) -> JsonObject:
        taken = self._taken.get(id(node))
        reference = node.get("$ref")
        if isinstance(reference, str) and id(node) in self._converted:
            taken = {**(taken or {}), "$ref": self._original(reference)}
        return node if taken is None else {**node, **taken}

    def _original(self, reference: str) -> str:
        """Returns a converted reference as one that leads into the documents."""
        place = self._places.get(reference.removeprefix("#/$defs/"))
        return reference if place is None else f"{place[0]}#{place[1]}"

    def _convert(self, schema: JsonObject, document: Document) -> None:
        if id(schema) in self._converted:
            return
        self._converted[id(schema)] = schema
        if self._older and isinstance(schema.get("$ref"), str):
            self._keep_beside_reference(schema, document)
            return
        if schema.get("x-nullable") is True:
            schema["nullable"] = True
        dropped = [key for key in schema if key.startswith("x-") or key in _DROPPED]
        if dropped:
            self.remember(schema, {key: schema.pop(key) for key in dropped})
        if "discriminator" in schema:
            self._keep_discriminator(schema)
        if "required" in schema:
            self._loosen_required(schema, document)
        if schema.get("nullable") is True and not isinstance(schema.get("type"), str):
            self.remember(schema, schema)
        _modernise(schema)
        if isinstance(reference := schema.get("$ref"), str):
            schema["$ref"] = f"#/$defs/{self._name(reference, document)}"
        for key, value in schema.items():
            if key in _INSIDE:
                if is_object(value):
                    self._convert(value, document)
                elif key == "items" and is_array(value):
                    self._convert_all(value, document)
            elif key in _INSIDE_LISTS:
                if is_array(value):
                    self._convert_all(value, document)
            elif key in _INSIDE_MAPS and is_object(value):
                self._convert_all(value.values(), document)

    def _convert_all(self, schemas: Any, document: Document) -> None:
        for schema in schemas:
            if is_object(schema):
                self._convert(schema, document)

    def _keep_discriminator(self, schema: JsonObject) -> None:
        """Keeps the discriminator for a model to read. JSON Schema has none, and checks the choices
        themselves."""
        given = schema.pop("discriminator")
        given = {"propertyName": given} if isinstance(given, str) else given
        if not is_object(given) or not isinstance(given.get("propertyName"), str):
            return
        kept: JsonObject = {"propertyName": given["propertyName"]}
        mapping = given.get("mapping")
        if is_object(mapping):
            kept["mapping"] = {value: str(target).rpartition("/")[2] for value, target in mapping.items()}
        schema["discriminator"] = kept
        if "oneOf" not in schema and "anyOf" not in schema:
            self._discriminators += 1

    def _keep_beside_reference(self, schema: JsonObject, document: Document) -> None:
        """Before 3.1 a reference stands alone; what writers mean by these beside it is plain."""
        nullable = schema.get("nullable") is True
        reference = f"#/$defs/{self._name(schema['$ref'], document)}"
        kept = {key: schema[key] for key in _BESIDE_REFERENCES if key in schema}
        self.remember(schema, {key: value for key, value in schema.items() if key not in kept})
        schema.clear()
        if nullable:
            schema["anyOf"] = [{"$ref": reference}, {"type": "null"}]
            self._taken[id(schema)] = {**self._taken.get(id(schema), {}), "$ref": self._original(reference)}
        else:
            schema["$ref"] = reference
        schema.update(kept)

    def _loosen_required(self, schema: JsonObject, document: Document) -> None:
        """A read-only property is required in answers only, a write-only one in requests only; one schema
        serves both."""
        required, properties = schema["required"], schema.get("properties")
        if not is_array(required):
            # Draft 3 wrote `required: true` on the property itself.
            del schema["required"]
        elif is_object(properties):
            schema["required"] = [
                name
                for name in required
                if not (isinstance(name, str) and self._is_one_way(properties.get(name), document))
            ]
            if not schema["required"]:
                del schema["required"]

    def _is_one_way(self, schema: Any, document: Document) -> bool:
        """True if a value is for answers only, or for requests only. It may be its reference that says so."""
        passed: list[tuple[str, str]] = []
        found = False
        while is_object(schema) and len(passed) < MAX_HOPS:
            found = schema.get("readOnly") is True or schema.get("writeOnly") is True
            reference = self._as_read(schema).get("$ref")
            if found or not isinstance(reference, str):
                break
            address = self._documents.address(reference, document)
            if address in self._one_way:
                found = self._one_way[address]
                break
            passed.append(address)
            try:
                target = self._documents.target(reference, document, self._as_read)
            except ConfigurationError:
                break  # noted where it is converted
            schema, document = target.node, target.document
        self._one_way |= dict.fromkeys(passed, found)
        return found

    def is_read_only(self, schema: JsonObject) -> bool:
        """True if a converted schema, or what it refers to, is one of answers only."""
        for _ in range(MAX_HOPS):
            if schema.get("readOnly") is True or not isinstance(schema.get("$ref"), str):
                break
            schema = self.definition(schema["$ref"])
        return schema.get("readOnly") is True

    def _name(self, reference: str, document: Document) -> str:
        """The definition that stands for a reference. The first to need it queues its schema."""
        where, pointer = self._documents.address(reference, document)
        name = self._names.get((where, pointer))
        if name is None:
            last = pointer.rpartition("/")[2] or where.rpartition("/")[2].partition(".")[0]
            if last.isdigit():
                last = "_".join(pointer.split("/")[-3:])  # `Pet_oneOf_0`
            name = self._new_name(where, last, pointer)
            self.definitions[name] = {}
            try:
                target = self._documents.target(reference, document, self._as_read)
            except ConfigurationError as error:
                self.holes[name] = error.message
            else:
                self._waiting.append((name, target.node, target.document))
        return name

    def _new_name(self, where: str, wanted: str, pointer: str) -> str:
        base = _ILLEGAL.sub("_", wanted) or "schema"
        name, number = base, 1
        while name in self.definitions:
            number += 1
            name = f"{base}_{number}"
        self._names[where, pointer] = name
        self._places[name] = where, pointer
        return name


def _modernise(schema: JsonObject) -> None:
    """Rewrites the keywords that OpenAPI 3.0 and Swagger 2 have of their own."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if "example" in schema:
        schema["examples"] = [schema.pop("example")]
    elif is_object(schema.get("examples")):
        del schema["examples"]
    if is_array(schema.get("examples")):
        # A reference is no example. It would look like one that leads nowhere.
        kept = [item for item in schema["examples"] if not (is_object(item) and "$ref" in item)]
        if len(kept) < len(schema["examples"]):
            schema["examples"] = kept
        if not kept:
            del schema["examples"]
    if schema.get("type") == "file":
        schema["type"] = "string"
        schema["format"] = "binary"
    if schema.pop("nullable", None) is True:
        _allow_null(schema)


def _allow_null(schema: JsonObject) -> None:
    declared, choices = schema.get("type"), schema.get("enum")
    if isinstance(declared, str):
        schema["type"] = [declared, "null"]
        if is_array(choices) and None not in choices:
            schema["enum"] = [*choices, None]
    elif any(key in schema for key in (*_SAME_VALUE, "enum", "not")):
        inner = dict(schema)
        described = {key: inner.pop(key) for key in ("description", "title", "default") if key in inner}
        schema.clear()
        schema.update(described, anyOf=[inner, {"type": "null"}])
