"""Older layouts of columns of tools, and the names that made them.

docs/how-to/tables.md describes each of them field by field. A layout is recognised by its fields alone: names
of extension types get lost on the way through other software, and fields do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt

from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import TableError
from spindle.tables.keys import keys_of, text_of_keys
from spindle.tables.parts import Port, ToolKind
from spindle.tables.tool_row import NO_PORT, ToolRow
from spindle.tables.values import FIELDS, cell_of, row_of

PLAIN = "plain structs of nine fields"
TEN = "structs of ten fields"
WORKFLOWS = "workflow tools alone"
MCP = "MCP tools alone"
STORED = "with a file store around them"


def layout_of(kind: pa.DataType) -> str | None:
    """Describes the older layout that a struct has; None if it does not hold tools."""
    inner = _inside_store(kind)
    if inner is not None:
        found = layout_of(inner)
        return f"{found}, {STORED}" if found and not found.endswith(STORED) else None
    if _fits(kind, [_number, *[_text] * 5, _number, _keys, _text]):
        return PLAIN
    if _fits(kind, [_number, *[_text] * 5, _number, *[_text] * 3]):
        return TEN
    if _fits(kind, [_text, _text, _text, _ports, _ports, _number]):
        return WORKFLOWS
    return MCP if _fits(kind, [_text] * 4) else None


def is_nine(kind: pa.DataType) -> bool:
    """True if the struct only needs a cast."""
    return _fits(kind, [_number, *[_text] * 5, _number, _text, _text])


def rows_of(storage: pa.Array) -> list[ToolRow | None]:
    """The tools of an array in one of the known layouts."""
    rows: list[ToolRow | None] = []
    for index, cell in enumerate(cast("list[dict[str, Any] | None]", storage.to_pylist())):
        try:
            rows.append(None if cell is None else row_of_dict(cell))
        except TableError as error:
            raise TableError(f"row {index}: {error.message}", hint=error.hint) from None
    return rows


def row_of_dict(cell: Mapping[str, Any]) -> ToolRow:
    """The tool in one cell of any layout."""
    match sorted(cell):
        case ["0", "1"] if isinstance(cell["1"], Mapping):
            return _of_store(cell)
        case [_, _, _, _]:
            return _of_mcp(cell)
        case [_, _, _, _, _, _]:
            return _of_workflow(cell)
        case names if names == sorted(str(number) for number in range(9)):
            return _of_nine(cell)
        case names if names == sorted(str(number) for number in range(10)):
            return _of_ten(cell)
        case names:
            raise TableError(
                f"a cell with the fields {', '.join(names)} is no tool",
                hint="docs/how-to/tables.md describes the layouts that are read",
            )


def _of_store(cell: Mapping[str, Any]) -> ToolRow:
    keys: Any = cell["0"]
    row = row_of_dict(cell["1"])
    if not keys:
        return row
    return replace(row, file_store_keys=keys_of(keys))


def _of_workflow(cell: Mapping[str, Any]) -> ToolRow:
    given, gives = _spec_of_ports(cell["3"]), _spec_of_ports(cell["4"])
    port = _whole({"6": cell["5"]}, "6")
    return row_of((int(ToolKind.WORKFLOW), cell["0"], cell["1"], cell["2"], given, gives, port, None, None))


def _of_mcp(cell: Mapping[str, Any]) -> ToolRow:
    """The tool of an MCP cell. Its name is also stored as the server's name for it, so that renaming does
    not lose that."""
    given = to_json({"tool": cell["0"]}).decode()
    return row_of((int(ToolKind.MCP), cell["0"], cell["1"], cell["2"], given, None, NO_PORT, None, cell["3"]))


def _of_ten(cell: Mapping[str, Any]) -> ToolRow:
    row = _of_nine(cell)
    if row.kind is not ToolKind.MCP:
        return row
    given: JsonObject = {"tool": row.name}
    if cell["9"]:
        given["credential"] = {"type": "given", "name": cell["9"]}
    return replace(row, input={**given, **(row.input or {})})


def _of_nine(cell: Mapping[str, Any]) -> ToolRow:
    kind, port = _whole(cell, "0"), _whole(cell, "6")
    keys = text_of_keys(keys_of(cell["7"]))
    return row_of((kind, cell["1"], cell["2"], cell["3"], cell["4"], cell["5"], port, keys, cell["8"]))


def _whole(cell: Mapping[str, Any], number: str) -> int | None:
    """The number in a field. Software without nullable integers turns them into 1.0, and null into NaN."""
    value = cell[number]
    if value is None or value != value:
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise TableError(f"its {FIELDS[int(number)]} (field {number}) is {value!r}, not a whole number")


def _spec_of_ports(ports: Any) -> str | None:
    """The spec of ports given as a list of structs, or as JSON text."""
    if isinstance(ports, str) or not ports:
        return ports or None
    listed = [Port.from_dict(port).to_dict() for port in ports if port is not None]
    return to_json({"ports": listed}).decode()


# --- recognising


def _number(kind: pa.DataType) -> bool:
    """True for numbers, including the types that other software turns whole numbers and empty columns
    into."""
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_null(kind)


def _text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind) or pt.is_null(kind)


def _keys(kind: pa.DataType) -> bool:
    """True for the types that file-store keys are written as."""
    if _is_list(kind):
        return pt.is_null(kind.value_type) or _keys(kind.value_type)
    return _text(kind) or pt.is_binary(kind) or kind in (pa.large_binary(), pa.binary_view())


def _ports(kind: pa.DataType) -> bool:
    if _is_list(kind):
        inner = kind.value_type
        return pt.is_null(inner) or _fits(inner, [_text] * 4)
    return _text(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pt.is_list(kind) or pt.is_large_list(kind) or pt.is_list_view(kind)


def _fits(kind: pa.DataType, fields: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    if not pt.is_struct(kind) or kind.num_fields != len(fields):
        return False
    given = [kind.field(index) for index in range(kind.num_fields)]
    return all(
        field.name == str(number) and fits(field.type)
        for number, (field, fits) in enumerate(zip(given, fields, strict=True))
    )


def _inside_store(kind: pa.DataType) -> pa.DataType | None:
    """The type of the cells that KNIME stores together with keys of its file store."""
    if not pt.is_struct(kind) or kind.num_fields != 2:
        return None
    keys, inner = kind.field(0), kind.field(1)
    if (keys.name, inner.name) != ("0", "1") or not pt.is_struct(inner.type):
        return None
    return inner.type if _keys(keys.type) else None


# --- the names that made them


class ToolValueFactory:
    """Converts cells to and from dicts, for software that passes cells one by one, such as KNIME."""

    def encode(self, value: ToolRow | None) -> dict[str, Any] | None:
        """The cell of a tool as a dict."""
        if value is None:
            return None
        return {str(number): part for number, part in enumerate(cell_of(value))}

    def decode(self, storage: Mapping[str, Any] | None) -> ToolRow | None:
        """The tool in a dict, also of an older layout."""
        return None if storage is None else row_of_dict(storage)


class WorkflowToolValueFactory(ToolValueFactory):
    """The old name of `ToolValueFactory`, for columns of workflow tools alone."""

    def __init__(self) -> None:
        _warn("WorkflowToolValueFactory", "ToolValueFactory")


class MCPToolValueFactory(ToolValueFactory):
    """The old name of `ToolValueFactory`, for columns of MCP tools alone."""

    def __init__(self) -> None:
        _warn("MCPToolValueFactory", "ToolValueFactory")


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=3)
