"""What the nodes do, without KNIME."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from spindle import bearer
from spindle.domain.json_schema import from_json, to_json
from spindle.errors import AuthError, TableError
from spindle.tables import for_knime, tool_column, tool_provider
from spindle.tables import prompt as prompt_model
from spindle.tables.tool_row import ToolRow

COLUMNS = {
    "kind": pa.string(),
    "name": pa.string(),
    "description": pa.string(),
    "parameters": pa.string(),
    "input": pa.string(),
    "output": pa.string(),
    "message_output_port": pa.int32(),
    "file_store_keys": pa.string(),
    "server_uri": pa.string(),
}
"""Of the plain table. JSON is text."""


def provide(
    url: str,
    *,
    credential_name: str | None = None,
    password_of: Callable[[str], str | None],
    prefix: str = "",
    strict: bool = False,
    as_tools: bool = False,
    note: Callable[[str], None],
) -> pa.Table:
    """The tools of a server: a column for each field, or one column of tools with an int32 kind."""
    token = None if credential_name is None else _token(credential_name, password_of)
    notes: list[str] = []
    table = tool_provider(
        url,
        credential=token,
        credential_name=credential_name,
        name=prefix or None,
        strict=strict,
        note=notes.append,
    )
    if notes:
        note("\n".join(notes))  # a node shows one warning
    column = table.column("tool")
    return pa.table({"tool": for_knime(column)}) if as_tools else as_columns(column.to_pylist())


def prompt(
    tools: pa.Table,
    message: str,
    *,
    history: pa.Table | None = None,
    data: pa.Table | None = None,
    data_id: str = "data",
    model: str,
    key_name: str,
    password_of: Callable[[str], str | None],
    instructions: str = "",
    workspace: str = "",
    trusted: bool = False,
    destructive: bool = False,
    note: Callable[[str], None],
) -> pa.Table:
    """What was said, as a table. Rows that want a credential to be given get the password of the credentials
    variable of its name; the model's provider gets that of `key_name`."""
    rows = rows_in(tools)
    wanted = {
        str(row.credential["name"]) for row in rows if row.credential and row.credential["type"] == "given"
    }
    notes: list[str] = []
    said: Any = message if history is None else _continued(history, message)
    try:
        return prompt_model(
            rows,
            said,
            data={} if data is None else {data_id: data},
            model=model,
            key=_token(key_name, password_of),
            credentials={name: bearer(_token(name, password_of)) for name in sorted(wanted)},
            instructions=instructions,
            workspace=workspace or None,
            trusted=trusted,
            destructive=destructive,
            note=notes.append,
        )
    finally:
        if notes:
            note("\n".join(notes))


def rows_in(table: pa.Table) -> list[ToolRow]:
    """The tools of a table: of plain columns, or of its column of tools."""
    missing = [name for name in COLUMNS if name not in table.column_names]
    if not missing:
        return rows_of(table)
    try:
        found = tool_column(table)
    except TableError as error:
        raise TableError(
            error.message, hint=f"for tools in plain columns these are missing: {', '.join(missing)}"
        ) from None
    return [row for row in found.to_pylist() if row is not None]


def _continued(history: pa.Table, message: str) -> pa.Table:
    last = pa.table({"role": ["user"], "content": [message]})
    return pa.concat_tables([history, last], promote_options="default")


def as_columns(rows: Sequence[ToolRow | None]) -> pa.Table:
    """Every field in a column of its own, which any node can work with."""
    fields = [{} if row is None else row.to_dict() for row in rows]
    return pa.table(
        {name: pa.array([_plain(row.get(name)) for row in fields], kind) for name, kind in COLUMNS.items()}
    )


def rows_of(table: pa.Table) -> list[ToolRow]:
    """The tools of a table that `as_columns` made, whatever was filtered or sorted since."""
    listed = table.select(list(COLUMNS)).to_pylist()
    return [ToolRow.from_dict(_read(cells)) for cells in listed if cells["name"] is not None]


def _read(cells: dict[str, Any]) -> dict[str, Any]:
    json = ("parameters", "input", "output", "file_store_keys")
    return {
        key: from_json(value.encode()) if key in json and value is not None else value
        for key, value in cells.items()
    }


def _plain(value: object) -> object:
    return to_json(value).decode() if isinstance(value, dict | list) else value


def _token(name: str, password_of: Callable[[str], str | None]) -> str:
    """Chosen credentials that are not there are an error: the server is never asked without them."""
    try:
        token = password_of(name)
    except Exception as error:
        raise AuthError(f"the credentials {name!r} cannot be read: {error}") from error
    if not token or not token.strip():
        raise AuthError(
            f"the credentials {name!r} have no password",
            hint="enter the server's token as their password, in the node that makes the flow variable",
        )
    return token
