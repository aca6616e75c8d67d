"""The published JSON Schema of a row, and checks against it."""

from __future__ import annotations

from functools import cache
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Hints
from spindle.tables.parts import MAX_PORT, ToolKind


def tool_row_schema() -> JsonObject:
    """The JSON Schema of `ToolRow.to_dict`. It is published as docs/reference/tool-row.schema.json."""
    text: JsonObject = {"type": "string"}
    schema = {"type": "object", "description": "A JSON Schema."}
    ports = {"type": "array", "items": {"$ref": "#/$defs/port"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ToolRow",
        "description": "A tool as a value that stands alone.",
        "type": "object",
        "properties": {
            "kind": {"enum": [kind.word for kind in ToolKind]},
            "name": {"type": "string", "minLength": 1},
            "description": text,
            "parameters": schema,
            "input": {
                "description": "What calling it takes. Further members are kept.",
                "type": ["object", "null"],
                "properties": {
                    "tool": {"type": "string", "description": "The server's name for it."},
                    "source": {"$ref": "#/$defs/source"},
                    "credential": {"$ref": "#/$defs/credential"},
                    "hints": {
                        "type": "object",
                        "properties": {name: {"type": "boolean"} for name in Hints.__dataclass_fields__},
                    },
                    "title": text,
                    "tags": {"type": "array", "items": text},
                    "pure": {"type": "boolean"},
                    "metadata": {"type": "object"},
                    "fingerprint": text,
                    "properties_only": {
                        "type": "boolean",
                        "description": "The cell has the properties of the parameters, without the schema.",
                    },
                    "ports": ports,
                },
            },
            "output": {
                "description": "What it gives. Further members are kept.",
                "type": ["object", "null"],
                "properties": {"schema": schema, "ports": ports},
            },
            "message_output_port": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_PORT},
            "file_store_keys": {"type": "array", "items": text},
            "server_uri": {"type": ["string", "null"]},
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
        "$defs": {
            "source": {
                "description": "Where it comes from, without secrets.",
                "type": "object",
                "properties": {
                    "name": text,
                    "kind": text,
                    "root": {"type": "string", "description": "The folder to which paths are relative."},
                    "settings": {"type": "object", "description": "As in a table [sources.NAME]."},
                },
                "required": ["kind", "settings"],
            },
            "credential": {
                "description": "Where the secret is to be found, never the secret.",
                "type": "object",
                "properties": {"type": text},
                "required": ["type"],
            },
            "port": {
                "type": "object",
                "properties": {
                    "name": text,
                    "description": text,
                    "type": text,
                    "columns": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"name": text, "type": text},
                            "required": ["name", "type"],
                        },
                    },
                    "spec": text,
                },
                "required": ["name"],
            },
        },
    }


@cache
def _validator() -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(tool_row_schema(), offline=True)


def validate(data: Any) -> None:
    """Raises ValueError for JSON that is no row; it names the wrong field."""
    validator = _validator()
    if validator.is_valid(data):
        return
    found = next(iter(validator.iter_errors(data)))
    path = ".".join(str(step) for step in found.instance_path)
    raise ValueError(f"{path or 'the tool'}: {found.message}")
