"""The forms in which a call is answered, and which of them a client wants by its `Accept`:

- `application/vnd.spindle.result+json`: the whole result, every block and the structured data;
- `text/event-stream`: server-sent events, `progress` and then `result` (whole) or `error`;
- anything else: the structured data as JSON, else the text, else, where there are other blocks, the whole.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Literal

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, to_json
from spindle.listening.response import Response

JSON = "application/json"
TEXT = "text/plain"
WHOLE = "application/vnd.spindle.result+json"
EVENTS = "text/event-stream"

Form = Literal["plain", "whole", "events"]


def wanted(accept: str) -> Form:
    """The form that an `Accept` header asks for; the plain one if it is accepted too."""
    named = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if named & {JSON, TEXT, "*/*", "application/*"}:
        return "plain"
    if WHOLE in named:
        return "whole"
    return "events" if EVENTS in named else "plain"


async def answer(result: Result, form: Form) -> Response:
    """The response that carries a result in this form."""
    if form == "plain":
        if result.has_structured:
            return Response(to_json(result.structured, default=str), media_type=JSON)
        if all(block.type == "text" and block.text is not None for block in result.content):
            return Response(result.text.encode("utf-8", "replace"), media_type=f"{TEXT}; charset=utf-8")
    return Response(to_json(await whole(result), default=str), media_type=WHOLE)


async def whole(result: Result) -> JsonObject:
    """The result with the content of its files put back, since a client may be on another machine."""
    blocks = [await _with_data(block) if block.path else block for block in result.content]
    return replace(result, content=tuple(blocks)).to_dict()


async def _with_data(block: Block) -> Block:
    assert block.path is not None
    data = await asyncio.to_thread(Path(block.path).read_bytes)
    return replace(block, path=None, data=base64.b64encode(data).decode())


BLOCK_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["text", "image", "audio", "resource", "link"]},
        "text": {"type": "string"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "mime_type": {"type": "string"},
        "uri": {"type": "string"},
        "name": {"type": "string"},
        "size": {"type": "integer"},
        "annotations": {"type": "object"},
    },
}
PROBLEM_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["status", "category", "message"],
    "properties": {
        "status": {"type": "integer", "description": "The HTTP status."},
        "category": {
            "type": "string",
            "description": "The kind of error: invalid_arguments, tool, timeout, …",
        },
        "message": {"type": "string", "description": "What was wrong."},
        "hint": {"type": "string", "description": "What to do."},
        "retryable": {"type": "boolean", "description": "Whether the same call may succeed later."},
        "retry_after": {"type": "number", "description": "Seconds to wait before that."},
        "source": {"type": "string"},
        "tool": {"type": "string"},
        "source_status": {"type": "integer", "description": "The status that the source answered with."},
        "details": {"description": "Every problem with the arguments, or the result of a tool that failed."},
    },
}


def result_schema(structured: JsonObject, block: JsonObject) -> JsonObject:
    """The schema of a whole result."""
    return {
        "type": "object",
        "required": ["content", "structured", "is_error"],
        "properties": {
            "content": {"type": "array", "items": block},
            "structured": structured,
            "is_error": {"type": "boolean"},
            "category": {"type": "string", "description": "The kind of error, if the tool reports one."},
        },
    }
