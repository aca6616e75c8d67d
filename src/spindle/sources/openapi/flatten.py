"""One flat input schema from an operation's parameters and body, and the way back.

Arguments of a tool have one set of names; an operation may use one name in its path, its query, its
headers, its cookies and its body. The first in that order keeps the name, the others get the place
behind it (`id_query`), and the property says so.
"""

from __future__ import annotations

from typing import Any

from spindle.documents.refs import Located, entries
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError
from spindle.http.bodies import body_kind
from spindle.http.encode import DEFAULT_STYLE, STYLES_OF
from spindle.http.request import FRAMING, HEADER_NAME
from spindle.sources.schemas import Schemas

PLACES = ("path", "query", "header", "cookie")
# OpenAPI says that parameters of the first names are to be ignored; other parts of the document set them.
_SET_BY_US = {
    "accept": "its responses",
    "content-type": "its body",
    "authorization": "`auth`",
    **dict.fromkeys((*FRAMING, "host"), "the request itself"),
}
# Types of bytes, also where a careless schema says no more than `string`.
_BYTES = frozenset(
    {
        "application/octet-stream", "application/pdf", "application/zip", "application/gzip",
        "application/x-gzip", "application/x-tar", "application/x-zip-compressed", "application/protobuf",
        "application/x-protobuf", "application/msgpack", "application/binary", "application/cbor",
    }
)  # fmt: skip
_PLAIN_OBJECT = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "title", "description", "default",
        "examples", "example", "xml", "$ref", "allOf", "deprecated", "readOnly", "writeOnly", "format",
        "discriminator",
    }
)  # fmt: skip


