"""Conversations in the layout of KNIME's message value: a struct of numbered fields for each message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt

from spindle.domain.json_schema import from_json, is_object
from spindle.errors import TableError

_PART = pa.struct([("0", pa.string()), ("1", pa.large_binary())])
_CALL = pa.struct([("0", pa.string()), ("1", pa.string()), ("2", pa.string())])
STORAGE = pa.struct([
    ("0", pa.string()),  # USER, AI or TOOL
    ("1", pa.large_list(_PART)),  # content: of each part its kind, and its bytes
    ("2", pa.large_list(_CALL)),  # calls of the AI: id, name of the tool, arguments as JSON
    ("3", pa.string()),  # of a result the id of its call
    ("4", pa.string()),  # name: of a result that of the tool. Messages of older versions lack it.
])  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n"

_ROLES = {"USER": "user", "AI": "assistant", "TOOL": "tool"}
_TYPES = {ours: theirs for theirs, ours in _ROLES.items()}
_TEXT = ("text", "string")
_PICTURE = ("png", "image")
_DATA_URL = b"data:image/png;base64,"


def message_column(table: pa.Table) -> str | None:
    """The last column of such messages, if there is one."""
    found = [field.name for field in table.schema if _is_message(field.type)]
    return found[-1] if found else None


def _is_message(kind: pa.DataType) -> bool:
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not pt.is_struct(storage) or storage.num_fields not in (4, 5):
        return False
    fields = [storage.field(index) for index in range(storage.num_fields)]
    return (
        [field.name for field in fields] == ["0", "1", "2", "3", "4"][: len(fields)]
        and _is_text(fields[0].type)
        and all(_is_list_of_structs(field.type) for field in fields[1:3])
        and all(_is_text(field.type) for field in fields[3:])
    )


def _is_text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind)


def _is_list_of_structs(kind: pa.DataType) -> bool:
    lists = pt.is_list(kind) or pt.is_large_list(kind)
    return lists and pt.is_struct(kind.value_type)


def rows_of_values(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """The messages as rows of a conversation. Missing ones are left out. Raises TableError, which names the
    message."""
    rows: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for index, cell in enumerate(_cells(column)):
        if cell is not None:
            rows.extend(_rows(f"message {index}", cell, names))
    return rows


def _cells(column: pa.ChunkedArray) -> Iterable[Any]:
    for chunk in column.chunks:
        plain: Any = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        yield from plain.to_pylist()


def _rows(which: str, cell: Mapping[str, Any], names: dict[str, str]) -> list[dict[str, Any]]:
    """`names`: of the tools, by the ids of the calls so far."""
    role = _ROLES.get(cell["0"])
    if role is None:
        raise TableError(
            f"{which} is of the kind {cell['0']!r}, which is not known",
            hint=f"there are: {', '.join(_ROLES)}",
        )
    parts = [_part(which, part) for part in cell["1"] or ()]
    texts = [part for part in parts if isinstance(part, str)]
    pictures = [part for part in parts if isinstance(part, bytes)]
    if role == "assistant":
        said = [{"role": role, "content": text} for text in texts if text]
        calls = [_call(which, call, names) for call in cell["2"] or ()]
        return [*said, *calls]  # nothing, if it said nothing: providers refuse an empty text
    row: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if pictures:
        row["pictures"] = pictures
    if role == "tool":
        name = cell.get("4") or names.get(str(cell["3"]))
        row |= {"tool_call_id": cell["3"], "tool_name": name, "is_error": False}
    return [row]


def _part(which: str, part: Mapping[str, Any] | None) -> str | bytes:
    kind, data = (part or {}).get("0"), (part or {}).get("1") or b""
    if kind in _TEXT:
        return data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    if kind not in _PICTURE:
        raise TableError(f"{which} has a part of the kind {kind!r}, which is not known: `text` or `png`")
    given = data.encode() if isinstance(data, str) else bytes(data)
    if given.startswith(_DATA_URL):  # KNIME writes pictures that a model was sent in this way
        try:
            given = base64.b64decode(given.removeprefix(_DATA_URL), validate=True)
        except binascii.Error:
            given = b""
    if not given.startswith(PNG):
        raise TableError(f"{which} has a part of the kind {kind!r} that is no PNG picture")
    return given


def _call(which: str, call: Mapping[str, Any] | None, names: dict[str, str]) -> dict[str, Any]:
    made, name, arguments = ((call or {}).get(key) for key in "012")
    if not made or not name:
        raise TableError(f"{which} asks for a call that has no {'name' if made else 'id'}")
    try:
        given = from_json(str(arguments or "{}").encode())
    except ValueError:
        given = None
    if not is_object(given):
        raise TableError(f"{which}: the arguments of the call {made!r} are no JSON object")
    names[made] = name
    return {"role": "assistant", "tool_name": name, "tool_call_id": made, "arguments": arguments or "{}"}


def message_values(messages: pa.Table) -> pa.Array:
    """The messages of a table such as `prompt` returns, in the layout of KNIME's message value.

    What the assistant says and calls before somebody else speaks is one message. KNIME has no messages of
    the system: they are left out.
    """
    cells: list[dict[str, Any]] = []
    for row in messages.to_pylist():
        kind = _TYPES.get(row["role"])
        if kind is None:
            continue
        if not (kind == "AI" and cells and cells[-1]["0"] == kind):
            cells.append({"0": kind, "1": [], "2": None, "3": None, "4": None})
        _add(cells[-1], row)
    return pa.array(cells, STORAGE)


def _add(cell: dict[str, Any], row: Mapping[str, Any]) -> None:
    if cell["0"] == "AI" and row.get("tool_call_id"):
        call = {"0": row.get("tool_call_id"), "1": row.get("tool_name"), "2": row.get("arguments") or "{}"}
        cell["2"] = [*(cell["2"] or ()), call]
        return
    pictures = cast("list[bytes]", row.get("pictures") or [])
    if row["content"] or not pictures:
        cell["1"].append({"0": "text", "1": (row["content"] or "").encode()})
    cell["1"].extend({"0": "png", "1": picture} for picture in pictures)
    if cell["0"] == "TOOL":
        cell |= {"3": row.get("tool_call_id"), "4": row.get("tool_name")}
