"""The paths of `/runs` in the OpenAPI document of what people do with runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from spindle.domain.json_schema import JsonObject
from spindle.rest.forms import JSON
from spindle.serving.run_control import MOST, STATUSES, USUAL

RUN: Final[JsonObject] = {
    "type": "object",
    "required": ["id", "kind", "name", "principal", "status", "created_at", "updated_at", "duration"],
    "properties": {
        "id": {"type": "string"},
        "kind": {"type": "string", "description": "flow, agent, call or task"},
        "name": {"type": "string"},
        "principal": {"type": "string", "description": "Whose run it is."},
        "status": {"enum": list(STATUSES)},
        "created_at": {"type": "number"},
        "updated_at": {"type": "number"},
        "duration": {"type": "number", "description": "Seconds that it took, or has taken so far."},
        "error": {"type": ["object", "null"]},
    },
}
_REF: Final[JsonObject] = {"$ref": "#/components/schemas/Run"}
_NEW: Final[JsonObject] = {"type": "object", "properties": {"run": {"type": "string"}}}
_AGAIN: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "from": {"type": "string", "description": "A node of the flow; what was before it is kept."},
        "inputs": {"type": "object", "description": "Other inputs of the flow."},
        "step": {"type": "integer", "description": "A step of the agent; without it, its end."},
        "message": {"type": "string", "description": "What the agent is told there."},
    },
}


def paths(operation: Callable[..., dict[str, Any]], named: Callable[[str], JsonObject]) -> JsonObject:
    """Returns the paths; `operation` and `named` write operations and parts of paths."""

    def asked(name: str, about: str, schema: JsonObject) -> JsonObject:
        return {"name": name, "in": "query", "description": about, "schema": schema}

    text: JsonObject = {"type": "string"}
    listed: JsonObject = {
        "type": "object",
        "properties": {"runs": {"type": "array", "items": _REF}, "older": {"type": ["string", "null"]}},
    }
    return {
        "/runs": {
            "get": {
                **operation("listRuns", "Your runs, the newest first; an administrator's: all.", listed),
                "parameters": [
                    asked("status", "Only runs that stand so.", {"enum": list(STATUSES)}),
                    asked("kind", "Only flows, agents, calls or tasks.", text),
                    asked("name", "Only runs of this flow, agent or tool.", text),
                    asked("before", "The id of a run: only older ones, for the next page.", text),
                    asked("limit", "How many.", {"type": "integer", "maximum": MOST, "default": USUAL}),
                ],
            }
        },
        "/runs/{run}": {
            "parameters": [named("run")],
            "delete": operation("cancelRun", "Ends a run, wherever it is.", None, "204"),
        },
        "/runs/{run}/trace": {
            "parameters": [named("run")],
            "get": operation("traceRun", "A run with its nodes, or its conversation.", _REF),
        },
        "/runs/{run}/resume": {
            "parameters": [named("run")],
            "post": operation(
                "resumeRun", "Lets a run go on that failed, was cancelled, or lost its process.", _NEW, "202"
            ),
        },
        "/runs/{run}/again": {
            "parameters": [named("run")],
            "post": {
                **operation(
                    "runAgain", "Starts another run like it, perhaps from a place in it.", _NEW, "202"
                ),
                "requestBody": {"content": {JSON: {"schema": _AGAIN}}},
            },
        },
    }
