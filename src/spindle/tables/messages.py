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
from spindle.tables.message_layout import PNG, message_column, rows_of_values

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

PICTURES = pa.field("pictures", pa.list_(pa.binary()))
"""PNG pictures beside the text of a message: a column that is there only if a message has some."""
KEYS = (*SCHEMA.names, PICTURES.name)
MOST = 20 * 1024 * 1024
"""Bytes of all pictures of a conversation."""

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
    pictures: tuple[bytes, ...] = ()


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
    if not (found[-1].content or "").strip() and not found[-1].pictures:
        raise TableError("the last message is empty", hint="say what the model is to do")
    if sum(len(picture) for message in found for picture in message.pictures) > MOST:
        raise TableError(f"the pictures of a conversation may have {MOST} bytes together, and have more")
    _check_calls(found)
    return found


def _rows_of(table: pa.Table) -> list[Any]:
    values = message_column(table)
    if values is not None and "role" not in table.column_names:
        return rows_of_values(table.column(values))
    for name in ("role", "content"):
        if name not in table.column_names:
            there = f"it has: {', '.join(table.column_names) or 'none'}"
            hint = did_you_mean(name, table.column_names, there)
            raise TableError(f"the table of messages has no column {name!r}", hint=hint)
    return table.select([name for name in KEYS if name in table.column_names]).to_pylist()


def _message(index: int, given: Any) -> ConversationRow:
    if isinstance(given, str):
        return ConversationRow("user", given)
    if not is_object(given):
        raise TableError(f"message {index} is a {type(given).__name__}: a text, or an object with `role`")
    unknown = given.keys() - set(KEYS)
    if unknown:
        name = sorted(unknown)[0]
        raise TableError(
            f"message {index} has {name!r}, which is not known",
            hint=did_you_mean(name, KEYS, f"there are: {', '.join(KEYS)}"),
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
        _pictures(index, role, given.get("pictures")),
    )


def _pictures(index: int, role: str, given: Any) -> tuple[bytes, ...]:
    found = tuple(cast("Sequence[Any]", given or ()))
    if found and role not in ("user", "tool"):
        raise TableError(f"message {index} is of the {role}, and only the user's and results have pictures")
    if not all(isinstance(picture, bytes) and picture.startswith(PNG) for picture in found):
        raise TableError(f"message {index}: its pictures are to be the bytes of PNG files")
    return found


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
        BinaryContent,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    def shown(text: str, pictures: Sequence[bytes]) -> Any:
        return (
            [text, *(BinaryContent(data, media_type="image/png") for data in pictures)] if pictures else text
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
            told: ModelRequestPart = UserPromptPart(shown(text, message.pictures))
            if message.role == "tool":
                failed = "failed" if message.is_error else "success"
                # Of a mark in the text itself, which anybody can write into a table, nothing is believed.
                content = shown(framed(unframed(text), name), message.pictures)
                told = ToolReturnPart(name, content, str(message.tool_call_id), outcome=failed)
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
                pictures = _pngs(part.content)
                found.append(ConversationRow("user", _text(part.content), pictures=pictures))
            elif isinstance(part, ToolReturnPart):
                name = names.get(part.tool_call_id, part.tool_name)
                failed = part.outcome != "success"
                text, pictures = unframed(_text(part.content)), _pngs(part.content)
                row = ConversationRow("tool", text, name, part.tool_call_id, None, failed, pictures)
                found.append(row)
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
    schema = SCHEMA
    if any(message.pictures for message in messages):
        schema = SCHEMA.append(PICTURES)
        columns[PICTURES.name] = pa.array([list(message.pictures) for message in messages], PICTURES.type)
    return pa.table(columns, schema=schema.with_metadata(dict(metadata or {})))


def _text(content: Any) -> str:
    """The text of a message. PNG pictures are apart; others are only named."""
    parts = [part for part in _parts(content) if not _is_png(part)]
    return "\n".join(part if isinstance(part, str) else "[a picture]" for part in parts)


def _pngs(content: Any) -> tuple[bytes, ...]:
    return tuple(part.data for part in _parts(content) if _is_png(part))


def _is_png(part: Any) -> bool:
    return getattr(part, "media_type", None) == "image/png" and bytes(part.data).startswith(PNG)


def _parts(content: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", content) if isinstance(content, list | tuple) else [content]


def _safe(name: str) -> str:
    """The tool's name with only characters that every provider accepts, as models see it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
