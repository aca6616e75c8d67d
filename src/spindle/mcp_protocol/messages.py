"""Requests of clients and answers of servers, method by method, in both eras of the protocol.
`tests/mcp_protocol/test_messages.py` compares it with the SDK's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.domain.levels import LOG_LEVELS
from spindle.mcp_protocol.names import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    SUBSCRIPTION_ID,
)
from spindle.mcp_protocol.shapes import (
    Misfit,
    Shape,
    anything,
    by,
    counted,
    either,
    flag,
    list_of,
    map_of,
    mark,
    not_null,
    one_of,
    plain,
    record,
    share,
    text,
    whatever,
    whole,
)

# --- what both sides say of themselves

_ICONS = list_of(
    record({"src": text}, {"mimeType": text, "sizes": list_of(text), "theme": one_of("dark", "light")})
)
_LOOKS = {"title": text, "description": text, "icons": _ICONS}
IMPLEMENTATION = record({"name": text, "version": text}, {**_LOOKS, "websiteUrl": text})
"""The name and version of a client or a server."""

_TASKS = record(
    {},
    {
        "cancel": whatever,
        "list": whatever,
        "requests": record(
            {},
            {
                "elicitation": record({}, {"create": whatever}),
                "sampling": record({}, {"createMessage": whatever}),
            },
        ),
    },
)
CAPABILITIES = record(
    {},
    {
        "elicitation": record({}, {"form": whatever, "url": whatever}),
        "experimental": map_of(whatever),
        "extensions": map_of(whatever),
        "roots": record({}, {"listChanged": flag}),
        "sampling": record({}, {"context": whatever, "tools": whatever}),
        "tasks": _TASKS,
    },
)
"""The capabilities of a client."""
_SERVER_CAPABILITIES = record(
    {},
    {
        "completions": whatever,
        "experimental": map_of(whatever),
        "extensions": map_of(whatever),
        "logging": whatever,
        "prompts": record({}, {"listChanged": flag}),
        "resources": record({}, {"listChanged": flag, "subscribe": flag}),
        "tools": record({}, {"listChanged": flag}),
    },
)
CLIENT = record({"protocolVersion": text, "capabilities": CAPABILITIES, "clientInfo": IMPLEMENTATION})
"""The description that a client gives of itself in the handshake."""

# --- content, the same in both eras but for `_meta`, which has no nulls in the later one

_ROLE = one_of("assistant", "user")
_ANNOTATIONS = record({}, {"audience": list_of(_ROLE), "lastModified": text, "priority": share})


class _Era:
    """The shapes of one era."""

    def __init__(self, *, modern: bool) -> None:
        meta = not_null if modern else whatever
        about = {"_meta": meta, "annotations": _ANNOTATIONS}
        sized = {**about, **_LOOKS, "mimeType": text, "size": whole}
        held = {"mimeType": text, "_meta": meta}
        self.contents = either(
            record({"uri": text, "text": text}, held), record({"uri": text, "blob": text}, held)
        )
        data = {"type": text, "data": text, "mimeType": text}
        self.block = by(
            "type",
            {
                "text": record({"type": text, "text": text}, about),
                "image": record(data, about),
                "audio": record(data, about),
                "resource_link": record({"type": text, "uri": text, "name": text}, sized),
                "resource": record({"type": text, "resource": self.contents}, about),
            },
        )
        hints = ("destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint")
        described = {**_LOOKS, "_meta": meta}
        schema = {"$schema": text}
        of_properties = (
            {} if modern else {"properties": map_of(either(whatever, flag)), "required": list_of(text)}
        )
        input_schema = record({"type": one_of("object")}, {**schema, **of_properties}, anything)
        self.tool = record(
            {"name": text, "inputSchema": input_schema},
            {
                **described,
                "annotations": record({}, {**dict.fromkeys(hints, flag), "title": text}),
                "outputSchema": record({}, schema, anything) if modern else input_schema,
                **({} if modern else {"execution": record({}, {"taskSupport": _TASK_SUPPORT})}),
            },
        )
        self.resource = record({"uri": text, "name": text}, sized)
        template = {name: shape for name, shape in sized.items() if name != "size"}
        self.template = record({"uriTemplate": text, "name": text}, template)
        argument = record({"name": text}, {"description": text, "required": flag, "title": text})
        self.prompt = record({"name": text}, {**described, "arguments": list_of(argument)})
        self.message = record({"role": _ROLE, "content": self.block})
        most = 100 if modern else None
        self.completion = record({"values": list_of(text, most)}, {"hasMore": flag, "total": whole})


_TASK_SUPPORT = one_of("forbidden", "optional", "required")
_HANDSHAKE, _MODERN = _Era(modern=False), _Era(modern=True)

# --- answers


def _results(era: _Era, *, modern: bool) -> dict[str, Shape]:
    meta: dict[str, Shape] = {"_meta": not_null if modern else whatever}
    done: dict[str, Shape] = {"resultType": one_of("complete")} if modern else {}
    kept: dict[str, Shape] = {"ttlMs": counted, "cacheScope": one_of("private", "public")} if modern else {}
    paged: dict[str, Shape] = {**meta, "nextCursor": text}
    needed = {**done, **kept}
    structured = anything if modern else whatever
    return {
        "tools/list": record({**needed, "tools": list_of(era.tool)}, paged),
        "resources/list": record({**needed, "resources": list_of(era.resource)}, paged),
        "resources/templates/list": record({**needed, "resourceTemplates": list_of(era.template)}, paged),
        "prompts/list": record({**needed, "prompts": list_of(era.prompt)}, paged),
        "resources/read": record({**needed, "contents": list_of(era.contents)}, meta),
        "prompts/get": record({**done, "messages": list_of(era.message)}, {**meta, "description": text}),
        "completion/complete": record({**done, "completion": era.completion}, meta),
        "tools/call": record(
            {**done, "content": list_of(era.block)},
            {**meta, "isError": flag, "structuredContent": structured},
        ),
    }


_EMPTY = record({}, {"_meta": whatever}, anything)
_RESULTS: tuple[dict[str, Shape], dict[str, Shape]] = (
    {
        **_results(_HANDSHAKE, modern=False),
        "logging/setLevel": _EMPTY,
        "ping": _EMPTY,
        "resources/subscribe": _EMPTY,
        "resources/unsubscribe": _EMPTY,
    },
    {
        **_results(_MODERN, modern=True),
        "server/discover": record(
            {
                "resultType": one_of("complete"),
                "ttlMs": counted,
                "cacheScope": one_of("private", "public"),
                "supportedVersions": list_of(text),
                "capabilities": _SERVER_CAPABILITIES,
            },
            {"_meta": not_null, "instructions": text},
        ),
        "subscriptions/listen": record(
            {"resultType": text, "_meta": record({SUBSCRIPTION_ID: mark}, {}, anything)}
        ),
    },
)

# --- requests

META = record(
    {PROTOCOL_VERSION: text, CLIENT_CAPABILITIES: CAPABILITIES},
    {CLIENT_INFO: IMPLEMENTATION, LOG_LEVEL: one_of(*LOG_LEVELS), "progressToken": mark},
    anything,
)
"""The description of its client that every request of 2026-07-28 has."""
_HANDSHAKE_META = record({}, {"progressToken": mark}, anything)

_FORM = record({"action": one_of("accept", "cancel", "decline")}, {"content": map_of(plain)})
_ROOTS = record({"roots": list_of(record({"uri": text}, {"name": text, "_meta": whatever}))})
_RESPONSES = map_of(either(_FORM, _ROOTS))
"""Answers of clients who are asked: a form or their roots. What a model said is left to the SDK."""
_WATCHED = record(
    {},
    {
        "promptsListChanged": flag,
        "resourceSubscriptions": list_of(text),
        "resourcesListChanged": flag,
        "toolsListChanged": flag,
    },
)
_REFERENCE = by(
    "type",
    {
        "ref/prompt": record({"type": text, "name": text}, {"title": text}),
        "ref/resource": record({"type": text, "uri": text}),
    },
)


def _params(*, modern: bool) -> dict[str, Shape]:
    def asks(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
        if modern:
            return record({"_meta": META, **needed}, optional)
        return record(needed, {"_meta": _HANDSHAKE_META, **(optional or {})})

    paged = asks({}, {"cursor": text})
    answers = {"requestState": text, "inputResponses": _RESPONSES} if modern else {}
    task = {} if modern else {"task": record({}, {"ttl": whole})}
    argument = record({"name": text, "value": text})
    context = record({}, {"arguments": map_of(text)})
    both = {
        "tools/list": paged,
        "resources/list": paged,
        "resources/templates/list": paged,
        "prompts/list": paged,
        "tools/call": asks({"name": text}, {"arguments": whatever, **answers, **task}),
        "resources/read": asks({"uri": text}, answers),
        "prompts/get": asks({"name": text}, {"arguments": map_of(text), **answers}),
        "completion/complete": asks({"ref": _REFERENCE, "argument": argument}, {"context": context}),
    }
    if modern:
        return {
            **both,
            "server/discover": asks({}),
            "subscriptions/listen": asks({"notifications": _WATCHED}),
        }
    return {
        **both,
        "initialize": asks(
            {"protocolVersion": text, "capabilities": CAPABILITIES, "clientInfo": IMPLEMENTATION}
        ),
        "logging/setLevel": asks({"level": one_of(*LOG_LEVELS)}),
        "ping": asks({}),
        "resources/subscribe": asks({"uri": text}),
        "resources/unsubscribe": asks({"uri": text}),
    }


_PARAMS = _params(modern=False), _params(modern=True)
METHODS = tuple(frozenset(shapes) for shapes in _PARAMS)
"""The requests of the handshake era, and those of 2026-07-28."""
SPECIFIED = METHODS[0] | METHODS[1]
WITHOUT_PARAMS = frozenset(
    {"ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list"}
)
"""The requests of the handshake era that need no parameters."""


def is_known(method: str, version: str) -> bool:
    """True for a request of this version of the protocol, of those that clients make."""
    return method in METHODS[version in MODERN_VERSIONS]


def fits(method: str, version: str, params: JsonObject | None) -> bool:
    """True if the parameters of a request are plainly as this version has them."""
    modern = version in MODERN_VERSIONS
    if params is None:
        return not modern and method in WITHOUT_PARAMS
    try:
        _PARAMS[modern][method](params)
    except Misfit:
        return False
    return True


def fitted(method: str, version: str, result: JsonObject) -> JsonObject | None:
    """The result as this version has it, without what only others know; None if it is not plainly one."""
    shape = _RESULTS[version in MODERN_VERSIONS].get(method)
    try:
        return shape(result) if shape is not None else None
    except Misfit:
        return None


def plainly(shape: Shape, value: Any) -> Any:
    """The value in this shape; None if it is not plainly of it."""
    try:
        return shape(value)
    except Misfit:
        return None