class Flattener:
    """Collects the arguments of one operation."""

    def __init__(self, schemas: Schemas, problems: list[str], remarks: list[str]) -> None:
        self._schemas = schemas
        self._problems = problems
        """Parts that cannot be represented, for the user to read."""
        self._remarks = remarks
        self.properties: JsonObject = {}
        self.required: list[str] = []
        self.parameters: list[JsonObject] = []
        self.body: JsonObject | None = None
        self._additional: Any = False
        self._dependent: dict[str, list[str]] = {}

    def schema(self) -> JsonObject:
        """Returns the input schema of everything that was added."""
        schema: JsonObject = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = self.required
        if self._dependent:
            schema["dependentRequired"] = self._dependent
        schema["additionalProperties"] = self._additional
        return schema

    # --- parameters

    def add_parameters(self, parameters: list[Located]) -> None:
        """Adds the parameters of an operation, each under a name of its own."""
        for place in PLACES:
            for located in parameters:
                if located.node.get("in") == place:
                    self._add_parameter(located, place)
        for located in parameters:
            if located.node.get("in") not in PLACES:
                name, place = located.node.get("name"), located.node.get("in")
                self._problems.append(f"the parameter {name!r} in {place!r} cannot be sent")

    def _add_parameter(self, located: Located, place: str) -> None:
        parameter = located.node
        name = parameter.get("name")
        if not isinstance(name, str) or not name:
            self._problems.append(f"a parameter in {place} has no name")
            return
        if place == "header" and name.lower() in _SET_BY_US:
            setter = _SET_BY_US[name.lower()]
            self._remarks.append(f"the header {name} is no argument: it follows from {setter}")
            return
        if place == "header" and not HEADER_NAME.fullmatch(name):
            problem = f"the header {name!r} cannot be sent: that is not the name of a header"
            if parameter.get("required") is True:
                raise ConfigurationError(problem)
            self._problems.append(problem)
            return
        argument = self._claim(name, place)
        how: JsonObject = {"argument": argument, "name": name, "in": place}
        content = parameter.get("content")
        if is_object(content) and content:
            how["media_type"], media = next(iter(content.items()))
            raw = entries(media).get("schema", {})
        else:
            raw = parameter.get("schema", {})
            how |= self._style(parameter, place, name)
        schema = self._schemas.convert(raw, located.document)
        self._add_property(argument, schema, parameter, self._renamed(argument, name, place))
        # The path cannot be written without its parameters, whether the document says so or not.
        if parameter.get("required") is True or place == "path":
            self.required.append(argument)
        self.parameters.append(how)

    def _style(self, parameter: JsonObject, place: str, name: str) -> JsonObject:
        default = DEFAULT_STYLE[place]
        style = parameter.get("style", default)
        if style not in STYLES_OF[place]:
            self._problems.append(f"{name!r}: style {style!r} is not known in {place}, {default!r} is used")
            style = default
        explode = parameter.get("explode")
        if not isinstance(explode, bool):
            explode = style in ("form", "deepObject")
        how: JsonObject = {"style": style, "explode": explode}
        if parameter.get("allowReserved") is True:
            how["reserved"] = True
        return how

    # --- body

    def add_body(self, body: JsonObject, media_type: str, media: JsonObject, document: Any) -> None:
        """Adds the body: its properties beside the parameters where that can be undone, else as one
        argument."""
        required = body.get("required") is True
        raw = media.get("schema")
        schema = self._schemas.convert(raw, document) if is_object(raw) else {}
        kind = body_kind(media_type)
        if kind == "binary" and is_text(self._schemas.resolve(schema), media_type):
            kind = "text"
        how: JsonObject = {"media_type": media_type, "kind": kind}
        encoding = media.get("encoding")
        if kind in ("form", "multipart") and is_object(encoding):
            how["encoding"] = {
                name: {key: entry[key] for key in ("style", "explode", "contentType") if key in entry}
                for name, entry in encoding.items()
                if is_object(entry)
            }
            if any(is_object(entry) and entry.get("headers") for entry in encoding.values()):
                self._problems.append("headers of single parts of its body are not sent")
        plain = self._plain_object(schema) if kind not in ("text", "binary") else None
        if plain is None:
            self._add_whole_body(body, schema, how, required)
        else:
            self._add_fields(plain, how, required)
        if kind == "xml":
            resolved = self._schemas.resolve(schema)
            reference = schema.get("$ref")
            name = reference.rpartition("/")[2] if isinstance(reference, str) else "root"
            xml = resolved.get("xml")
            how["root"] = xml.get("name", name) if is_object(xml) else name
            for key in ("namespace", "prefix"):
                if is_object(xml) and key in xml:
                    how[key] = xml[key]
        self.body = how

    def _add_whole_body(self, body: JsonObject, schema: JsonObject, how: JsonObject, required: bool) -> None:
        argument = self._claim("body", "body")
        if how["kind"] == "binary":
            schema = {
                **self._schemas.upload(),
                "description": "The body: base64, or an object with its type and content.",
            }
        self._add_property(argument, schema, body, None)
        if required:
            self.required.append(argument)
        how["argument"] = argument

    def _add_fields(self, plain: JsonObject, how: JsonObject, required: bool) -> None:
        fields: dict[str, str] = {}
        needed = plain["required"]
        for name, schema in plain["properties"].items():
            if is_object(schema) and self._schemas.is_read_only(schema):
                continue
            argument = self._claim(name, "body")
            fields[name] = argument
            given: JsonObject = schema if is_object(schema) else {}
            if how["kind"] == "multipart":
                given = self._with_uploads(given)
            self._add_property(argument, given, {}, self._renamed(argument, name, "body"))
        wanted = [fields[name] for name in needed if name in fields]
        if required:
            self.required += wanted
            how["required"] = True
        else:
            for argument in fields.values():
                others = [name for name in wanted if name != argument]
                if others:
                    self._dependent[argument] = others
        how["fields"] = {argument: name for name, argument in fields.items()}
        if plain["additional"] is not False:
            self._additional = plain["additional"]
            how["additional"] = True

    def _plain_object(self, schema: JsonObject) -> JsonObject | None:
        """The properties of a schema that is nothing but an object with some; None for all others."""
        if "discriminator" in self._schemas.resolve(schema):
            # It stands for several others, which have more properties than it says.
            return None
        properties: JsonObject = {}
        required: list[str] = []
        additional: Any = False
        waiting: list[Any] = [schema]
        for _ in range(64):
            if not waiting:
                break
            part = waiting.pop(0)
            if not is_object(part):
                return None
            reference = part.get("$ref")
            if isinstance(reference, str):
                beside = {key: value for key, value in part.items() if key != "$ref"}
                waiting[:0] = [self._schemas.definition(reference), *([beside] if beside else [])]
                continue
            if not _PLAIN_OBJECT.issuperset(part) or part.get("type", "object") != "object":
                return None
            inner = part.get("properties", {})
            if not is_object(inner) or any(name in properties for name in inner):
                return None
            properties |= inner
            names = part.get("required", [])
            required += [str(name) for name in names] if is_array(names) else []
            additional = part.get("additionalProperties", False) or additional
            if is_array(part.get("allOf")):
                waiting[:0] = part["allOf"]
        if waiting or not properties or not set(required).issubset(properties):
            return None
        return {"properties": properties, "required": list(dict.fromkeys(required)), "additional": additional}

    def _with_uploads(self, schema: JsonObject) -> JsonObject:
        resolved = self._schemas.resolve(schema)
        described = {key: resolved[key] for key in ("description",) if key in resolved}
        if is_file(resolved):
            return {**self._schemas.upload(), **described}
        items = resolved.get("items")
        if is_object(items) and is_file(self._schemas.resolve(items)):
            return {"type": "array", "items": self._schemas.upload(), **described}
        return schema

    # --- names and texts

    def _claim(self, name: str, place: str) -> str:
        argument = name
        if argument in self.properties:
            argument = f"{name}_{place}"
            number = 1
            while argument in self.properties:
                number += 1
                argument = f"{name}_{place}_{number}"
        self.properties[argument] = {}
        return argument

    @staticmethod
    def _renamed(argument: str, name: str, place: str) -> str | None:
        if argument == name:
            return None
        what = "the body's" if place == "body" else f"the {place} parameter"
        return f"(Sent as {what} `{name}`.)"

    def _add_property(
        self, argument: str, schema: JsonObject, described: JsonObject, remark: str | None
    ) -> None:
        texts = [described.get("description") or schema.get("description") or "", remark or ""]
        text = " ".join(part for part in texts if isinstance(part, str) and part)
        more: JsonObject = {"description": text} if text and text != schema.get("description") else {}
        if described.get("deprecated") is True:
            more["deprecated"] = True
        self.properties[argument] = {**schema, **more} if more else schema


def is_file(schema: JsonObject) -> bool:
    """Returns True for a schema of files that are sent."""
    if schema.get("type") != "string" and schema.get("type") != ["string", "null"]:
        return "contentMediaType" in schema and "type" not in schema
    media = schema.get("contentMediaType")
    binary = isinstance(media, str) and not media.startswith(("text/", "application/json"))
    return schema.get("format") in ("binary", "file") or (binary and "contentEncoding" not in schema)


def is_text(schema: JsonObject, media_type: str) -> bool:
    """Returns True for a body of a type that nobody knows and that its schema calls a text, such as
    `application/jwt`."""
    plain = media_type.partition(";")[0].strip().lower()
    declared = schema.get("type")
    return (
        (declared == "string" or declared == ["string", "null"])
        and plain.startswith("application/")
        and plain not in _BYTES
        and not is_file(schema)
    )


KINDS = ("json", "form", "multipart", "xml", "text", "binary")
"""The order in which one of several types of a body is chosen."""
