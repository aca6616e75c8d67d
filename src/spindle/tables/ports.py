"""Parameters and results that are tables: `"format": "table"` in their JSON Schema, or the ports of a
workflow.

A table is handed over in the shape that its schema has: `array`, a list of rows; `object`, a list of values
for each column; `string`, the path of a Parquet file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, from_json, is_array, is_object, to_json
from spindle.errors import TableError
from spindle.tables.tool_row import Column, Port, ToolRow

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "table"
VALUE = "value"
"""The type of an output port of a flow that is no table."""

MAX_INLINE = 64 << 20
"""Bytes of a table that is handed over as JSON."""


def is_table(schema: Any) -> bool:
    """True if the schema describes a table."""
    return is_object(schema) and schema.get("format") == TABLE


def with_ports(row: ToolRow) -> ToolRow:
    """The row of a flow with ports: inputs that are tables become input ports instead of parameters, and
    outputs become output ports. The message output port is the only output that is not a table, if there
    is one."""
    properties = _properties(row.parameters)
    tables = {name: schema for name, schema in properties.items() if is_table(schema)}
    changed = row
    if tables:
        required: list[Any] = row.parameters.get("required") or []
        ports = [_port(name, schema, required=name in required) for name, schema in tables.items()]
        rest = {name: schema for name, schema in properties.items() if name not in tables}
        parameters = {**row.parameters, "properties": rest}
        parameters.pop("required", None)
        if kept := [name for name in required if name not in tables]:
            parameters["required"] = kept
        spec = {**(row.input or {}), "ports": [port.to_dict() for port in ports]}
        changed = replace(changed, parameters=parameters, input=spec)
    outputs = _properties(row.output_schema or {})
    if outputs:
        ports = [_port(name, schema) for name, schema in outputs.items()]
        values = [index for index, port in enumerate(ports) if port.type == VALUE]
        spec = {**(row.output or {}), "ports": [port.to_dict() for port in ports]}
        message = values[0] if len(values) == 1 else None
        changed = replace(changed, output=spec, message_output_port=message)
    return changed


def input_ports(row: ToolRow) -> dict[str, Port]:
    """The input ports under names that are unique among all parameters: workflows of other software may give
    two ports the same name."""
    found: dict[str, Port] = {}
    taken = {name for name, schema in _properties(row.parameters).items() if not is_table(schema)}
    for port in row.input_ports:
        number, name = 1, port.name or "table"
        while name in found or name in taken:
            number += 1
            name = f"{port.name or 'table'}_{number}"
        found[name] = port
    return found


def table_parameters(row: ToolRow) -> dict[str, Port]:
    """All parameters that take a table, by name."""
    marked = {
        name: _port(name, schema) for name, schema in _properties(row.parameters).items() if is_table(schema)
    }
    return marked | input_ports(row)


def table_results(row: ToolRow) -> frozenset[str]:
    """The names of the results that are tables."""
    marked = {name for name, schema in _properties(row.output_schema or {}).items() if is_table(schema)}
    return frozenset(marked | {port.name for port in row.output_ports if port.type == TABLE})


def shown_parameters(row: ToolRow) -> JsonObject:
    """The parameters as a model sees them: it gives the id of a table in place of the table."""
    ports = table_parameters(row)
    if not ports:
        return row.parameters
    written: Any = row.parameters.get("required")
    required: list[Any] = [*written] if is_array(written) else []
    for name, port in input_ports(row).items():
        if _schema_of(port).get("required") is not False and name not in required:
            required.append(name)
    references = {name: _reference(port) for name, port in ports.items()}
    shown: JsonObject = {"type": "object", **row.parameters}
    shown["properties"] = {**_properties(row.parameters), **references}
    return shown | ({"required": required} if required else {})


def missing_columns(port: Port, table: pa.Table) -> list[str]:
    """The columns that a port expects and the table lacks."""
    return [column.name for column in port.columns if column.name not in table.column_names]


def shaped(table: pa.Table, port: Port, folder: Path) -> Any:
    """The table in the form that the tool takes. A file is written into the folder."""
    types = _schema_of(port).get("type") or "array"
    listed: list[Any] = types if is_array(types) else [types]
    if "string" in listed:
        from spindle.tables.files import write_table

        file = folder / f"{len(list(folder.iterdir()))}.parquet"
        write_table(table, file)
        return str(file)
    if table.nbytes > MAX_INLINE:
        raise TableError(
            f"the table for `{port.name}` has {table.nbytes >> 20} MiB; at most {MAX_INLINE >> 20} MiB are "
            "handed over as JSON",
            hint='let the tool take the path of a file: {"type": "string", "format": "table"}',
        )
    plain = table.to_pydict() if "object" in listed and "array" not in listed else table.to_pylist()
    return from_json(to_json(plain, default=str))  # dates and decimals as text


def _port(name: str, schema: Any, *, required: bool = True) -> Port:
    described: JsonObject = schema if is_object(schema) else {}
    spec = described if required else {**described, "required": False}
    listed = _properties(described if described.get("type") == "object" else described.get("items"))
    columns = tuple(Column(column, _type_of(inner)) for column, inner in listed.items())
    return Port(
        name,
        str(described.get("description") or ""),
        TABLE if is_table(described) else VALUE,
        columns if is_table(described) else (),
        to_json(spec).decode() if spec else None,
    )


def _type_of(schema: Any) -> str:
    kind = schema.get("type") if is_object(schema) else None
    return " or ".join(map(str, kind)) if is_array(kind) else str(kind or "any")


def _schema_of(port: Port) -> JsonObject:
    """The schema of a port that was made here; other software writes other things into the spec."""
    try:
        found = from_json((port.spec or "{}").encode())
    except ValueError:
        return {}
    return found if is_object(found) else {}


def _reference(port: Port) -> JsonObject:
    columns = ", ".join(f"{column.name} ({column.type})" for column in port.columns)
    text = "The id of a table" + (f" with the columns {columns}" if columns else "")
    return {"type": "string", "description": f"{text}. {port.description}".rstrip(". ") + "."}


def _properties(schema: Any) -> JsonObject:
    found = schema.get("properties") if is_object(schema) else None
    return found if is_object(found) else {}
