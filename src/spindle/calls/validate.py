"""Arguments and structured results against the JSON Schemas that sources gave."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, parameters
from spindle.errors import InvalidArgumentsError, ServerError, suggest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

    from spindle.domain.tool import Tool

MAX_PROBLEMS = 50
MAX_COMPILED = 2000


class Validation:
    """Compiles each schema once. Nothing is coerced, filled in or fetched."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[str, str], Validator] = OrderedDict()

    def check_arguments(self, tool: Tool, arguments: JsonObject) -> None:
        validator = self._validator(tool, "input", tool.input_schema)
        if validator.is_valid(arguments):
            return
        found = itertools.islice(validator.iter_errors(arguments), MAX_PROBLEMS)
        problems = [_problem(error) for error in found]
        lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
        raise InvalidArgumentsError(
            f"the arguments do not fit {tool.name}: {lines}",
            hint=_hint(tool, arguments),
            tool=tool.name,
            source=tool.source,
            details=problems,
        )

    def check_structured(self, tool: Tool, structured: Any, given: bool) -> None:
        """A result must be what its tool promised; a caller that relies on it must not be misled."""
        if tool.output_schema is None:
            return
        if not given:
            raise ServerError(
                f"{tool.name} promises structured output and gave none",
                hint="tell the author of the source", tool=tool.name, source=tool.source,
            )  # fmt: skip
        validator = self._validator(tool, "output", tool.output_schema)
        first = next(iter(validator.iter_errors(structured)), None)
        if first is not None:
            problem = _problem(first)
            raise ServerError(
                f"what {tool.name} returned does not fit its output schema: "
                f"{problem['path']}: {problem['problem']}",
                hint="tell the author of the source", tool=tool.name, source=tool.source,
            )  # fmt: skip

    def _validator(self, tool: Tool, side: str, schema: JsonObject) -> Validator:
        key = (tool.fingerprint, side)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _compile(tool, side, schema)
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        return found


def schema_problem(schema: JsonObject) -> str | None:
    """Why a schema cannot be used, or None."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema, offline=True)
    except ValueError as error:
        return str(error).split("\n", 1)[0]
    return None


def _compile(tool: Tool, side: str, schema: JsonObject) -> Validator:
    import jsonschema_rs

    try:
        # Offline: a schema must not make us fetch an address of its author's choice.
        return jsonschema_rs.validator_for(schema, offline=True)
    except ValueError as error:
        raise ServerError(
            f"the {side} schema of {tool.name} is not valid: {str(error).split(chr(10), 1)[0]}",
            hint="tell the author of the source, or leave the tool out with `exclude`",
            tool=tool.name,
            source=tool.source,
        ) from None


def _problem(error: ValidationError) -> dict[str, str]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return {"path": path.removeprefix(".") or "arguments", "problem": error.message}


def _hint(tool: Tool, arguments: JsonObject) -> str:
    known = [parameter.name for parameter in parameters(tool.input_schema)]
    for name in arguments:
        meant = suggest(name, known) if name not in known else None
        if meant:
            return f"did you mean {meant!r} instead of {name!r}?"
    return f"`spindle call {tool.name} --help` shows its parameters"
