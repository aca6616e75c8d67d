"""Converts what servers send into our types: tools, results, and errors by their type and code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from spindle.domain import trail
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, JsonObject, is_object
from spindle.domain.passing import passed
from spindle.domain.tool import SHOWN, Hints, ToolSpec
from spindle.errors import (
    CallTimeoutError,
    ConnectionFailedError,
    LoopError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
    from_meaning,
    from_status,
)
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
)
from spindle.meanings import Meaning, answered, in_data, of_code
from spindle.ports.list_budget import size_of
from spindle.remedies import Remedy
from spindle.sources.mcp.answers import (
    LinkLostError,
    MessageTooLargeError,
    NoAnswerError,
    UnreadableAnswerError,
)
from spindle.sources.mcp.exchange import CallExchange
from spindle.sources.mcp.questions import way_out

MAX_MESSAGE = 4000
"""Characters that are kept of a server's message about an error."""
MAX_ERROR_DATA = 256 * 1024
OF_PROTOCOL = frozenset(
    {
        HEADER_MISMATCH,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        UNSUPPORTED_PROTOCOL_VERSION,
        URL_ELICITATION_REQUIRED,
    }
)
"""Codes that say what the protocol wants, whose data is part of that."""


def to_spec(tool: JsonObject, place: str) -> ToolSpec:
    """The definition of a tool of an MCP server, which is in the form of the protocol."""
    notes: JsonObject = tool.get("annotations") or {}
    meta = dict(tool.get("_meta") or {})
    way = trail.read(meta.pop(trail.META_KEY, None))
    return ToolSpec(
        remote_name=tool["name"],
        title=tool.get("title") or notes.get("title"),
        description=tool.get("description") or "",
        input_schema=tool.get("inputSchema") or dict(EMPTY_OBJECT_SCHEMA),
        output_schema=tool.get("outputSchema"),
        hints=Hints(
            read_only=notes.get("readOnlyHint"),
            idempotent=notes.get("idempotentHint"),
            destructive=notes.get("destructiveHint"),
            open_world=notes.get("openWorldHint"),
        ),
        place=place,
        metadata=({"_meta": meta} if meta else {})
        | ({trail.FIELD: trail.written(way)} if way else {})
        | ({SHOWN: shown} if (shown := _shown(tool)) else {}),
    )


def _shown(tool: JsonObject) -> JsonObject:
    """Returns what the server says of a tool besides, for those who are shown it."""
    notes: JsonObject = tool.get("annotations") or {}
    title = notes.get("title")
    found: JsonObject = {
        "icons": tool.get("icons"),
        "execution": tool.get("execution"),
        "annotations": {"title": title} if title is not None else None,
        # A title that is only in the annotations stands for the tool's own, and is not passed on as such.
        "untitled": True if title is not None and not tool.get("title") else None,
    }
    return {key: value for key, value in found.items() if value is not None}


_TEXTS = ("title", "description")
_HINTS = ("readOnlyHint", "idempotentHint", "destructiveHint", "openWorldHint")
_MORE = frozenset({"icons", "execution"})


def is_plain_tool(item: Any) -> bool:
    """True for the definition of a tool that is certainly in the form of the protocol, as nearly all are."""
    if not is_object(item) or not isinstance(item.get("name"), str) or not is_object(item.get("inputSchema")):
        return False
    notes = item.get("annotations")
    if not (notes is None or is_object(notes)) or not _MORE.isdisjoint(item):
        return False
    texts = [item.get(name) for name in _TEXTS] + ([notes.get("title")] if notes else [])
    hints = [notes.get(name) for name in _HINTS] if notes else []
    objects = item.get("outputSchema"), item.get("_meta")
    return (
        all(value is None or isinstance(value, str) for value in texts)
        and all(value is None or isinstance(value, bool) for value in hints)
        and all(value is None or is_object(value) for value in objects)
    )


def plain_result(raw: JsonObject) -> Result | None:
    """The result of a call that is texts, pictures and sounds, and perhaps an object, in any version of the
    protocol; None for all others. Nearly all are so, and a model of the SDK costs more than the rest of the
    way."""
    content: Any = raw.get("content")
    if content.__class__ is not list:
        return None
    blocks: list[Block] = []
    for item in content:
        # What nearly all blocks are, without a pattern: a match takes four times as long.
        if item.__class__ is dict and len(item) == 2 and item.get("type") == "text":
            text = item.get("text")
            block = Block("text", text) if text.__class__ is str else None
        else:
            block = _plain_block(item)
        if block is None:
            return None
        blocks.append(block)
    if len(raw) == 1:
        return Result(tuple(blocks))
    structured, is_error, meta = raw.get("structuredContent"), raw.get("isError", False), raw.get("_meta", {})
    if not isinstance(is_error, bool) or not is_object(meta):
        return None
    if raw.get("resultType", "complete") != "complete" or "inputRequests" in raw or "requestState" in raw:
        return None
    has_structured = "structuredContent" in raw
    if has_structured and not is_object(structured):
        return None
    found = Result(tuple(blocks), structured, is_error, has_structured)
    if not meta:
        return found
    return replace(found, meaning=in_data(meta) if is_error else None, meta=passed(meta))


def to_result(raw: JsonObject) -> Result:
    """The result of a call of an MCP server, which was found to be one."""
    meta, is_error = raw.get("_meta"), bool(raw.get("isError"))
    return Result(
        content=tuple(to_block(block) for block in raw.get("content", ())),
        structured=raw.get("structuredContent"),
        is_error=is_error,
        has_structured="structuredContent" in raw,
        meaning=in_data(meta) if is_error and meta else None,
        meta=passed(meta),
    )


