"""The inputs and outputs of a flow, as JSON Schemas."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.flows.definition import FlowOutput


def input_schema(inputs: dict[str, Any]) -> JsonObject:
    """Returns the JSON Schema of a flow's inputs. A flow that declares none accepts any."""
    if not inputs:
        return {"type": "object", "properties": {}}
    properties: JsonObject = {}
    required: list[str] = []
    for name, schema in inputs.items():
        given: JsonObject = dict(schema) if is_object(schema) else {"type": str(schema)}
        if given.pop("required", "default" not in given):
            required.append(name)
        properties[name] = given
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schema


def output_schema(outputs: dict[str, Any] | None) -> JsonObject | None:
    """Returns the JSON Schema of a flow's outputs."""
    if outputs is None:
        return None
    found = {name: output_of(item) for name, item in outputs.items()}
    schema: JsonObject = {"type": "object", "properties": {name: item.schema for name, item in found.items()}}
    required = [name for name, item in found.items() if item.required]
    return {**schema, "required": required} if required else schema


def output_of(value: Any) -> FlowOutput:
    """Returns an output of a flow as a `FlowOutput`, whether or not it was given as one."""
    return value if isinstance(value, FlowOutput) else FlowOutput(value)
