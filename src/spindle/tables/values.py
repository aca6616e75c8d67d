"""Conversions between a tool and the nine values of its cell, "0" to "8".

A reader that knows only the specification of these nine finds in each what it says. Whatever else a row has
goes where such a reader does not look: for a remote tool into the input and output specs, for a workflow,
whose specs are arrays of ports, into the server URI.
"""

from __future__ import annotations

from typing import Any, cast

from spindle.domain.json_schema import (
    EMPTY_OBJECT_SCHEMA,
    JsonObject,
    from_json,
    is_array,
    is_object,
    to_json,
)
from spindle.errors import TableError
from spindle.tables.keys import keys_of, text_of_keys
from spindle.tables.parts import MAX_PORT, Port, ToolKind, is_map_of_properties
from spindle.tables.tool_row import NO_PORT, PROPERTIES_ONLY, ToolRow

Cell = tuple[
    int | None, str | None, str | None, str | None, str | None, str | None, int | None, str | None, str | None
]
FIELDS = (
    "kind", "name", "description", "parameter schema", "input spec", "output spec",
    "message output port", "file-store keys", "server URI",
)  # fmt: skip

_KINDS = {int(kind): kind for kind in ToolKind}

REST = "spindle:"
"""Begins the server URI of a workflow: JSON with what its other fields have no place for."""
DISPLAY_NAME = "display_name"
"""Of the input spec: the row's name, where the name in the cell is the server's."""
_COLUMNS = "port_columns"


def cell_of(row: ToolRow) -> Cell:
    """The nine values of a tool."""
    if row.kind is ToolKind.WORKFLOW:
        parameters, given, gives, uri = _of_workflow(row)
        name = row.name
    else:
        name, spec = _name_and_spec(row)
        parameters, uri = row.parameters, row.server_uri
        given = None if spec is None else _text(spec)
        gives = None if row.output is None else _text(row.output)
    return (
        int(row.kind),
        name,
        row.description,
        _text(parameters),
        given,
        gives,
        row.message_output_port_index,
        text_of_keys(row.file_store_keys),
        uri,
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
    if port is not None and not NO_PORT <= port <= MAX_PORT:
        raise TableError(f"its message output port (field 6) is {port}", hint="-1 says that there is none")
    read, written = _spec(given, 4), _spec(gives, 5)
    if kind is ToolKind.WORKFLOW and uri is not None and uri.startswith(REST):
        rest = _object(uri.removeprefix(REST), 8) or {}
        read, written = _joined(read, rest.get("input")), _joined(written, rest.get("output"))
        address = rest.get("server_uri")
        uri = address if isinstance(address, str) else None
    elif kind is ToolKind.MCP and read is not None and read.get("tool") == name:
        shown = read.get(DISPLAY_NAME)
        if isinstance(shown, str) and shown:
            name = shown
            del read[DISPLAY_NAME]
    return ToolRow(
        kind,
        name,
        description or "",
        _object(parameters, 3) or dict(EMPTY_OBJECT_SCHEMA),
        read,
        written,
        None if port is None or port == NO_PORT else port,
        keys_of(keys),
        uri,
    )


_NEWER = "it was probably written by a newer version: upgrade"


def _text(value: Any) -> str:
    return to_json(value).decode()


# --- remote tools


def _name_and_spec(row: ToolRow) -> tuple[str, JsonObject | None]:
    """The name by which a reader may call the tool, and the input spec with the row's own name."""
    if row.kind is not ToolKind.MCP or row.input is None or row.remote_name == row.name:
        return row.name, row.input
    return row.remote_name, {**row.input, DISPLAY_NAME: row.name}


# --- workflows


def _of_workflow(row: ToolRow) -> tuple[JsonObject, str | None, str | None, str | None]:
    """The parameters, both specs and the server URI."""
    parameters, spec = row.parameters, row.input
    inner: Any = parameters.get("properties")
    if (
        spec is not None
        and spec.get(PROPERTIES_ONLY) is True
        and parameters == {"type": "object", "properties": inner}
        and is_object(inner)
        and is_map_of_properties(inner)
    ):
        parameters = inner
        spec = {key: value for key, value in spec.items() if key != PROPERTIES_ONLY} or None
    given, input_rest = _parted(spec)
    gives, output_rest = _parted(row.output)
    parts = {"input": input_rest, "output": output_rest}
    rest = {key: value for key, value in parts.items() if value is not None}
    if not rest and (row.server_uri is None or not row.server_uri.startswith(REST)):
        return parameters, given, gives, row.server_uri
    if row.server_uri is not None:
        rest["server_uri"] = cast(Any, row.server_uri)
    return parameters, given, gives, REST + _text(rest)


def _parted(spec: JsonObject | None) -> tuple[str | None, JsonObject | None]:
    """The array of a spec's ports, and the rest of the spec."""
    if spec is None:
        return None, None
    listed = spec.get("ports")
    if not is_array(listed) or not listed or not all(is_object(item) for item in listed):
        return None, spec
    ports = [Port.from_dict(item) for item in listed]
    text = _text([port.numbered() for port in ports])
    rest = {key: value for key, value in spec.items() if key != "ports"}
    columns = [port.to_dict().get("columns", []) for port in ports]
    if any(columns):
        rest[_COLUMNS] = columns
    exact = _COLUMNS not in spec and _joined(_spec(text, 0), rest or None) == spec
    return text, (rest or None) if exact else spec


def _joined(ports: JsonObject | None, rest: Any) -> JsonObject | None:
    """The spec that `_parted` took apart."""
    if not is_object(rest):
        return ports
    if ports is None or "ports" in rest:
        return rest
    columns = rest.get(_COLUMNS)
    listed = [dict(port) for port in ports["ports"]]
    if is_array(columns) and len(columns) == len(listed):
        for port, own in zip(listed, columns, strict=True):
            port |= {"columns": own} if own else {}
    found = [Port.from_dict(port).to_dict() for port in listed]
    return {**{key: value for key, value in rest.items() if key != _COLUMNS}, "ports": found}


# --- fields


def _json(text: str, number: int) -> Any:
    try:
        return from_json(text.encode())
    except ValueError as error:
        raise TableError(f"its {FIELDS[number]} (field {number}) is not JSON: {error}") from None


def _object(text: str | None, number: int) -> JsonObject | None:
    if not text:
        return None
    value = _json(text, number)
    if value is not None and not is_object(value):
        raise TableError(f"its {FIELDS[number]} (field {number}) is not a JSON object")
    return value


def _spec(text: str | None, number: int) -> JsonObject | None:
    """The spec: an array of ports, or an object, which older files have for workflows too."""
    if not text:
        return None
    value = _json(text, number)
    if value is None or is_object(value):
        return value
    if is_array(value) and all(is_object(item) for item in value):
        return {"ports": [Port.from_dict(item).to_dict() for item in value]} if value else None
    raise TableError(f"its {FIELDS[number]} (field {number}) is neither a JSON object nor an array of ports")
