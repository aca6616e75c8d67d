"""Conversions between a tool and the nine values of its cell, "0" to "8"."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import (
    EMPTY_OBJECT_SCHEMA,
    JsonObject,
    from_json,
    is_array,
    is_object,
    to_json,
)
from spindle.errors import TableError
from spindle.tables.tool_row import ToolKind, ToolRow

Cell = tuple[
    int | None, str | None, str | None, str | None, str | None, str | None, int | None, str | None, str | None
]
FIELDS = (
    "kind", "name", "description", "parameter schema", "input spec", "output spec",
    "message output port", "file-store keys", "server URI",
)  # fmt: skip
NO_PORT = -1

_KINDS = {int(kind): kind for kind in ToolKind}


def cell_of(row: ToolRow) -> Cell:
    """The nine values of a tool."""
    return (
        int(row.kind),
        row.name,
        row.description,
        to_json(row.parameters).decode(),
        None if row.input is None else to_json(row.input).decode(),
        None if row.output is None else to_json(row.output).decode(),
        NO_PORT if row.message_output_port is None else row.message_output_port,
        to_json(row.file_store_keys).decode() if row.file_store_keys else None,
        row.server_uri,
    )


def row_of(cell: Cell) -> ToolRow:
    """The tool in a cell. Raises TableError, which names the field."""
    number, name, description, parameters, given, gives, port, keys, uri = cell
    kind = _KINDS.get(-1 if number is None else number)
    if kind is None:
        if number is None:
            raise TableError("its kind (field 0) is null")
        raise TableError(f"its kind (field 0) is {number}, which this Spindle does not know", hint=_NEWER)
    if not name:
        raise TableError("its name (field 1) is missing")
    if port is not None and port < NO_PORT:
        raise TableError(f"its message output port (field 6) is {port}", hint="-1 says that there is none")
    return ToolRow(
        kind,
        name,
        description or "",
        _object(parameters, 3) or dict(EMPTY_OBJECT_SCHEMA),
        _spec(given, 4),
        _spec(gives, 5),
        None if port is None or port == NO_PORT else port,
        _keys(keys),
        uri,
    )


_NEWER = "it was probably written by a newer version: upgrade"


def _json(text: str, number: int) -> Any:
    try:
        return from_json(text.encode())
    except ValueError as error:
        raise TableError(f"its {FIELDS[number]} (field {number}) is not JSON: {error}") from None


def _object(text: str | None, number: int) -> JsonObject | None:
    if not text:
        return None
    value = _json(text, number)
    if not is_object(value):
        raise TableError(f"its {FIELDS[number]} (field {number}) is not a JSON object")
    return value


def _spec(text: str | None, number: int) -> JsonObject | None:
    """The spec: an object, or an array of ports, which is what other software writes there."""
    if not text:
        return None
    value = _json(text, number)
    if value is None or is_object(value):
        return value
    if is_array(value) and all(is_object(item) for item in value):
        return {"ports": value}
    raise TableError(f"its {FIELDS[number]} (field {number}) is neither a JSON object nor an array of ports")


def _keys(text: str | None) -> tuple[str, ...]:
    """The keys in a JSON array; any other text is one key, as other software writes it."""
    if not text:
        return ()
    if text.startswith("["):
        value = _json(text, 7)
        if is_array(value) and all(isinstance(item, str) for item in value):
            return tuple(value)
    return (text,)
