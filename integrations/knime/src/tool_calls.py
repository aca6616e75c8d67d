"""What the nodes do, without KNIME."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from spindle import bearer
from spindle.domain.json_schema import from_json, to_json
from spindle.errors import AuthError, SpindleError, TableError
from spindle.tables import message_values, prompt_async, tool_column, tool_provider
from spindle.tables.data import TYPE_WORD
from spindle.tables.message_layout import message_column, rows_of_values
from spindle.tables.messages import KEYS, SCHEMA, message_table, read_messages
from spindle.tables.tool_row import ToolRow

T = TypeVar("T")

ROW_ID = "<RowID>"
"""The first column of every table that KNIME hands over. It is KNIME's, not data."""
ERROR = "error"
POLL = 0.1
"""Seconds after which KNIME is asked again if the node was canceled: it tells nobody by itself."""

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

MESSAGES = {field.name: field.type for field in SCHEMA}
"""The columns of messages."""
CONVERSATION = "Conversation"
"""The column of messages of KNIME's type."""

_OF_KNIME = {"human": "user", "ai": "assistant"}
_TO_KNIME = {ours: theirs for theirs, ours in _OF_KNIME.items()}
_DATES = {
    "LocalDate": "date",
    "LocalTime": "time of day",
    "LocalDateTime": "date and time",
    "ZonedDateTime": "date and time with a zone",
    "Duration": "duration",
    "Period": "duration in days",
}
_FACTORY = re.compile(r"value_factory_class\W+[\w.$]*?(\w+)ValueFactory")


class CanceledError(Exception):
    """The node was canceled."""


def never() -> bool:
    return False


def provide(
    url: str,
    *,
    credential_name: str | None = None,
    password_of: Callable[[str], str | None],
    prefix: str = "",
    strict: bool = False,
    is_canceled: Callable[[], bool] = never,
    note: Callable[[str], None],
) -> pa.Table:
    """The tools of a server, in one column of tools."""
    token = None if credential_name is None else _token(credential_name, password_of)
    notes: list[str] = []

    def ask() -> pa.Table:
        return tool_provider(
            url,
            credential=token,
            credential_name=credential_name,
            name=prefix or None,
            strict=strict,
            note=notes.append,
        )

    table = _in_thread(ask, is_canceled)
    if notes:
        note("\n".join(notes))  # a node shows one warning
    return table


def prompt(
    tools: pa.Table,
    message: str,
    *,
    history: pa.Table | None = None,
    data: Mapping[str, pa.Table] | None = None,
    model: str,
    key_name: str,
    password_of: Callable[[str], str | None],
    instructions: str = "",
    workspace: str = "",
    trusted: bool = False,
    destructive: bool = False,
    steps: int = 25,
    run_workflow: Callable[..., Any] | None = None,
    is_canceled: Callable[[], bool] = never,
    progress: Callable[[float, str], None] = lambda *_: None,
    knime_roles: bool = False,
    as_values: bool = False,
    errors: bool = False,
    note: Callable[[str], None],
) -> tuple[pa.Table, dict[str, pa.Table]]:
    """What was said, in plain columns or `as_values` of one, and the tables that tools made.

    Rows that want a credential to be given get the password of the credentials variable of its name; the
    model's provider gets that of `key_name`. With `errors`, what goes wrong is in a column of its own instead
    of failing the node.
    """
    given = {name: with_type_words(without_row_ids(table)) for name, table in (data or {}).items()}
    tables = dict(given)
    said: Any = message
    notes: list[str] = []
    try:
        said = message if history is None else _continued(history, message)
        rows = rows_in(tools)
        made = _watched(
            prompt_async(
                rows,
                said,
                data=tables,
                model=model,
                key=_token(key_name, password_of),
                credentials=_credentials(rows, password_of),
                instructions=instructions,
                workspace=workspace or None,
                trusted=trusted,
                destructive=destructive,
                limits={"steps": steps},
                final_answer=True,
                run_workflow=run_workflow,
                on_event=lambda event: progress(
                    min(event.step / (steps + 1), 0.99), f"step {event.step}: {event.tool or event.kind}"
                ),
                note=notes.append,
            ),
            is_canceled,
        )
        problem = None
    except SpindleError as error:
        if not errors:
            raise
        problem = f"{error.message} ({error.hint})" if error.hint else error.message
        try:
            made = message_table(read_messages(said))
        except TableError:  # which is the problem
            made = message_table(read_messages(message))
    finally:
        if notes:
            note("\n".join(notes))
    if as_values:
        made = pa.table({CONVERSATION: message_values(made)})
    else:
        made = made.select(SCHEMA.names)
        made = _with_roles(made, _TO_KNIME) if knime_roles else made
    if errors:
        column = pa.array([None] * (made.num_rows - 1) + [problem], pa.string())
        made = made.append_column(ERROR, column)
    return made, {name: table for name, table in tables.items() if name not in given}


def _credentials(rows: Sequence[ToolRow], password_of: Callable[[str], str | None]) -> dict[str, Any]:
    wanted = {
        str(row.credential.get("name"))
        for row in rows
        if row.credential and row.credential.get("type") == "given"
    }
    return {name: bearer(_token(name, password_of)) for name in sorted(wanted)}


# --- tables of KNIME


def without_row_ids(table: pa.Table) -> pa.Table:
    """The table without the ids that KNIME puts first."""
    return table.drop_columns([ROW_ID]) if ROW_ID in table.column_names else table


