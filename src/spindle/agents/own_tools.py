"""The tools of an agent's model besides those of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.agents.results import READ_MORE
from spindle.code_mode import reading
from spindle.code_mode.reading import RUN_CODE
from spindle.domain.json_schema import JsonObject

if TYPE_CHECKING:
    from collections.abc import Mapping

SEARCH, DESCRIBE, ASK_USER, ANSWER = "search_tools", "describe_tool", "ask_user", "final_answer"
REMEMBER, RECALL, FORGET = MEMORY = ("remember", "recall", "forget")
RESERVED = frozenset({SEARCH, DESCRIBE, ASK_USER, ANSWER, READ_MORE, RUN_CODE, *MEMORY})
MOST_FOUND = 20


def _schema(properties: JsonObject, required: list[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


DESCRIPTIONS: Mapping[str, str] = {
    SEARCH: "Find tools by words about what they do. Those that are found can be called from the next turn "
    "on. Most tools are not in your list until you have searched for them.",
    DESCRIBE: "A tool's whole description and the JSON Schema of its arguments. It can be called from the "
    "next turn on.",
    ASK_USER: "Ask the user, and wait. Only for what no tool can find out and you cannot decide.",
    READ_MORE: "Read on in a result that was cut.",
    REMEMBER: "Keep a fact about the user or their work for later conversations. Only what will be useful "
    "then and the user would want to be kept; no passwords or keys.",
    RECALL: "Find facts that were kept in earlier conversations, by words in them; the newest without any.",
    FORGET: "Delete a fact that was kept, by its id.",
}

CODE_DESCRIPTIONS: Mapping[str, str] = {SEARCH: reading.SEARCH_SAYS, DESCRIBE: reading.DESCRIBE_SAYS}
"""The descriptions of the same tools for a model that writes programs."""

SCHEMAS: Mapping[str, JsonObject] = {
    RUN_CODE: _schema({"code": reading.CODE}, ["code"]),
    SEARCH: _schema(
        {
            "query": {"type": "string", "minLength": 1, "description": "what the tool should do"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND},
        },
        ["query"],
    ),
    DESCRIBE: _schema({"name": {"type": "string", "description": "as search_tools gives it"}}, ["name"]),
    ASK_USER: _schema(
        {
            "question": {"type": "string", "minLength": 1},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "the answers to choose from; leave it out where any is good",
            },
        },
        ["question"],
    ),
    READ_MORE: _schema(
        {
            "reference": {"type": "string", "description": "as the cut result names it"},
            "start": {"type": "integer", "minimum": 0},
            "length": {"type": "integer", "minimum": 1},
        },
        ["reference", "start"],
    ),
    REMEMBER: _schema({"fact": {"type": "string", "minLength": 1, "maxLength": 2_000}}, ["fact"]),
    RECALL: _schema({"query": {"type": "string"}}, []),
    FORGET: _schema({"id": {"type": "string", "description": "as recall gives it"}}, ["id"]),
}


def answer_schema(schema: JsonObject) -> JsonObject:
    """Returns the schema of the tool with which a model gives an answer of this schema: tools take
    objects."""
    return schema if schema.get("type") == "object" else _wrapped(schema)


def _wrapped(schema: JsonObject) -> JsonObject:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = _schema({"answer": inner}, ["answer"])
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def answer_in(schema: JsonObject, arguments: JsonObject) -> Any:
    """Returns the answer that is wrapped in the arguments of that tool."""
    return arguments if schema.get("type") == "object" else arguments.get("answer")
