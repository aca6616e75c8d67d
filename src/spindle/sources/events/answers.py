"""Request and answer: the address that an answer goes to, and the id that matches it with its request."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object, pointer_steps, resolve_pointer
from spindle.sources.events.links.port import Incoming, Outgoing

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

_LOCATION = re.compile(r"\$message\.(header|payload)#(/.*)")


@dataclass(frozen=True, slots=True)
class AwaitedReply:
    """A request whose answer is awaited."""

    message: Outgoing
    reply_address: str
    correlation: str
    own_address: bool
    """True if the reply address was made for this request alone."""


def asked(tool: Tool, message: Outgoing, unique: str) -> AwaitedReply:
    """The message with everything that its receiver needs to answer: the request's id and the reply
    address."""
    reply: JsonObject = tool.spec.metadata["reply"]
    address = reply.get("address")
    own = address is None
    if address is None:
        address = f"spindle.reply.{unique}"
    event, headers = message.event, dict(message.headers)
    correlation = event.id
    location = next(
        (item["correlation"] for item in tool.spec.metadata["messages"] if "correlation" in item), None
    )
    data = event.data
    data, given = _written(data, headers, location, correlation)
    correlation = given if isinstance(given, str) else correlation
    data, _ = _written(data, headers, reply.get("location"), address)
    extensions = {**event.extensions, "correlationid": correlation, "replyto": address}
    event = replace(event, data=data, extensions=extensions)
    return AwaitedReply(
        replace(message, event=event, reply_to=address, headers=headers), address, correlation, own
    )


def is_answer(question: AwaitedReply, item: Incoming) -> bool:
    """True if the event answers the request."""
    if item.event.id and item.event.id == question.message.event.id:
        return False  # our own request, if both use one channel
    known = {
        item.correlation,
        item.event.extensions.get("correlationid"),
        *(value for name, value in item.headers.items() if name.lower() in _HEADERS),
        _text(item.event.data, "correlationId"),
        _text(item.event.data, "correlation_id"),
    }
    return question.own_address or question.correlation in known


_HEADERS = ("correlationid", "correlation_id", "correlation-id", "x-correlation-id")


def at_pointer(payload: Any, pointer: str) -> Any:
    """The value in a payload at a JSON pointer."""
    return resolve_pointer(payload, f"#{pointer}") if is_object(payload) else None


def _written(data: Any, headers: dict[str, str], location: object, value: str) -> tuple[Any, Any]:
    """The payload with the value at its place, unless there is one already; and the value there."""
    match = _LOCATION.fullmatch(location) if isinstance(location, str) else None
    if match is None:
        return data, None
    if match[1] == "header":
        name = match[2].lstrip("/")
        headers.setdefault(name, value)
        return data, headers[name]
    present = at_pointer(data, match[2])
    if present is not None or not is_object(data):
        return data, present
    steps = pointer_steps(match[2])
    data = node = dict(data)
    for step in steps[:-1]:
        inner = node.get(step)
        node[step] = dict(inner) if is_object(inner) else {}
        node = node[step]
    node[steps[-1]] = value
    return data, value


def _text(data: Any, name: str) -> str | None:
    value = data.get(name) if is_object(data) else None
    return value if isinstance(value, str) else None
