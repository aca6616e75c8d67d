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

from spindle.domain.json_schema import JsonObject, is_array, is_object, parameters, type_of
from spindle.errors import InvalidArgumentsError, ServerError, suggest
from spindle.remedies import Remedy
from spindle.schemas.compiled import MAX_PROBLEMS, CompiledSchema, TooCostlyError
from spindle.threads import in_short_turn

if TYPE_CHECKING:
    from spindle.domain.call import Result
    from spindle.domain.source import FormatCheck
    from spindle.domain.tool import Tool

MAX_COMPILED = 2000
MAX_DEPTH = 200
MAX_AT_ONCE = 5000
"""Parts of a schema that are compiled, or of a result that are checked, without leaving the event loop."""
MAX_BYTES_AT_ONCE = 16 * 1024
"""The same for arguments, in JSON: what has many parts takes milliseconds to look through."""
MAX_GUESSED = 10
"""Unknown arguments for which a known one is looked for."""


class LargeArgumentsError(Exception):
    """Arguments that should not be looked through in a turn of the event loop."""


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
        self._compiled: OrderedDict[tuple[str, str], CompiledSchema] = OrderedDict()

    def fits(self, tool: Tool, arguments: JsonObject, formats: FormatCheck = False) -> bool:
        """True if the arguments fit and there is nothing else to say about them, as is nearly always; False
        if `check_arguments` has to look."""
        schema = self._compiled.get((tool.fingerprint, "input"))
        if schema is None or (formats and schema.with_formats is not None):
            return False
        if schema.simple is not None and schema.simple.surely_fits(arguments):
            return True
        try:
            return is_surely_json(arguments) and schema.accepts(arguments)
        except TooCostlyError:
            return False

    async def prepare(self, tool: Tool) -> None:
        """Compiles the schema of a tool's arguments beside the event loop, if that takes long."""
        if (tool.fingerprint, "input") not in self._compiled and has_many_parts(tool.input_schema):
            await in_short_turn(self._prepared, tool)

    def _prepared(self, tool: Tool) -> None:
        _ = self._schema(tool, "input", tool.input_schema).with_formats

    def check_arguments(
        self, tool: Tool, arguments: JsonObject, formats: FormatCheck = False, *, aside: bool = True
    ) -> InvalidArgumentsError | None:
        """Raises InvalidArgumentsError for arguments that do not fit. `formats`: whether texts must have the
        formats that the schema names; with "note", the error is returned. Not `aside` from the event
        loop: raises LargeArgumentsError for those that may take long."""
        problems, is_odd = not_json(arguments, aside=aside), False
        if not problems:
            schema = self._schema(tool, "input", tool.input_schema)
            problems = schema.problems(arguments, "arguments")
            if not problems:
                problems = schema.odd_formats(arguments, "arguments") if formats else []
                is_odd = formats == "note"
                if not problems:
                    return None
        lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
        error = InvalidArgumentsError(
            f"the arguments do not fit {tool.name}: {lines}",
            hint=(meant := _meant(tool, arguments)),
            remedy=None if meant else Remedy("parameters", tool.name),
            tool=tool.name,
            source=tool.source,
            details=problems,
            sent=False,
        )
        if is_odd:
            return error
        raise error

    def check_structured(
        self, tool: Tool, result: Result, formats: FormatCheck = False
    ) -> ServerError | None:
        """Checks a result against the tool's output schema, so that callers can rely on it. `formats` as for
        arguments."""
        if tool.output_schema is None:
            return None
        if not result.has_structured:
            raise ServerError(
                f"{tool.name} promises structured output and gave none",
                hint="tell the author of the source", tool=tool.name, source=tool.source,
            )  # fmt: skip
        schema = self._schema(tool, "output", tool.output_schema)
        problems, is_odd = schema.problems(result.structured, "the result"), False
        if not problems and formats:
            problems, is_odd = schema.odd_formats(result.structured, "the result"), formats == "note"
        if not problems:
            return None
        error = ServerError(
            f"what {tool.name} returned does not fit its output schema: "
            f"{problems[0]['path']}: {problems[0]['problem']}",
            hint="tell the author of the source", tool=tool.name, source=tool.source,
        )  # fmt: skip
        if is_odd:
            return error
        raise error

    def check_told(self, tool: Tool, result: Result) -> None:
        """Raises InvalidArgumentsError for what a person says that the tool has returned, if it cannot
        have."""
        try:
            self.check_structured(tool, result)
        except ServerError as error:
            raise InvalidArgumentsError(f"the result does not fit: {error.message}", sent=False) from None

    def _schema(self, tool: Tool, side: str, schema: JsonObject) -> CompiledSchema:
        key = (tool.fingerprint, side)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _compile(tool, side, schema)
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        return found


