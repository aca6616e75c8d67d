"""Conversations with a model as tables, in both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from spindle.calls.framing import framed, unframed
from spindle.domain.json_schema import is_object, to_json
from spindle.errors import TableError, did_you_mean

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

ROLES = ("system", "user", "assistant", "tool")
SCHEMA = pa.schema([
    pa.field("role", pa.string()),
    pa.field("content", pa.string()),
    pa.field("tool_name", pa.string()),
    pa.field("tool_call_id", pa.string()),
    pa.field("arguments", pa.string()),
    pa.field("is_error", pa.bool_()),
])  # fmt: skip

Messages = str | Sequence[str | Mapping[str, Any]] | pa.Table


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One row of a conversation. A call that the model asks for is a row of the assistant with a
    `tool_call_id`; its result is the row of the tool with the same id."""

    role: str
    content: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    arguments: str | None = None
    is_error: bool | None = None


def read_messages(given: Any) -> list[ConversationRow]:
    """Reads the caller's messages, of which the last must be the user's. Raises TableError, which names
    the row."""
    rows: list[Any]
    if isinstance(given, str):
        rows = [given]
    elif isinstance(given, pa.Table):
        rows = _rows_of(given)
    else:
        rows = list(cast("Sequence[Any]", given))
    found = [_message(index, row) for index, row in enumerate(rows)]
    if not found or found[-1].role != "user":
        what = f"the last message is of the {found[-1].role}" if found else "there is no message"
        raise TableError(f"{what}, so the model has nothing to answer", hint="end with one of the user")
    if not (found[-1].content or "").strip():
        raise TableError("the last message is empty", hint="say what the model is to do")
    _check_calls(found)
    return found


def _rows_of(table: pa.Table) -> list[Any]:
    for name in ("role", "content"):
        if name not in table.column_names:
            there = f"it has: {', '.join(table.column_names) or 'none'}"
            hint = did_you_mean(name, table.column_names, there)
            raise TableError(f"the table of messages has no column {name!r}", hint=hint)
    return table.select([name for name in SCHEMA.names if name in table.column_names]).to_pylist()


def _message(index: int, given: Any) -> ConversationRow:
    if isinstance(given, str):
        return ConversationRow("user", given)
    if not is_object(given):
        raise TableError(f"message {index} is a {type(given).__name__}: a text, or an object with `role`")
    unknown = given.keys() - set(SCHEMA.names)
    if unknown:
        name = sorted(unknown)[0]
        raise TableError(
            f"message {index} has {name!r}, which is not known",
            hint=did_you_mean(name, SCHEMA.names, f"there are: {', '.join(SCHEMA.names)}"),
        )
    role, content = given.get("role"), given.get("content")
    if role not in ROLES:
        raise TableError(
            f"message {index} has the role {role!r}, which is not known",
            hint=f"there are: {', '.join(ROLES)}",
        )
    if content is not None and not isinstance(content, str):
        raise TableError(f"message {index}: its content is a {type(content).__name__}, not a text")
    if role == "tool" and not given.get("tool_call_id"):
        raise TableError(f"message {index} is the result of a call, and has no tool_call_id")
    return ConversationRow(
        role,
        content,
        given.get("tool_name"),
        given.get("tool_call_id"),
        given.get("arguments"),
        given.get("is_error"),
    )


def _check_calls(messages: Sequence[ConversationRow]) -> None:
    """Refuses a call without a result and a result without a call, as providers do."""
    open_calls: dict[str, int] = {}
    for index, message in enumerate(messages):
        call = message.tool_call_id
        if message.role == "assistant" and call:
            open_calls[call] = index
        elif message.role == "tool" and open_calls.pop(str(call), None) is None:
            raise TableError(f"message {index} is the result of the call {call!r}, and there is no such call")
        elif message.role in ("user", "system") and open_calls:
            first, place = next(iter(open_calls.items()))
            raise TableError(f"message {place} asks for the call {first!r}, and there is no result of it")


def instructions_of(messages: Sequence[ConversationRow]) -> list[str]:
    """The texts of the system's messages."""
    return [message.content for message in messages if message.role == "system" and message.content]


def history_of(messages: Sequence[ConversationRow]) -> list[ModelMessage]:
    """All messages but the last, in the form that an agent takes; without the system's."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    found: list[ModelMessage] = []
    for message in messages[:-1]:
        text, name = message.content or "", _safe(message.tool_name or "tool")
        if message.role == "assistant":
            said: ModelResponsePart = TextPart(text)
            if message.tool_call_id:
                said = ToolCallPart(name, message.arguments or "{}", message.tool_call_id)
            if found and isinstance(found[-1], ModelResponse):
                found[-1] = ModelResponse([*found[-1].parts, said])
            else:
                found.append(ModelResponse([said]))
        elif message.role != "system":
            told: ModelRequestPart = UserPromptPart(text)
            if message.role == "tool":
                failed = "failed" if message.is_error else "success"
                # Of a mark in the text itself, which anybody can write into a table, nothing is believed.
                text = framed(unframed(text), name)
                told = ToolReturnPart(name, text, str(message.tool_call_id), outcome=failed)
            if found and isinstance(found[-1], ModelRequest):
                found[-1] = ModelRequest([*found[-1].parts, told])
            else:
                found.append(ModelRequest([told]))
    return found


def messages_of(conversation: Sequence[ModelMessage], names: Mapping[str, str]) -> list[ConversationRow]:
    """The conversation as rows; `names` gives the names of the tools by the id of the call."""
    from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    found: list[ConversationRow] = []
    for message in conversation:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                found.append(ConversationRow("user", _text(part.content)))
            elif isinstance(part, ToolReturnPart):
                name = names.get(part.tool_call_id, part.tool_name)
                failed = part.outcome != "success"
                text = unframed(_text(part.content))
                found.append(ConversationRow("tool", text, name, part.tool_call_id, is_error=failed))
            elif isinstance(part, TextPart) and part.content:
                found.append(ConversationRow("assistant", part.content))
            elif isinstance(part, ToolCallPart):
                name = names.get(part.tool_call_id, part.tool_name)
                written = part.args if isinstance(part.args, str) else to_json(part.args or {}).decode()
                found.append(ConversationRow("assistant", None, name, part.tool_call_id, written))
    return found


def message_table(
    messages: Sequence[ConversationRow], metadata: Mapping[bytes, bytes] | None = None
) -> pa.Table:
    """The messages as a table."""
    columns = {
        field.name: pa.array([getattr(message, field.name) for message in messages], field.type)
        for field in SCHEMA
    }
    return pa.table(columns, schema=SCHEMA.with_metadata(dict(metadata or {})))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else [content]
    return "\n".join(part if isinstance(part, str) else "[a picture]" for part in parts)


def _safe(name: str) -> str:
    """The tool's name with only characters that every provider accepts, as models see it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
