"""The named outputs of a flow: every one that it declares, of the type that it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.errors import FlowError
from spindle.flows.expressions.errors import ExpressionError, UnresolvedError
from spindle.flows.expressions.paths import written_path
from spindle.flows.shared import SharedLookup
from spindle.flows.signature import output_of
from spindle.flows.templates import render
from spindle.schemas.compiled import CompiledSchema


def outputs_of(outputs: Mapping[str, Any], shared: Mapping[str, Any], at: str = "") -> JsonObject:
    """Returns the outputs by name. Raises FlowError where a template finds nothing, or a value does not fit;
    `at` is the place of the flow inside another, as `outer/`."""
    found: JsonObject = {}
    lookup = SharedLookup(shared)
    for name, item in outputs.items():
        output = output_of(item)
        place = f"{at}outputs.{name}"
        try:
            value = render(output.value, lookup)
        except UnresolvedError as error:
            if not output.required:
                continue
            way = written_path(error.path)
            raise FlowError(
                f"{place}: {error} when the flow is done",
                hint=f'give it a default, ${{{way} ?? …}}, or let it be left out: "required": false',
            ) from None
        except ExpressionError as error:
            raise FlowError(f"{place}: {error}", hint=error.hint) from None
        if output.schema:
            _check(value, output.schema, place)
        found[name] = value
    return found


def _check(value: Any, schema: JsonObject, place: str) -> None:
    try:
        mistakes = CompiledSchema(schema).mistakes(value)
    except ValueError as error:
        raise FlowError(f"{place} cannot be checked: {error}") from None
    for steps, problem in mistakes:
        inside = written_path(tuple(steps))
        raise FlowError(
            f"{place}{'.' if inside and not inside.startswith('[') else ''}{inside}: {problem}",
            hint="change the template, or the schema that the output declares",
        )
