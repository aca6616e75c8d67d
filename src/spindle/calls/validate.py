"""Arguments and structured results against the JSON Schemas that sources gave."""

from __future__ import annotations

import itertools
import json
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from spindle.domain.json_schema import JsonObject, is_object, parameters, type_of
from spindle.errors import InvalidArgumentsError, ServerError, suggest
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

    from spindle.domain.tool import Tool

MAX_PROBLEMS = 50
MAX_COMPILED = 2000
MAX_DEPTH = 200


def read_arguments(arguments: object) -> JsonObject:
    """Reads arguments as a model gave them: an object, or the JSON text of one, which models sometimes
    break. None or an empty text means no arguments."""
    if isinstance(arguments, str | bytes):
        if not arguments.strip():
            return {}
        try:
            # Not orjson: this one names the place, and accepts what models write, such as raw line breaks.
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentsError(
                f"the arguments are not valid JSON: {error}", hint="make the call again with valid JSON"
            ) from None
    if arguments is None:
        return {}
    if not is_object(arguments):
        raise InvalidArgumentsError(
            f"the arguments must be a JSON object, not {type_of(arguments)}",
            hint="make the call again with one",
        )
    return arguments


class Validation:
    """Compiles each schema once. Nothing is coerced, filled in or fetched."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[str, str], Validator] = OrderedDict()

    def check_arguments(self, tool: Tool, arguments: JsonObject) -> None:
        problems = not_json(arguments)
        if not problems:
            validator = self._validator(tool, "input", tool.input_schema)
            if validator.is_valid(arguments):
                return
            found = itertools.islice(validator.iter_errors(arguments), MAX_PROBLEMS)
            problems = [_problem(error, "arguments") for error in found]
        lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
        raise InvalidArgumentsError(
            f"the arguments do not fit {tool.name}: {lines}",
            hint=(meant := _meant(tool, arguments)),
            remedy=None if meant else Remedy("parameters", tool.name),
            tool=tool.name,
            source=tool.source,
            details=problems,
            sent=False,
        )

    def check_structured(self, tool: Tool, structured: Any, given: bool) -> None:
        """Checks a result against the tool's output schema, so that callers can rely on it."""
        if tool.output_schema is None:
            return
        if not given:
            raise ServerError(
                f"{tool.name} promises structured output and gave none",
                hint="tell the author of the source", tool=tool.name, source=tool.source,
            )  # fmt: skip
        validator = self._validator(tool, "output", tool.output_schema)
        if not validator.is_valid(structured):
            problem = _problem(next(iter(validator.iter_errors(structured))), "the result")
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


def problems_with(schema: JsonObject, value: Any, whole: str) -> list[dict[str, str]]:
    """Everything in which a value does not fit a schema, each with its path."""
    if odd := list(_oddities(value, "", 0)):
        return odd
    try:
        validator = _validator_for(schema)
    except ValueError as error:
        return [{"path": whole, "problem": f"its schema is not valid: {str(error).split(chr(10), 1)[0]}"}]
    return [_problem(error, whole) for error in itertools.islice(validator.iter_errors(value), MAX_PROBLEMS)]


def schema_problem(schema: JsonObject) -> str | None:
    """Why a schema cannot be used, or None."""
    try:
        _validator_for(schema)
    except ValueError as error:
        return str(error).split("\n", 1)[0]
    return None


def _compile(tool: Tool, side: str, schema: JsonObject) -> Validator:
    try:
        return _validator_for(schema)
    except ValueError as error:
        raise ServerError(
            f"the {side} schema of {tool.name} is not valid: {str(error).split(chr(10), 1)[0]}",
            hint="tell the author of the source, or leave the tool out with `exclude`",
            tool=tool.name,
            source=tool.source,
        ) from None


def _validator_for(schema: JsonObject) -> Validator:
    import jsonschema_rs

    # Offline: a schema must not make us fetch an address of its author's choice. And what a format means
    # in detail is the source's to say: drafts differ, and a refusal here could not be argued with.
    try:
        return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)
    except ValueError:
        if "$schema" not in schema:
            raise
        # It may name a dialect that nobody can know; the keywords are then taken as in the newest draft.
        plain = {key: value for key, value in schema.items() if key != "$schema"}
        return jsonschema_rs.validator_for(plain, offline=True, validate_formats=False)


def not_json(arguments: Mapping[Any, Any]) -> list[dict[str, str]]:
    """The problems with arguments that cannot be sent as JSON without loss or change."""
    import orjson

    try:
        written = orjson.dumps(
            arguments, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
        )
    except TypeError:
        written = b""
    # A number that is not one is written as null; so a null needs a second look.
    return list(_oddities(arguments, "", 0)) if not written or b"null" in written else []


def _oddities(value: Any, path: str, depth: int) -> Iterator[dict[str, str]]:
    if depth > MAX_DEPTH:
        yield {"path": _shown(path), "problem": f"nested more than {MAX_DEPTH} levels deep"}
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            if isinstance(key, str):
                yield from _oddities(item, f"{path}.{key}", depth + 1)
            else:
                yield {"path": _shown(path), "problem": f"{key!r} is not text, as a name must be"}
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _oddities(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield {"path": _shown(path), "problem": f"{value} is not a number that JSON knows"}
    elif isinstance(value, str):
        if not value.isascii() and value.encode("utf-8", "replace") != value.encode("utf-8", "surrogatepass"):
            yield {"path": _shown(path), "problem": "holds half a character, which is not Unicode text"}
    elif value is not None and not isinstance(value, (int, Enum, UUID)):
        yield {"path": _shown(path), "problem": f"a Python {type(value).__name__} is not JSON"}


def _problem(error: ValidationError, whole: str) -> dict[str, str]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return {"path": _shown(path, whole), "problem": error.message}


def _shown(path: str, whole: str = "arguments") -> str:
    return path.removeprefix(".") or whole


def _meant(tool: Tool, arguments: JsonObject) -> str | None:
    known = [parameter.name for parameter in parameters(tool.input_schema)]
    for name in arguments:
        meant = suggest(str(name), known) if name not in known else None
        if meant:
            return f"did you mean {meant!r} instead of {name!r}?"
    return None