def to_block(raw: JsonObject) -> Block:
    """A content block of an MCP server, which was found to be one."""
    notes, kind = raw.get("annotations"), raw["type"]
    besides = {key: raw[key] for key in _BESIDES if raw.get(key) is not None}
    match kind:
        case "text":
            return Block("text", text=raw["text"], annotations=notes, besides=besides or None)
        case "resource_link":
            return Block(
                "link", uri=raw["uri"], name=raw["name"], text=raw.get("description"),
                mime_type=raw.get("mimeType"), size=raw.get("size"), annotations=notes,
                besides=besides or None,
            )  # fmt: skip
        case "resource":
            held: JsonObject = raw["resource"]
            if held.get("_meta"):
                besides["resource"] = {"_meta": held["_meta"]}
            return Block(
                "resource", uri=held["uri"], data=held.get("blob"), text=held.get("text"),
                mime_type=held.get("mimeType"), annotations=notes, besides=besides or None,
            )  # fmt: skip
        case _:
            return Block(
                kind, data=raw["data"], mime_type=raw["mimeType"], annotations=notes, besides=besides or None
            )


_BESIDES = ("_meta", "title", "icons")


def _plain_block(item: Any) -> Block | None:
    match item:
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(mime)} if len(item) == 3:
            return Block(kind, data=data, mime_type=mime)
        case _:
            return None


def to_error(error: McpError, name: str, exchange: CallExchange | None = None) -> SpindleError:
    """The error that a JSON-RPC error means: by its data, its code, and the HTTP status that it came with."""
    if (way := loop_in(error)) is not None:
        return LoopError.along((name, *way))
    if (made := _made_here(error, name, exchange)) is not None:
        return made
    code, data = error.code, error.data
    details: dict[str, Any] = {"code": code}
    if data is not None and size_of(data) <= MAX_ERROR_DATA:
        details["data"] = data
    fields: dict[str, Any] = {"answered": True, "details": details}
    if code == URL_ELICITATION_REQUIRED:
        fields["hint"] = "the server wants you to visit a page first"
    if code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        fields["remedy"] = _of_capability(data)
    status = exchange.status if exchange is not None else None
    # Some servers put an HTTP status in the place of the code.
    meaning = in_data({"code": code}, details.get("data")) if code not in OF_PROTOCOL else None
    if meaning is None and exchange is not None and status is not None and status >= 400:
        # The code for a timeout is also that of a session which is not known, and of others.
        known = of_code(code) if code != REQUEST_TIMEOUT else None
        meaning = known or answered(status, exchange.retry_after)
    meaning = meaning or of_code(code) or Meaning("server")
    if meaning.status is None and status is not None and status >= 300:
        fields["status"] = status
    return from_meaning(meaning, f"{name!r}: {_shortened(error.message)}", **fields)


def _of_capability(data: Any) -> Remedy | None:
    """The way out where a server wants to ask what nobody here answers."""
    wanted = data.get("requiredCapabilities") if is_object(data) else None
    found = (way_out(name) for name in wanted) if is_object(wanted) else ()
    return next((remedy for remedy in found if remedy is not None), None)


def _made_here(error: McpError, name: str, exchange: CallExchange | None) -> SpindleError | None:
    """The error for an answer that never came or cannot be read, which the server itself did not report."""
    code, message = error.code, error.message
    match error:
        case LinkLostError():
            return ConnectionFailedError(f"lost {name!r}: {message}", sent=error.sent)
        case MessageTooLargeError():
            return too_large(name, message)
        case UnreadableAnswerError():
            return ServerError(f"{name!r} sent an answer that cannot be read: {message}")
        case NoAnswerError():
            return CallTimeoutError(f"{name!r}: {message}")
        case _ if exchange is None or error.data is not None or exchange.had_json_rpc_error:
            return None
        case _ if code == CONNECTION_CLOSED and exchange.ended:
            return ConnectionFailedError(f"{name!r}: {message}", details={"code": code})
        case _:
            return None


def against_protocol(name: str, error: ValidationError) -> ServerError:
    """The error for an answer that is not as the protocol has it."""
    return ServerError(
        f"{name!r} answered against the protocol: {first_problem(error)}",
        hint="tell the author of the server",
    )


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with an answer, in one line, and none of what it holds."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(step) for step in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} … ({len(text):,} characters)"


def loop_in(error: McpError) -> list[str] | None:
    """The names of the sources on the way, if the error is that of another workspace about a loop."""
    data: Any = error.data
    return trail.loop_path(data.get(trail.LOOP_KEY)) if is_object(data) else None


def too_large(name: str, message: str) -> ResultTooLargeError:
    """The error for an answer over the size limit."""
    return ResultTooLargeError(
        f"{name!r}: {message}", hint=f"ask for less, or raise sources.{name}.max_result_size"
    )


def describe_failure(name: str, error: McpError, exchange: CallExchange) -> SpindleError:
    """The error that a failed request means."""
    if exchange.too_large:
        return too_large(name, exchange.too_large)
    if exchange.failure is not None:
        reason = str(exchange.failure) or type(exchange.failure).__name__
        return ConnectionFailedError(
            f"cannot reach {name!r}: {reason}",
            hint="check that the server runs and that the URL is right",
            sent=not exchange.never_sent,
            unreachable=exchange.never_sent,
        )
    # Who may not come in is told so by the status, whatever else the body says.
    speaks_for_itself = exchange.had_json_rpc_error and exchange.status not in (401, 403, 407, 429)
    if exchange.status is not None and exchange.status >= 400 and not speaks_for_itself:
        message = f"{name!r} answered with HTTP status {exchange.status}"
        if exchange.had_json_rpc_error:
            message += f": {error.message}"
        return from_status(
            exchange.status, message, retry_after=exchange.retry_after, challenge=exchange.challenge
        )
    return to_error(error, name, exchange)
