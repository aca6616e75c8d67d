"""The catalog as a UTCP manual.

UTCP clients send one argument, which a template names, as the body, and put all others into the query, where
only text survives. So a tool's arguments are one argument `body`, as UTCP's own OpenAPI importer has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeGuard

from spindle.domain import trail
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.tool import Tool
from spindle.rest.forms import BLOCK_SCHEMA, JSON, result_schema
from spindle.rest.schemas import moved
from spindle.version import __version__

UTCP_VERSION = "1.0.1"
Template = Literal["http", "sse"]
BODY = "body"
# A variable for the client to fill, which it looks up under the name of the manual too.
_AUTH: JsonObject = {
    "auth_type": "api_key",
    "api_key": "Bearer $TOKEN",
    "var_name": "Authorization",
    "location": "header",
}


def is_template(name: str) -> TypeGuard[Template]:
    """True if the name is a kind of call template that we write."""
    return name in ("http", "sse")


def manual(
    tools: Sequence[Tool],
    url: str,
    *,
    wants_token: bool,
    workspace: str | None = None,
    template: Template = "http",
) -> JsonObject:
    """`url` is where `spindle serve --rest` is reached, `workspace` the id of the workspace that it
    serves. With `sse` calls answer with a stream of events:
    progress, and in the end the whole result."""
    return {
        "utcp_version": UTCP_VERSION,
        "manual_version": __version__,
        "tools": [_tool(tool, url, template, workspace, wants_token=wants_token) for tool in tools],
    }


def _tool(
    tool: Tool, url: str, template: Template, workspace: str | None, *, wants_token: bool
) -> JsonObject:
    call: JsonObject = {"call_template_type": template, "url": f"{url}/tools/{tool.name}", "body_field": BODY}
    if template == "http":
        call |= {"http_method": "POST", "content_type": JSON}
    else:
        # This template has no content type of its own, and a call that is made again may do its work twice.
        call |= {"headers": {"Content-Type": JSON}, "reconnect": False}
    if wants_token:
        call["auth"] = dict(_AUTH)
    made: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "inputs": _inputs(tool.input_schema, template),
        "outputs": _outputs(tool.output_schema, template),
        "tags": list(dict.fromkeys((tool.source, *tool.spec.tags))),
        "tool_call_template": call,
    }
    return (
        made if workspace is None else {**made, trail.UTCP_KEY: trail.of_tool(tool.spec.metadata, workspace)}
    )


def _inputs(schema: JsonObject, template: Template) -> JsonObject:
    made: JsonObject = {
        "type": "object",
        "properties": {BODY: _readable(moved(schema, f"#/properties/{BODY}"))},
    }
    # Without a body an event stream would be asked for by GET, which calls nothing.
    if template == "sse" or schema.get("required"):
        made["required"] = [BODY]
    return made


def _outputs(schema: JsonObject | None, template: Template) -> JsonObject:
    if template == "http":
        return _readable(schema or {})
    structured = moved(schema or {}, "#/properties/structured")
    return _readable(result_schema(structured, BLOCK_SCHEMA))


def _readable(schema: Any) -> Any:
    """UTCP's own model of a schema knows no `true` and `false`."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not is_object(schema):
        return schema
    made = dict(schema)
    if is_object(made.get("properties")):
        made["properties"] = {name: _readable(item) for name, item in made["properties"].items()}
    items = made.get("items")
    if is_array(items):
        made["items"] = [_readable(item) for item in items]
    elif items is not None:
        made["items"] = _readable(items)
    if is_object(made.get("additionalProperties")):
        made["additionalProperties"] = _readable(made["additionalProperties"])
    return made