def has_many_parts(value: Any) -> bool:
    """True for a schema or a result that should not be looked through in a turn of the event loop."""
    left, waiting = MAX_AT_ONCE, [value]
    while waiting and left > 0:
        part = waiting.pop()
        parts = list(part.values()) if is_object(part) else part if is_array(part) else []
        left -= len(parts)
        waiting += parts
    return left <= 0


def problems_with(schema: JsonObject, value: Any, whole: str) -> list[dict[str, str]]:
    """Everything in which a value does not fit a schema, each with its path."""
    if odd := list(_oddities(value, "", 0)):
        return odd
    try:
        return CompiledSchema(schema).problems(value, whole)
    except ValueError as error:
        return [{"path": whole, "problem": f"its schema is not valid: {error}"}]


def _compile(tool: Tool, side: str, schema: JsonObject) -> CompiledSchema:
    own = tool.spec.usable_input if side == "input" else tool.spec.usable_output
    definitions = tool.spec.definitions
    try:
        return CompiledSchema(schema, definitions.costs.of(own) if definitions is not None else None)
    except ValueError as error:
        raise ServerError(
            f"the {side} schema of {tool.name} is not valid: {error}",
            hint="tell the author of the source, or leave the tool out with `exclude`",
            tool=tool.name,
            source=tool.source,
        ) from None


def is_surely_json(arguments: Mapping[Any, Any]) -> bool:
    """True for arguments that can be sent as JSON without loss or change, and are not large. Others need a
    closer look."""
    written = _written(arguments)
    return len(written) <= MAX_BYTES_AT_ONCE and _is_faithful(written)


def not_json(arguments: Mapping[Any, Any], *, aside: bool = True) -> list[dict[str, str]]:
    """The problems with arguments that cannot be sent as JSON without loss or change. Not `aside` from the
    event loop: raises LargeArgumentsError for large ones."""
    written = _written(arguments)
    if not aside and len(written) > MAX_BYTES_AT_ONCE:
        raise LargeArgumentsError
    if _is_faithful(written):
        return []
    return list(itertools.islice(_oddities(arguments, "", 0), MAX_PROBLEMS))


def _written(arguments: Mapping[Any, Any]) -> bytes:
    """The arguments as JSON; nothing if they cannot be written."""
    import orjson

    try:
        return orjson.dumps(
            arguments, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
        )
    except TypeError:
        return b""


def _is_faithful(written: bytes) -> bool:
    # A number that is not one is written as null; so a null needs a second look, and so do many levels.
    is_odd = not written or b"null" in written or written.count(b"[") + written.count(b"{") > MAX_DEPTH
    return not is_odd


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


def _shown(path: str, whole: str = "arguments") -> str:
    return path.removeprefix(".") or whole


def _meant(tool: Tool, arguments: JsonObject) -> str | None:
    known = [parameter.name for parameter in parameters(tool.input_schema)]
    unknown = (name for name in arguments if name not in known)
    for name in itertools.islice(unknown, MAX_GUESSED):
        if meant := suggest(str(name), known):
            return f"did you mean {meant!r} instead of {name!r}?"
    return None
