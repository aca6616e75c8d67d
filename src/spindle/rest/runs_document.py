"""The OpenAPI document of what people do with runs: `/runs/openapi.json`.

It is apart from the document of the tools, since whoever reads that makes tools of its paths, and an agent
that answers what was asked of a person would be no help.
"""

from __future__ import annotations

from typing import Any, Final

from spindle.domain.json_schema import JsonObject
from spindle.rest.forms import JSON, PROBLEM_SCHEMA
from spindle.rest.runs_paths import RUN, paths
from spindle.serving.problems import PROBLEM_TYPE
from spindle.version import __version__

_PAUSE: Final[JsonObject] = {
    "type": "object",
    "required": ["token", "run_id", "kind", "message", "principal", "created_at", "details"],
    "properties": {
        "token": {"type": "string"},
        "run_id": {"type": "string"},
        "kind": {"enum": ["approval", "input", "consent"]},
        "message": {"type": "string"},
        "principal": {"type": "string", "description": "Whose run it is."},
        "tool": {"type": "string"},
        "source": {"type": "string"},
        "created_at": {"type": "number"},
        "expires_at": {"type": "number"},
        "details": {
            "type": "object",
            "description": "`tool` and `arguments` of an approval, `schema` of a question, `url` of a"
            " consent.",
        },
        "answered": {
            "type": "object",
            "required": ["decision", "by"],
            "properties": {
                "decision": {"enum": ["approved", "changed", "done", "refused", "answered"]},
                "by": {"type": "string"},
                "at": {"type": "number"},
                "answer": {},
                "reason": {"type": "string"},
            },
        },
    },
}
_PAUSES: Final[JsonObject] = {"type": "array", "items": {"$ref": "#/components/schemas/Pause"}}
_ANSWER: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "answer": {
            "description": 'To an approval `{"approved": true}`, with `arguments` to change them; to a'
            " question what its schema asks for; to a consent nothing.",
        },
        "refused": {"type": "string", "description": "The reason, instead of an answer."},
    },
}


def document(url: str, *, wants_token: bool) -> JsonObject:
    """`url` is where the server is reached."""
    made: JsonObject = {
        "openapi": "3.1.0",
        "info": {"title": "Runs and what they wait for", "version": __version__},
        "servers": [{"url": url}],
        "paths": {
            **paths(_operation, _named),
            "/flows/{name}/runs": {
                "parameters": [_named("name")],
                "post": {
                    **_operation(
                        "runFlow",
                        "Begins a run of a saved flow, with its inputs as the body. It goes on by itself.",
                        {"type": "object", "properties": {"run": {"type": "string"}}},
                        "202",
                    ),
                    "requestBody": {"content": {JSON: {"schema": {"type": "object"}}}},
                },
            },
            "/pauses": {
                "get": _operation(
                    "listPauses",
                    "What waits for you, and what was answered.",
                    {"type": "object", "properties": {"waiting": _PAUSES, "answered": _PAUSES}},
                )
            },
            "/pauses/{token}": {
                "parameters": [_named("token")],
                "post": {
                    **_operation(
                        "answerPause",
                        "Answers or refuses. The run goes on by itself; who is late is told who was first.",
                        {
                            "type": "object",
                            "properties": {
                                "token": {"type": "string"},
                                "run": {"type": "string"},
                                "answered": {"const": True},
                            },
                        },
                    ),
                    "requestBody": {"required": True, "content": {JSON: {"schema": _ANSWER}}},
                },
            },
        },
        "components": {"schemas": {"Pause": _PAUSE, "Run": RUN, "Problem": PROBLEM_SCHEMA}},
    }
    if wants_token:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


def _named(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _operation(id: str, summary: str, answer: JsonObject | None, status: str = "200") -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    content = {} if answer is None else {"content": {JSON: {"schema": answer}}}
    return {
        "operationId": id,
        "summary": summary,
        "responses": {
            status: {"description": "Done.", **content},
            "default": {"description": "What went wrong.", "content": {PROBLEM_TYPE: problem}},
        },
    }
