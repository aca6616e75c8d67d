"""Converts between the SDK's types and ours: tools, results, and errors by their type and code."""

from __future__ import annotations

from typing import Any

from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp_types import Tool as McpTool

from spindle.domain import trail
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, is_object
from spindle.domain.tool import Hints, ToolSpec
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    LoopError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)
from spindle.mcp_imports import MCPError
from spindle.sources.mcp.dispatcher import LinkLostError, MessageTooLargeError


def to_spec(tool: McpTool, place: str) -> ToolSpec:
    """The definition of a tool of an MCP server."""
    annotations = tool.annotations
    meta = dict(tool.meta or {})
    way = trail.read(meta.pop(trail.META_KEY, None))
    return ToolSpec(
        remote_name=tool.name,
        title=tool.title or (annotations.title if annotations else None),
        description=tool.description or "",
        input_schema=tool.input_schema or dict(EMPTY_OBJECT_SCHEMA),
        output_schema=tool.output_schema,
        hints=Hints(
            read_only=annotations.read_only_hint,
            idempotent=annotations.idempotent_hint,
            destructive=annotations.destructive_hint,
            open_world=annotations.open_world_hint,
        )
        if annotations
        else Hints(),
        place=place,
        metadata=({"_meta": meta} if meta else {}) | ({trail.FIELD: trail.written(way)} if way else {}),
    )


def to_result(result: CallToolResult) -> Result:
    """The result of a call of an MCP server."""
    return Result(
        content=tuple(to_block(block) for block in result.content),
        structured=result.structured_content,
        is_error=bool(result.is_error),
        has_structured="structured_content" in result.model_fields_set,
    )


def to_block(block: ContentBlock) -> Block:
    """A content block of an MCP server."""
    notes = block.annotations.model_dump(mode="json", exclude_none=True) if block.annotations else None
    match block:
        case TextContent():
            return Block("text", text=block.text, annotations=notes)
        case ImageContent():
            return Block("image", data=block.data, mime_type=block.mime_type, annotations=notes)
        case AudioContent():
            return Block("audio", data=block.data, mime_type=block.mime_type, annotations=notes)
        case ResourceLink():
            return Block(
                "link", uri=str(block.uri), name=block.name, text=block.description,
                mime_type=block.mime_type, size=block.size, annotations=notes,
            )  # fmt: skip
        case EmbeddedResource():
            held = block.resource
            blob, text = (held.blob, None) if isinstance(held, BlobResourceContents) else (None, held.text)
            return Block(
                "resource", uri=str(held.uri), data=blob, text=text,
                mime_type=held.mime_type, annotations=notes,
            )  # fmt: skip


def to_error(error: MCPError, name: str) -> SpindleError:
    """The error that a JSON-RPC error means, where no HTTP status says more."""
    message = f"{name!r}: {error.error.message}"
    details: dict[str, Any] = {"code": error.error.code}
    if error.error.data is not None:
        details["data"] = error.error.data
    if (way := loop_in(error)) is not None:
        return LoopError.along((name, *way))
    if isinstance(error, LinkLostError):
        return ConnectionFailedError(f"lost {name!r}: {error.error.message}", sent=error.sent)
    if isinstance(error, MessageTooLargeError):
        return too_large(name, error.error.message)
    match error.error.code:
        case code if code == CONNECTION_CLOSED:
            return ConnectionFailedError(message, details=details)
        case code if code == REQUEST_TIMEOUT:
            return CallTimeoutError(message, details=details)
        case code if code == PARSE_ERROR:
            return ServerError(f"{name!r} sent an answer that cannot be read", details=details)
        case code if code in (INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, HEADER_MISMATCH):
            return ClientError(message, details=details)
        case code if code == URL_ELICITATION_REQUIRED:
            return AuthError(message, hint="the server wants you to visit a page first", details=details)
        case code:
            return ServerError(message, retryable=code == INTERNAL_ERROR, details=details)


def loop_in(error: MCPError) -> list[str] | None:
    """The names of the sources on the way, if the error is that of another workspace about a loop."""
    data: Any = error.error.data
    return trail.loop_path(data.get(trail.LOOP_KEY)) if is_object(data) else None


def too_large(name: str, message: str) -> ResultTooLargeError:
    """The error for an answer over the size limit."""
    return ResultTooLargeError(
        f"{name!r}: {message}", hint=f"ask for less, or raise sources.{name}.max_result_size"
    )
