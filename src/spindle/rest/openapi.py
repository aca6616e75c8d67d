"""The catalog as an OpenAPI 3.1 document: one path for each tool."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.domain import trail
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool
from spindle.rest.forms import BLOCK_SCHEMA, EVENTS, JSON, PROBLEM_SCHEMA, TEXT, WHOLE, result_schema
from spindle.rest.paused import ASYNC, PAUSED_SCHEMA
from spindle.rest.schemas import COMPONENTS, Components
from spindle.rest.submitted import PARAMETERS
from spindle.serving.problems import PROBLEM_TYPE
from spindle.version import __version__

SUMMARY_LENGTH = 120

_ABOUT = f"""\
Every path calls one tool of a Spindle catalog. The body is an object with the tool's arguments.

The answer is the tool's structured data as `{JSON}`, or its text as `{TEXT}`; a result with other
parts, such as images, is `{WHOLE}`. Who accepts only `{WHOLE}` always gets that, and
who accepts only `{EVENTS}` gets server-sent events: `progress` with `progress`, `total` and `message`, any
number of times, and at the end `result` (as `{WHOLE}`) or `error` (as `{PROBLEM_TYPE}`).
An error before the first event is an ordinary answer.

Everything that goes wrong is `{PROBLEM_TYPE}` with `status`, `category` and `message`."""
_ASYNC = f"""

With `Prefer: {ASYNC}` a call is put into a queue and answered with 202 and `Location: /runs/RUN`. A GET
of that is 202 until the result is there, and a DELETE cancels it; both are for whoever made the call.
`components/parameters` has what the query of such a call may say. A full queue is 429 with `Retry-After`."""


def document(
    tools: Sequence[Tool],
    url: str,
    *,
    wants_token: bool,
    workspace: str | None = None,
    title: str = "Spindle",
    queues: Sequence[str] = (),
) -> JsonObject:
    """`queues` are those that callers may use. `url` is where `spindle serve --rest` is reached, `workspace`
    the id of the workspace that it serves: whoever reads the document there can tell its own tools."""
    components = Components()
    components.schemas |= {
        "Problem": PROBLEM_SCHEMA,
        "Block": BLOCK_SCHEMA,
        "Result": result_schema({}, {"$ref": f"{COMPONENTS}Block"}),
    }
    made: JsonObject = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": _ABOUT + _ASYNC * bool(queues)},
        "servers": [{"url": url}],
        "tags": [{"name": source} for source in sorted({tool.source for tool in tools})],
        "paths": {
            f"/tools/{tool.name}": {"post": _operation(tool, components, workspace, waits=bool(queues))}
            for tool in tools
        },
        "components": {
            "schemas": components.schemas,
            "responses": {
                "Paused": {
                    "description": "It waits: GET /runs/RUN has the result when it is there.",
                    "headers": {
                        "Location": {"description": "/runs/RUN", "schema": {"type": "string"}},
                        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
                    },
                    "content": {JSON: {"schema": PAUSED_SCHEMA}},
                },
                "Problem": {
                    "description": "What went wrong.",
                    "headers": {
                        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
                    },
                    "content": {PROBLEM_TYPE: {"schema": {"$ref": f"{COMPONENTS}Problem"}}},
                },
            },
        },
    }
    if queues:
        made["components"]["parameters"] = _parameters(queues)
    if wants_token:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


def _parameters(queues: Sequence[str]) -> JsonObject:
    """The parameters of a call that does not wait. They are described once and not with each tool: whoever
    makes tools of this document would take them for arguments."""
    prefer = {"in": "header", "name": "Prefer", "schema": {"const": ASYNC}}
    found: JsonObject = {"prefer": prefer}
    for name, described in PARAMETERS.items():
        schema = {**described["schema"], "enum": list(queues)} if name == "queue" else described["schema"]
        found[name] = {"in": "query", "name": name, **described, "schema": schema}
    return found


def _operation(tool: Tool, components: Components, workspace: str | None, *, waits: bool) -> JsonObject:
    spec = tool.spec
    arguments = components.place(tool, "input")
    operation: JsonObject = {
        "operationId": tool.name,
        "tags": list(dict.fromkeys((tool.source, *spec.tags))),
        "requestBody": {
            "required": bool(spec.usable_input.get("required")),
            "content": {JSON: {"schema": arguments}},
        },
        "responses": {
            "200": {"description": "What the tool returned.", "content": _content(tool, components)},
            **(
                {"202": {"$ref": "#/components/responses/Paused"}}
                if waits or tool.kind in ("agents", "flows")
                else {}
            ),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if workspace is not None:
        operation[trail.OPENAPI_KEY] = trail.of_tool(spec.metadata, workspace)
    if spec.title:
        operation["summary"] = spec.title[:SUMMARY_LENGTH]
    if spec.description:
        operation["description"] = spec.description
    return operation


def _content(tool: Tool, components: Components) -> JsonObject:
    promised: JsonObject = {} if tool.spec.usable_output is None else components.place(tool, "output")
    return {
        JSON: {"schema": promised},
        # Also where JSON is promised: not every source keeps what it promises.
        TEXT: {"schema": {"type": "string"}},
        WHOLE: {"schema": {"$ref": f"{COMPONENTS}Result"}},
        EVENTS: {"schema": {"type": "string"}},
    }
