"""Swagger 2 in the shape of OpenAPI 3: its operations, servers and security schemes."""

from __future__ import annotations

from typing import Any

from spindle.documents.refs import Document, Located, entries
from spindle.domain.json_schema import JsonObject, is_array, is_object

_SCHEMA_KEYS = frozenset(
    {
        "type", "format", "items", "enum", "default", "pattern", "uniqueItems", "multipleOf",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
        "minItems", "maxItems", "x-nullable", "x-example",
    }
)  # fmt: skip
# collectionFormat → (style, explode)
_COLLECTIONS = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
    "tsv": ("tabDelimited", False),
}
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


def operation_of(
    operation: JsonObject, shared: list[Located], root: JsonObject
) -> tuple[JsonObject, list[Located], Document | None]:
    """Returns the operation with `requestBody`, its parameters without body and form ones, and the document
    that the body's references start from, if it has one of its own."""
    consumes = _types(operation.get("consumes", root.get("consumes")))
    kept: list[Located] = []
    fields: list[Located] = []
    body: JsonObject | None = None
    where: Document | None = None
    for located in shared:
        parameter = located.node
        place = parameter.get("in")
        if place == "body":
            media, where = consumes or ["application/json"], located.document
            body = {
                "description": parameter.get("description", ""),
                "required": parameter.get("required", False),
                "content": {name: {"schema": parameter.get("schema", {})} for name in media},
            }
        elif place == "formData":
            fields.append(located)
        else:
            kept.append(Located(parameter_of(parameter), located.document))
    if fields:
        body = _form(fields, consumes)
    changed = {key: value for key, value in operation.items() if key not in ("parameters", "requestBody")}
    if body is not None:
        changed["requestBody"] = body
    return changed, kept, where


def content_of(response: Any, operation: JsonObject, root: JsonObject) -> JsonObject:
    """Returns the `content` of a response of an operation."""
    schema = entries(response).get("schema")
    produces = _types(operation.get("produces", root.get("produces"))) or ["application/json"]
    return {name: {"schema": schema} for name in produces} if is_object(schema) else {}


def parameter_of(parameter: JsonObject) -> JsonObject:
    """Returns a parameter with `schema`, `style` and `explode`."""
    if "schema" in parameter or "content" in parameter:
        return parameter
    changed = {key: value for key, value in parameter.items() if key not in _SCHEMA_KEYS}
    changed["schema"] = _schema_in(parameter)
    if parameter.get("type") == "array":
        default = "csv"
        style, explode = _COLLECTIONS.get(str(parameter.get("collectionFormat", default)), ("form", False))
        # In a path or a header only commas are known to OpenAPI 3.
        changed["style"] = (
            "simple" if parameter.get("in") in ("path", "header") and style == "form" else style
        )
        changed["explode"] = explode
    return changed


def servers_of(root: JsonObject) -> list[JsonObject]:
    """Returns `servers` made of schemes, host and base path."""
    host, base = root.get("host"), str(root.get("basePath") or "/")
    if not host:
        return [{"url": base}]
    schemes = [scheme for scheme in _types(root.get("schemes")) if scheme in ("https", "http")]
    # Of several the safe one, whatever the order.
    for scheme in sorted(schemes, reverse=True) or [""]:
        return [{"url": f"{scheme}{':' if scheme else ''}//{host}{base}"}]
    return []


def security_schemes_of(root: JsonObject) -> JsonObject:
    """Returns the security schemes as OpenAPI 3 writes them."""
    found: JsonObject = {}
    for name, scheme in entries(root.get("securityDefinitions")).items():
        basic = is_object(scheme) and scheme.get("type") == "basic"
        found[name] = {"type": "http", "scheme": "basic"} if basic else scheme
    return found


def _form(fields: list[Located], consumes: list[str]) -> JsonObject:
    properties: JsonObject = {}
    encoding: JsonObject = {}
    has_file = False
    for located in fields:
        parameter = located.node
        name = str(parameter.get("name"))
        properties[name] = {**_schema_in(parameter), "description": parameter.get("description", "")}
        has_file = has_file or parameter.get("type") == "file"
        if parameter.get("type") == "array":
            style, explode = _COLLECTIONS.get(str(parameter.get("collectionFormat")), ("form", False))
            encoding[name] = {"style": style, "explode": explode}
    media = [name for name in consumes if name in _FORMS] or ["application/x-www-form-urlencoded"]
    required = [str(located.node.get("name")) for located in fields if located.node.get("required") is True]
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    chosen = "multipart/form-data" if has_file else media[0]
    return {"required": bool(required), "content": {chosen: {"schema": schema, "encoding": encoding}}}


def _schema_in(parameter: JsonObject) -> JsonObject:
    return {key: value for key, value in parameter.items() if key in _SCHEMA_KEYS}


def _types(value: Any) -> list[str]:
    return [str(item) for item in value] if is_array(value) else []
