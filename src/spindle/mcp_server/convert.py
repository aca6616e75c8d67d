"""Converts tools, results and errors to the protocol's JSON. It is the same for both eras: the SDK leaves
out what an older one does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from spindle.domain import trail
from spindle.domain.apps import offered, with_pages
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.tool import SHOWN, Tool
from spindle.errors import SpindleError
from spindle.meanings import OWN_KEY

FileLink = Callable[[str], str]
"""Makes an address, that the client can read, of the path of a file in the file store."""


def to_wire_tool(tool: Tool, name: str) -> JsonObject:
    """A tool as the protocol lists it."""
    spec = tool.spec
    wire: JsonObject = {"name": name, "inputSchema": object_schema(tool.input_schema)}
    shown: JsonObject = spec.metadata.get(SHOWN) or {}
    if spec.title and not shown.get("untitled"):
        wire["title"] = spec.title
    if spec.description:
        wire["description"] = spec.description
    if tool.output_schema is not None:
        wire["outputSchema"] = _with_objects(tool.output_schema)
    hints = spec.hints
    annotations = {
        "readOnlyHint": hints.read_only,
        "destructiveHint": hints.destructive,
        "idempotentHint": hints.idempotent,
        "openWorldHint": hints.open_world,
    }
    said = {key: value for key, value in annotations.items() if value is not None}
    said |= shown.get("annotations") or {}
    wire |= {key: shown[key] for key in ("icons", "execution") if key in shown}
    if said:
        wire["annotations"] = said
    meta = spec.metadata.get("_meta")
    if is_object(meta) and meta:
        wire["_meta"] = with_pages(tool.source, meta)
    way = trail.read(spec.metadata.get(trail.FIELD))
    return trail.with_meta(wire, way) if way else wire


def object_schema(schema: JsonObject) -> JsonObject:
    """The protocol wants `type: object` to be written, which a schema may also imply."""
    schema = _with_objects(schema)
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _with_objects(schema: JsonObject) -> JsonObject:
    """Clients know properties at the top only as objects, and one that is `true` would cost them the list."""
    properties = schema.get("properties")
    if not is_object(properties) or not any(isinstance(part, bool) for part in properties.values()):
        return schema
    named = {name: _as_object(part) for name, part in properties.items()}
    return {**schema, "properties": named}


def _as_object(schema: Any) -> Any:
    if not isinstance(schema, bool):
        return schema
    return {} if schema else {"not": {}}


def plain_wire(result: Result) -> JsonObject | None:
    """The same as `to_wire_result` for one text, perhaps with data, as most results are; None for others."""
    if len(result.content) != 1 or result.is_error or result.meta is not None:
        return None
    [block] = result.content
    if block.type != "text" or block.annotations or block.besides or block.path is not None or block.uri:
        return None
    wire: JsonObject = {"content": [{"type": "text", "text": block.text or ""}]}
    if result.has_structured:
        wire["structuredContent"] = result.structured
    return wire


def to_wire_result(result: Result, file_link: FileLink, source: str | None = None) -> JsonObject:
    """A result as the protocol's JSON. `source` is that of the tool, under which its pages are offered."""
    if source is not None and (result.meta is not None or any(block.uri for block in result.content)):
        result = _with_pages(result, source)
    wire: JsonObject = {"content": [to_wire_block(block, file_link) for block in result.content]}
    if result.has_structured:
        wire["structuredContent"] = result.structured
    if result.meta is not None:
        wire["_meta"] = result.meta
    if result.is_error:
        wire["isError"] = True
        if result.meaning is not None:
            wire["_meta"] = {**(result.meta or {}), OWN_KEY: result.meaning.to_dict()}
    return wire


def _with_pages(result: Result, source: str) -> Result:
    blocks = [
        block if block.uri is None else replace(block, uri=offered(source, block.uri))
        for block in result.content
    ]
    meta = None if result.meta is None else with_pages(source, result.meta)
    return replace(result, content=tuple(blocks), meta=meta)


def to_wire_block(block: Block, file_link: FileLink) -> JsonObject:
    """A content block as the protocol's JSON."""
    wire = _block(block, file_link)
    if block.annotations:
        wire["annotations"] = block.annotations
    if block.besides:
        wire |= {key: value for key, value in block.besides.items() if key != "resource"}
        if "resource" in block.besides and "resource" in wire:
            wire["resource"] |= block.besides["resource"]
    return wire


def _block(block: Block, file_link: FileLink) -> JsonObject:
    if block.path is not None:
        return _link(
            uri=file_link(block.path),
            name=block.name or PurePath(block.path).name,
            description=f"the {block.type} was too large to send along; read this resource for it",
            mime_type=block.mime_type,
            size=block.size,
        )
    match block.type:
        case "text":
            return {"type": "text", "text": block.text or ""}
        case "image" | "audio":
            default = "image/png" if block.type == "image" else "audio/wav"
            return {"type": block.type, "data": block.data or "", "mimeType": block.mime_type or default}
        case "link":
            return _link(
                block.uri or "", block.name or block.uri or "", block.text, block.mime_type, block.size
            )
        case "resource":
            held: JsonObject = {"uri": block.uri or "spindle:result"}
            if block.mime_type:
                held["mimeType"] = block.mime_type
            if block.data is not None:
                held["blob"] = block.data
            else:
                held["text"] = block.text or ""
            return {"type": "resource", "resource": held}


def _link(
    uri: str, name: str, description: str | None, mime_type: str | None, size: int | None
) -> JsonObject:
    fields: JsonObject = {
        "type": "resource_link",
        "uri": uri,
        "name": name,
        "description": description,
        "mimeType": mime_type,
        "size": size,
    }
    return {key: value for key, value in fields.items() if value is not None}


def for_handshake_tool(wire: JsonObject) -> JsonObject:
    """The tool for clients of the handshake era, whose output schemas can only be objects."""
    schema = wire.get("outputSchema")
    if schema is None or schema.get("type") == "object":
        return wire
    return {key: value for key, value in wire.items() if key != "outputSchema"}


def for_handshake_result(wire: JsonObject) -> JsonObject:
    """The result for clients of the handshake era, which accept only objects as structured content."""
    if "structuredContent" not in wire or is_object(wire["structuredContent"]):
        return wire
    return {key: value for key, value in wire.items() if key != "structuredContent"}


def to_wire_error(error: SpindleError) -> JsonObject:
    """An error as a result: what a model reads in order to do better, and in `_meta` what a program does."""
    fields = error.to_dict("model")
    text = f"{error.message}\nhint: {fields['hint']}" if "hint" in fields else error.message
    fields.pop("message", None)
    fields.pop("details", None)
    return error_result(text, {OWN_KEY: fields})


def error_result(text: str, meta: JsonObject | None = None) -> JsonObject:
    """A result that reports an error as text."""
    wire: JsonObject = {"content": [{"type": "text", "text": text}], "isError": True}
    return wire | ({"_meta": meta} if meta else {})


def text_result(text: str, structured: Any = None) -> JsonObject:
    """A result with one text, and structured content if given."""
    wire: JsonObject = {"content": [{"type": "text", "text": text}]}
    return wire if structured is None else wire | {"structuredContent": structured}


def is_of_server(error: SpindleError) -> bool:
    """True for the error that an MCP server answered with of its own accord, which has its code and data.
    One for which there is a way out here comes from what we could not give it."""
    code = error.details.get("code") if is_object(error.details) else None
    return error.answered and isinstance(code, int) and error.remedy is None
