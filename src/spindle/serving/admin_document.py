"""The admin API as an OpenAPI document: one line for each request that there is."""

from __future__ import annotations

from typing import Final

from spindle.domain.json_schema import JsonObject
from spindle.version import __version__

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_BY_TEXT: Final = {"type": "object", "additionalProperties": _TEXT}
_LISTS: Final = {"exposed_tools": _TEXTS, "excluded_tools": _TEXTS}

REQUESTS: Final[dict[str, tuple[str, JsonObject | None]]] = {
    "GET /admin/v1": ("The paths that there are.", None),
    "GET /admin/v1/openapi.json": ("This document.", None),
    "GET /admin/v1/tokens": ("All tokens, without their texts.", None),
    "POST /admin/v1/tokens": (
        "Makes a token, whose text is shown this once.",
        {
            "name": _TEXT,
            "user": _TEXT,
            "groups": _TEXTS,
            "admin": {"type": "boolean"},
            "expires_in": {"type": "number", "description": "Seconds."},
        },
    ),
    "DELETE /admin/v1/tokens/{name}": ("Revokes a token, for ever.", None),
    "GET /admin/v1/groups": ("All groups.", None),
    "PUT /admin/v1/groups/{name}": ("Makes a group, or gives it other lists.", dict(_LISTS)),
    "DELETE /admin/v1/groups/{name}": ("Removes a group.", None),
    "GET /admin/v1/quotas": ("All quotas.", None),
    "PUT /admin/v1/quotas/{name}": ("Makes a quota, or changes it.", {}),
    "DELETE /admin/v1/quotas/{name}": ("Removes a quota.", None),
    "GET /admin/v1/sources": ("All sources and their state.", None),
    "POST /admin/v1/sources": (
        "Adds sources and asks them for their tools. Only for the owner of the workspace.",
        {
            "name": _TEXT,
            "preset": _TEXT,
            "arguments": _TEXTS,
            "url": _TEXT,
            "command": {"description": "A command line, or its words.", "type": ["string", "array"]},
            "mcpServers": {"type": "object", "description": "As MCP clients keep them."},
            "env": _BY_TEXT,
            "headers": _BY_TEXT,
            "pinned": {"type": "boolean"},
        },
    ),
    "POST /admin/v1/sources/{name}/sync": (
        "Asks a source for its tools. `accept` names held definitions that are good; true: all.",
        {"accept": {"type": ["array", "boolean"], "items": _TEXT}},
    ),
    "POST /admin/v1/sources/{name}/reconnect": ("Ends its sessions; the next call opens new ones.", None),
    "GET /admin/v1/sources/{name}/log": ("The last lines that its program wrote to stderr.", None),
    "POST /sources/{name}/connect": (
        "Asks whoever calls for the consent that a source wants. A browser with a session comes back to the"
        " console; `pause` is what waits there for this consent.",
        {"pause": _TEXT},
    ),
    "GET /admin/v1/flows": ("The files of saved flows.", None),
    "GET /admin/v1/flows/{name}": ("The text of a flow's file, with its version and its problems.", None),
    "PUT /admin/v1/flows/{name}": (
        "Saves a flow's file. `version` is that of the text that was changed; without it the file has to be"
        " new. A text with errors is saved only with `anyway`. Only for the owner of the workspace.",
        {"text": _TEXT, "version": _TEXT, "anyway": {"type": "boolean"}},
    ),
    "POST /admin/v1/flows/check": (
        "Finds the problems of a text that is not saved, by their lines.",
        {"text": _TEXT, "format": {"enum": ["yaml", "json"]}, "file": _TEXT},
    ),
    "POST /admin/v1/flows/draw": (
        "Draws such a text, as SVG without styles.",
        {"text": _TEXT, "format": {"enum": ["yaml", "json"]}},
    ),
    "POST /admin/v1/flows/extend": (
        "Returns the text of a flow's file with a node more, which calls a tool after the node `after`: the"
        " last that leads nowhere, if it is left out. Nothing is saved.",
        {"file": _TEXT, "tool": _TEXT, "params": {"type": "object"}, "after": _TEXT},
    ),
    "POST /admin/v1/flows/draft": (
        "Finds a saved flow that does what the words say, or has the model of the settings write one. Nothing"
        " is saved or run.",
        {"words": _TEXT, "new": {"type": "boolean", "description": "Write one, even if a saved one fits."}},
    ),
    "GET /admin/v1/audit": ("The audit log.", None),
}


def document() -> JsonObject:
    """Returns the OpenAPI document."""
    paths: dict[str, JsonObject] = {}
    for request, (summary, body) in REQUESTS.items():
        method, _, path = request.partition(" ")
        operation: JsonObject = {
            "operationId": f"{method.lower()} {path.removeprefix('/admin/v1').strip('/') or 'index'}".replace(
                " ", "_"
            ),
            "summary": summary,
            "responses": {"default": {"description": "JSON; what went wrong as application/problem+json."}},
        }
        if "{name}" in path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": _TEXT}]
        if body is not None:
            schema = {"type": "object", "properties": body}
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spindle, administration", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }
