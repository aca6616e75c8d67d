"""Schemas of OpenAPI and AsyncAPI as JSON Schema 2020-12, each converted once and shared by all tools.

A schema is converted where it stands, in the document that was just read: the documents of large APIs
have hundreds of thousands of nodes, and copies of them are what makes other importers slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spindle.calls.validate import schema_problem
from spindle.documents.refs import MAX_HOPS, Document, Documents, broken
from spindle.domain.json_schema import JsonObject, is_array, is_object

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_DROPPED = ("externalDocs", "$schema", "$id", "$anchor", "id", "allowEmptyValue")
_INSIDE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
           "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_INSIDE_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_INSIDE_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SAME_VALUE = ("allOf", "anyOf", "oneOf")

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
        self._converted: set[int] = set()
        self._waiting: list[tuple[str, Any, Document]] = []
        self._patterns: dict[str, bool] = {}
        self.problems: list[str] = []
        """Parts of schemas that cannot be checked."""
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

    def check_circles(self) -> None:
        """Refuses a schema that is defined by nothing but itself: checking a value would never end."""
        names = circle(self.definitions)
        if names is not None:
            reference = f"#/components/schemas/{names[0]}"
            raise broken(self._documents.main, reference, f"goes in a circle: {' → '.join(names)}")

    def _convert(self, schema: JsonObject, document: Document) -> None:
        if id(schema) in self._converted:
            return
        self._converted.add(id(schema))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema["$ref"] = f"#/$defs/{self._name(reference, document)}"
            if self._older:
                self._keep_beside_reference(schema)
                return
        if schema.get("x-nullable") is True:
            schema["nullable"] = True
        for key in [key for key in schema if key.startswith("x-")]:
            del schema[key]
        for key in _DROPPED:
            if key in schema:
                del schema[key]
        if "discriminator" in schema:
            self._keep_discriminator(schema)
        if "required" in schema:
            _loosen_required(schema)
        _modernise(schema)
        if "pattern" in schema:
            self._check_pattern(schema)
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

    def _check_pattern(self, schema: JsonObject) -> None:
        """One bad expression would make every tool whose schema reaches it unusable."""
        pattern = schema["pattern"]
        known = self._patterns.get(str(pattern))
        if known is None:
            known = self._patterns[str(pattern)] = schema_problem({"pattern": pattern}) is None
            if not known:
                self.problems.append(f"the pattern {pattern!r} cannot be read, and is not checked")
        if not known:
            del schema["pattern"]

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

    def _keep_beside_reference(self, schema: JsonObject) -> None:
        """Before 3.1 a reference stands alone; what writers mean by these two beside it is plain."""
        nullable = schema.get("nullable") is True
        kept = {key: schema[key] for key in ("$ref", "description") if key in schema}
        schema.clear()
        if nullable:
            schema["anyOf"] = [{"$ref": kept.pop("$ref")}, {"type": "null"}]
        schema.update(kept)

    def _name(self, reference: str, document: Document) -> str:
        """The definition that stands for a reference. The first to need it queues its schema."""
        where, pointer = self._documents.address(reference, document)
        name = self._names.get((where, pointer))
        if name is None:
            target = self._documents.target(reference, document)
            last = pointer.rpartition("/")[2] or where.rpartition("/")[2].partition(".")[0]
            name = self._new_name(where, last, pointer)
            self.definitions[name] = {}
            self._waiting.append((name, target.node, target.document))
        return name

    def _new_name(self, where: str, wanted: str, pointer: str) -> str:
        base = _ILLEGAL.sub("_", wanted) or "schema"
        name, number = base, 1
        while name in self.definitions:
            number += 1
            name = f"{base}_{number}"
        self._names[where, pointer] = name
        return name


def _loosen_required(schema: JsonObject) -> None:
    """A read-only property is required in answers only, a write-only one in requests only; one schema
    serves both."""
    required, properties = schema["required"], schema.get("properties")
    if not is_array(required):
        # Draft 3 wrote `required: true` on the property itself.
        del schema["required"]
    elif is_object(properties):
        one_way = {
            name
            for name, value in properties.items()
            if is_object(value) and (value.get("readOnly") is True or value.get("writeOnly") is True)
        }
        kept = [name for name in required if not (isinstance(name, str) and name in one_way)]
        schema["required"] = kept
        if not kept:
            del schema["required"]


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


def circle(definitions: Mapping[str, Any]) -> list[str] | None:
    """Returns the names of schemas that are defined by nothing but each other, the first again at the end."""
    done: set[str] = set()
    for start in definitions:
        path: dict[str, None] = {}
        ways = [iter([start])]
        while ways:
            name = next(ways[-1], None)
            if name is None:
                ways.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                names = list(path)
                return [*names[names.index(name) :], name]
            elif name not in done:
                path[name] = None
                ways.append(_of_the_same_value(definitions.get(name)))
    return None


def _of_the_same_value(schema: Any) -> Iterator[str]:
    """Yields the definitions that each value of a schema must fit itself, and not only a part of it."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not is_object(node):
            continue
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for key in _SAME_VALUE:
            if is_array(node.get(key)):
                waiting += node[key]
