"""The Arrow type of a column of tools: an extension type that is registered when this module is imported.

Its storage is a struct of nine nullable fields "0" to "8", which other software sees as such.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from spindle.errors import TableError
from spindle.tables.tool_row import ToolRow
from spindle.tables.values import Cell, cell_of, row_of

EXTENSION_NAME = "spindle.tool"
LAYOUT = b'{"layout":4}'
"""Written beside the type. Layout 1 was two types, layout 2 had ten fields; `legacy` reads them. Layout 3 had
objects for the specs of workflows, and the row's own name in place of the server's."""

COLUMN = "tool"
"""The name of the column in tables that are made here."""
CHUNK = 10_000
"""Rows of a chunk: a chunk's texts of one field are at most 2 GiB."""

_NULL: Cell = (None, None, None, None, None, None, None, None, None)
_KINDS = (pa.int8(), pa.int32())
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


class ToolColumnType(pa.ExtensionType):
    """The extension type: `ToolColumnType()`, or with `pa.int32()` for KNIME, which takes no bytes inside a
    struct. Other software, such as polars, writes texts as `large_string`; that is read as it is."""

    def __init__(self, kind: pa.DataType | None = None, text: pa.DataType | None = None) -> None:
        number, words = kind or _KINDS[0], text or _TEXTS[0]
        if number not in _KINDS or words not in _TEXTS:
            raise TableError(
                f"the kind of a tool is int8 or int32 and its texts are strings: {number}, {words}"
            )
        rest = [(str(index), pa.int32() if index == 6 else words) for index in range(1, 9)]
        super().__init__(pa.struct([("0", number), *rest]), EXTENSION_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return LAYOUT

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> pa.ExtensionType:
        for kind, text in itertools.product(_KINDS, _TEXTS):
            if storage_type == (made := cls(kind, text)).storage_type:
                return made
        return OtherToolType(storage_type)

    def __arrow_ext_class__(self) -> type[ToolArray]:
        return ToolArray

    def __arrow_ext_scalar_class__(self) -> type[ToolScalar]:
        return ToolScalar


class OtherToolType(pa.ExtensionType):
    """A type of the same name written by older or newer software; `legacy` knows if it can be read."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, EXTENSION_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> OtherToolType:
        return cls(storage_type)


class ToolScalar(pa.ExtensionScalar):
    """One cell of a column of tools."""

    def as_py(self, **_options: Any) -> ToolRow | None:
        if self.value is None or not self.is_valid:
            return None
        storage = self.value.as_py()
        return row_of(tuple(storage[str(number)] for number in range(9)))


class ToolArray(pa.ExtensionArray):
    """A column of tools."""

    def to_pylist(self, **_options: Any) -> list[ToolRow | None]:
        """The tools, with None for null cells. Raises TableError, which names the row and the field."""
        storage = self.storage
        columns = [child.to_pylist() for child in storage.flatten()]
        cells: Iterable[Cell] = zip(*columns, strict=True)
        rows: list[ToolRow | None] = []
        for index, (valid, cell) in enumerate(zip(storage.is_valid().to_pylist(), cells, strict=True)):
            try:
                rows.append(row_of(cell) if valid else None)
            except TableError as error:
                raise TableError(f"row {index}: {error.message}", hint=error.hint) from None
        return rows


def tool_array(rows: Sequence[ToolRow | None], kind: pa.DataType | None = None) -> ToolArray:
    """Returns the tools as an array; None becomes a null cell."""
    made = ToolColumnType(kind)
    cells = [_NULL if row is None else cell_of(row) for row in rows]
    columns = list(zip(*cells, strict=True)) if cells else [()] * 9
    try:
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, made.storage_type, strict=True)
        ]
        nulls = pa.array([row is None for row in rows], pa.bool_())
        storage = pa.StructArray.from_arrays(arrays, fields=list(made.storage_type), mask=nulls)
    except (pa.ArrowException, UnicodeEncodeError, TypeError, OverflowError) as error:
        raise TableError(f"these tools do not fit into an Arrow column: {error}") from None
    return pa.ExtensionArray.from_storage(made, storage)


def tool_table(
    rows: Sequence[ToolRow | None], column: str = COLUMN, kind: pa.DataType | None = None
) -> pa.Table:
    """Returns the tools as a table of one column."""
    starts = range(0, len(rows), CHUNK)
    chunks = [tool_array(rows[start : start + CHUNK], kind) for start in starts]
    return pa.table({column: pa.chunked_array(chunks, ToolColumnType(kind))})


with contextlib.suppress(pa.ArrowKeyError):  # registered already: the module was loaded twice
    pa.register_extension_type(ToolColumnType())
