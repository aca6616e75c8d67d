"""Tables that a model refers to by their ids. It sees their columns, never their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import pyarrow as pa

from spindle.calls.record import MASK
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import InvalidArgumentsError, TableError, did_you_mean

TYPE_WORD = b"spindle.type"
"""Beside a column: the word for its type that the model is shown, if its Arrow type says too little."""
MAX_COLUMNS = 200
"""Of a table, that are named to the model."""

_ID = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[\w.+-]+""")


class DataTables:
    """Tables by id: those that were given, and those that tools made, whose ids are in `made`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._tables: dict[str, pa.Table] = {}
        self.made: list[str] = []
        for name, table in given.items():
            if not _ID.fullmatch(name):
                raise TableError(
                    f"{name!r} cannot be the id of a table",
                    hint="letters, digits, `_`, `-` and `.`, at most 64, with a letter first",
                )
            self._tables[name] = _as_table(name, table)

    def __getitem__(self, name: str) -> pa.Table:
        """The table of that id. Raises InvalidArgumentsError, which a model can act on."""
        found = self._tables.get(name)
        if found is None:
            there = f"there are: {', '.join(self._tables) or 'none'}"
            hint = did_you_mean(name, self._tables, there)
            raise InvalidArgumentsError(f"there is no table {name!r}", hint=hint)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def describe(self, name: str) -> JsonObject:
        """The description that the model sees: the table's id and columns."""
        schema = self._tables[name].schema
        columns = [{"name": field.name, "type": _word(field)} for field in schema][:MAX_COLUMNS]
        left = len(schema) - len(columns)
        return {"table": name, "columns": columns, **({"further_columns": left} if left else {})}

    def instructions(self) -> str:
        """The part of the model's instructions that lists all tables."""
        if not self._tables:
            return ""
        lines = ["Tables are handed to tools by their ids. Their rows are not shown to you. There are:"]
        for name in self._tables:
            shown = self.describe(name)
            columns = ", ".join(f"{column['name']} ({column['type']})" for column in shown["columns"])
            more = f" and {shown['further_columns']} more" if "further_columns" in shown else ""
            lines.append(f"- {name}: {columns or 'no columns'}{more}")
        return "\n".join(lines)

    def keep(self, name: str, rows: Any) -> JsonObject:
        """Stores a table that a tool made, and returns the description that the model sees instead."""
        wanted = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:60]
        base = wanted if _ID.fullmatch(wanted) else f"table_{wanted}"
        number, chosen = 1, base
        while chosen in self._tables:
            number += 1
            chosen = f"{base}_{number}"
        self._tables[chosen] = rows if isinstance(rows, pa.Table) else rows_as_table(name, rows)
        self.made.append(chosen)
        return self.describe(chosen)

    def hidden_in(self, text: str, names: Iterable[str]) -> str:
        """Masks the values of these tables in a text: an error may quote the value that it is about. Names
        of columns and tables stay."""
        tables = [self._tables[name] for name in names]
        known = {*self._tables, *(column for table in tables for column in table.column_names)}
        cells = {str(cell) for table in tables for cell in _cells(table)} - known - {"None", ""}
        for cell in sorted((cell for cell in cells if len(cell) > 3 and cell in text), key=len, reverse=True):
            text = text.replace(cell, MASK)

        def shown(word: re.Match[str]) -> str:
            bare = word[0].strip("'\"")
            return MASK if bare in cells or bare.strip(".+-") in cells else word[0]

        return _WORD.sub(shown, text)


def is_rows(value: Any) -> bool:
    """True if the value looks like the rows of a table."""
    return is_array(value) and bool(value) and all(is_object(item) for item in value)


def rows_as_table(name: str, value: Any) -> pa.Table:
    """Builds a table from rows as objects, or from columns as lists. Messages hold no values, since a
    model reads them."""
    try:
        if is_array(value) and all(is_object(row) for row in value):
            rows = cast("list[JsonObject]", value)
            names = list(dict.fromkeys(key for row in rows for key in row))
            return pa.table({column: pa.array([row.get(column) for row in rows]) for column in names})
        if is_object(value) and all(is_array(column) for column in value.values()):
            return pa.table({column: pa.array(cells) for column, cells in value.items()})
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
        raise TableError(
            f"{name!r} does not fit into a table: a column has values of several types, or its columns "
            "have not the same length"
        ) from None
    raise TableError(f"{name!r} is no table: neither a list of objects nor an object of lists")


def _word(field: pa.Field) -> str:
    written = (field.metadata or {}).get(TYPE_WORD)
    return str(field.type) if written is None else written.decode("utf-8", "replace")


def _as_table(name: str, given: Any) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "__arrow_c_stream__"):  # pandas, polars, DuckDB
        return pa.table(given)
    raise TableError(
        f"the data {name!r} is a {type(given).__name__}, not a table",
        hint="give a pyarrow table, or a frame of pandas or polars",
    )


def _cells(table: pa.Table) -> Iterator[Any]:
    for column in table.columns:
        for value in column.to_pylist():
            yield from _inside(value)


def _inside(value: Any) -> Iterator[Any]:
    if is_object(value):
        for item in value.values():
            yield from _inside(item)
    elif is_array(value):
        for item in value:
            yield from _inside(item)
    else:
        yield value