def with_type_words(table: pa.Table) -> pa.Table:
    """The table with words for the types of its columns that a model knows, such as dates."""
    fields = []
    for field in table.schema:
        word = type_word(field.type)
        more = {TYPE_WORD: word.encode()} if word else {}
        fields.append(field.with_metadata({**(field.metadata or {}), **more}))
    return table.cast(pa.schema(fields, table.schema.metadata)) if fields else table


def type_word(kind: pa.DataType) -> str | None:
    """A word for a logical type of KNIME, by the name of its value factory."""
    if not isinstance(kind, pa.BaseExtensionType):
        return None
    texts = [str(getattr(kind, name, "")) for name in ("logical_type", "_logical_type")]
    with contextlib.suppress(Exception):  # a type of other software, of which only the name is wanted
        texts.append(kind.__arrow_ext_serialize__().decode("utf-8", "replace"))
    found = _FACTORY.search(" ".join([*texts, str(kind)]))
    if found is None:
        return None
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", found[1]).lower()
    return _DATES.get(found[1], words)


def named(tables: Sequence[pa.Table], ids: str) -> dict[str, pa.Table]:
    """The tables by their ids; those without one are `data_1` and so on, by their place."""
    given = [name.strip() for name in ids.split(",")]
    names = [
        given[place] if place < len(given) and given[place] else f"data_{place + 1}"
        for place in range(len(tables))
    ]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TableError(f"two tables have the id {min(twice)!r}", hint="give each an id of its own")
    return dict(zip(names, tables, strict=True))


def newest(made: Sequence[pa.Table], ports: int) -> list[pa.Table]:
    """As many of the tables that tools made as there are ports, the newest last."""
    kept = list(made)[-ports:] if ports else []
    return [*kept, *[pa.table({})] * (ports - len(kept))]


def rows_in(table: pa.Table) -> list[ToolRow]:
    """The tools of a table: of plain columns, or of its column of tools."""
    table = without_row_ids(table)
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


def _continued(history: pa.Table, message: str) -> list[dict[str, Any]]:
    """The history and the message after it. The history is of KNIME's type of messages, or in plain columns
    with our names for the roles or KNIME's."""
    values = message_column(history)
    if values is not None and "role" not in history.column_names:
        before = rows_of_values(history[values])
    else:
        before = _with_roles(history, _OF_KNIME).select(_known(history)).to_pylist()
    return [*before, {"role": "user", "content": message}]


def _known(history: pa.Table) -> list[str]:
    missing = {"role", "content"} - {*history.column_names}
    if missing:
        raise TableError(
            f"the history has no column {min(missing)!r}, and none of KNIME's type of messages",
            hint=f"it has: {', '.join(without_row_ids(history).column_names) or 'none'}",
        )
    return [name for name in KEYS if name in history.column_names]


def _with_roles(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    if "role" not in table.column_names:
        return table
    roles = [names.get(role, role) for role in table["role"].to_pylist()]
    return table.set_column(table.column_names.index("role"), "role", pa.array(roles, pa.string()))


def as_columns(rows: Sequence[ToolRow | None]) -> pa.Table:
    """Every field in a column of its own, which any node can work with."""
    fields = [{} if row is None else row.to_dict() for row in rows]
    return pa.table(
        {name: pa.array([_plain(row.get(name)) for row in fields], kind) for name, kind in COLUMNS.items()}
    )


def rows_of(table: pa.Table) -> list[ToolRow]:
    """The tools of a table that `as_columns` made, whatever was filtered or sorted since."""
    rows: list[ToolRow] = []
    for index, cells in enumerate(table.select(list(COLUMNS)).to_pylist()):
        if cells["name"] is None:
            continue
        try:
            rows.append(ToolRow.from_dict(_read(cells)))
        except ValueError as error:
            raise TableError(f"row {index} is no tool: {error}") from None
    return rows


def _read(cells: dict[str, Any]) -> dict[str, Any]:
    json = ("parameters", "input", "output", "file_store_keys")
    return {
        key: from_json(value.encode()) if key in json and value is not None else value
        for key, value in cells.items()
        if value is not None or key in ("input", "output", "message_output_port", "server_uri")
    }


def _plain(value: object) -> object:
    return to_json(value).decode() if isinstance(value, dict | list) else value


# --- work that can be canceled


def _watched(work: Coroutine[Any, Any, T], is_canceled: Callable[[], bool]) -> T:
    """The result of the work, unless KNIME cancels the node: then the work is canceled too."""

    async def run() -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            if is_canceled():
                task.cancel()
                await asyncio.wait([task])
                raise CanceledError("the node was canceled")
            await asyncio.wait([task], timeout=POLL)
        return task.result()

    if is_canceled():
        work.close()
        raise CanceledError("the node was canceled")
    return asyncio.run(run())


def _in_thread(work: Callable[[], T], is_canceled: Callable[[], bool]) -> T:
    """The same for work that blocks. After a cancellation it ends by its own time limit."""
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, work()))
        except BaseException as error:  # noqa: BLE001 - raised again below
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True, name="spindle provider")
    if not is_canceled():
        thread.start()
        while thread.is_alive() and not is_canceled():
            thread.join(POLL)
    if not outcome:
        raise CanceledError("the node was canceled")
    ((done, value),) = outcome
    if not done:
        raise value
    return value


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
