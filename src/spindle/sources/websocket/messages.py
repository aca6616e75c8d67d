"""Messages as data: paths into them, conditions on them, and what a reply means."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, cast

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import InvalidArgumentsError, ServerError
from spindle.sources.message_paths import MISSING, at
from spindle.sources.parameters import as_text, filled

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.sources.websocket.config import Condition, Request, WebSocketConfig

SHOWN = 200


def holds(condition: Condition, message: Any, arguments: JsonObject) -> bool:
    """True if the message meets the condition."""
    if isinstance(condition, str):
        found = at(message, condition)
        return found is not MISSING and bool(found)
    return all(at(message, path) == filled(wanted, arguments) for path, wanted in condition.items())


def encoded(config: WebSocketConfig, message: Any) -> str | bytes:
    """A message as the payload of a frame."""
    if config.format == "base64":
        try:
            return base64.b64decode(message, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgumentsError(f"the message is not base64: {error}", sent=False) from None
    text = message if config.format == "text" else to_json(message).decode()
    return text.encode() if config.frames == "binary" else text


def decoded(config: WebSocketConfig, payload: str | bytes) -> Any:
    """The message in a frame. Raises ValueError."""
    if config.format == "base64":
        return base64.b64encode(payload if isinstance(payload, bytes) else payload.encode()).decode()
    if config.format == "text":
        return payload if isinstance(payload, str) else payload.decode()
    try:
        return from_json(payload if isinstance(payload, bytes) else payload.encode())
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno} column {error.colno}") from None


def failure(request: Request, message: Any, arguments: JsonObject) -> Result | None:
    """The result for a reply that reports an error, or None for one that does not."""
    if request.error is None or not holds(request.error, message, arguments):
        return None
    problem = at(message, request.error) if isinstance(request.error, str) else message
    said = at(problem, "message")
    text = as_text(problem if said is MISSING else said)
    return Result.of_value(problem, text, is_error=True)


def useful(tool: Tool, request: Request, message: Any) -> Any:
    """The part of a reply that `reply` names, or the whole message."""
    if request.reply is None:
        return message
    found = at(message, request.reply)
    if found is MISSING:
        raise ServerError(
            f"the reply to {tool.name} has no {request.reply!r}: {as_text(message)[:SHOWN]}",
            hint=f"see `reply` and `error` in {tool.spec.place}",
        )
    return found


def to_result(config: WebSocketConfig, value: Any) -> Result:
    """The result for a reply."""
    if config.format == "json":
        return Result.of_value(value, as_text(value))
    items = cast("list[str]", value) if isinstance(value, list) else [str(value)]
    if config.format == "text":
        return Result(tuple(Block("text", text=item) for item in items))
    return Result(tuple(Block("resource", data=item, mime_type="application/octet-stream") for item in items))
