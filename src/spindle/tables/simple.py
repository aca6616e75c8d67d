"""Tools whose parameters are simple values, for software that can enter nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spindle.domain.json_schema import JsonObject, Parameter, parameters
from spindle.tables.tool_row import ToolRow

SIMPLE = frozenset({"string", "integer", "number", "boolean"})

# The keywords that the schema of a simple value may have besides its type.
_KEPT = (
    "title", "description", "enum", "const", "default", "format", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "examples",
)  # fmt: skip


def simplified(rows: Sequence[ToolRow]) -> tuple[list[ToolRow], list[str]]:
    """The tools that work with simple parameters alone, without their other parameters; and sentences
    about what was left out."""
    kept: list[ToolRow] = []
    left_out: list[str] = []
    for row in rows:
        found = parameters(row.parameters)
        simple = {item.name: schema for item in found if (schema := _simple(item)) is not None}
        dropped = [item for item in found if item.name not in simple]
        needed = [item for item in dropped if item.required]
        if needed:
            left_out.append(f"{row.name} is left out: it needs {_listed(needed)}")
            continue
        if dropped:
            left_out.append(f"{row.name}: without its optional {_listed(dropped)}")
        required = [item.name for item in found if item.required]
        plain: JsonObject = {"type": "object", "properties": simple}
        kept.append(replace(row, parameters=plain | ({"required": required} if required else {})))
    return kept, left_out


def _simple(item: Parameter) -> JsonObject | None:
    types = item.types - {"null"}
    if len(types) != 1 or not types <= SIMPLE:
        return None
    return {"type": next(iter(types)), **{key: item.schema[key] for key in _KEPT if key in item.schema}}


def _listed(items: Sequence[Parameter]) -> str:
    return ", ".join(f"{item.name} ({item.label})" for item in items)
