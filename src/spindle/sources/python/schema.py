"""From a function's signature and docstring to a tool's definition, and from JSON to its arguments."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Hints, ToolSpec
from spindle.sources.python.decorator import MARK, Context, ToolOptions

# Returned as content, so they need no schema of their own.
_PLAIN_RETURNS = (str, bytes, Result, Block, None, type(None), Any, inspect.Signature.empty)


class UnusableFunctionError(Exception):
    """The function cannot be a tool; the message says why."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function with everything needed to offer and to call it."""

    function: Callable[..., Any]
    spec: ToolSpec
    converters: dict[str, TypeAdapter[Any]]
    argument_model: type[BaseModel] | None
    context_parameter: str | None
    returns: TypeAdapter[Any] | None

    def bind(self, arguments: JsonObject, context: Context) -> tuple[list[Any], dict[str, Any]]:
        """The function's own arguments. Raises pydantic's ValidationError."""
        named: dict[str, Any] = {}
        if self.context_parameter:
            named[self.context_parameter] = context
        if self.argument_model is not None:
            return [self.argument_model.model_validate(arguments)], named
        for name, value in arguments.items():
            converter = self.converters.get(name)
            named[name] = value if converter is None else converter.validate_python(value)
        return [], named


def function_tool(function: Callable[..., Any]) -> FunctionTool:
    options: ToolOptions = getattr(function, MARK, None) or ToolOptions()
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # noqa: BLE001 - annotations are arbitrary code; the file's author must learn why
        raise UnusableFunctionError(f"its type hints cannot be read: {error}") from None
    signature = inspect.signature(function)
    documentation = _documentation(function)
    context = next((name for name in signature.parameters if _is_context(hints.get(name))), None)
    converters: dict[str, TypeAdapter[Any]] = {}
    model: type[BaseModel] | None = None
    try:
        if isinstance(options.input_schema, dict):
            schema = options.input_schema
        elif options.input_schema is not None:
            model = _model(options.input_schema)
            schema = model.model_json_schema()
        else:
            schema = _schema_from_hints(signature, hints, context, documentation.parameters, converters)
        returns, output_schema = _returns(hints.get("return", inspect.Signature.empty))
    except PydanticUserError as error:
        raise UnusableFunctionError(str(error).split("\n", 1)[0]) from None
    spec = ToolSpec(
        remote_name=options.name or function.__name__,
        description=options.description or documentation.text,
        input_schema=schema,
        output_schema=output_schema,
        hints=Hints(options.read_only, options.idempotent, options.destructive),
        tags=options.tags,
        place=_place(function),
        pure=options.pure,
    )
    return FunctionTool(function, spec, converters, model, context, returns)


def _schema_from_hints(
    signature: inspect.Signature,
    hints: dict[str, Any],
    context: str | None,
    texts: dict[str, str],
    converters: dict[str, TypeAdapter[Any]],
) -> JsonObject:
    required: list[str] = []
    defaults: JsonObject = {}
    open_ended = False
    for name, parameter in signature.parameters.items():
        if name == context:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise UnusableFunctionError(f"its parameter `{name}` cannot be given by name")
        converters[name] = TypeAdapter(hints.get(name, Any))
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            defaults[name] = parameter.default
    properties, definitions = _properties(converters)
    for name, default in defaults.items():
        value = _plain_default(converters[name], default)
        if value is not _NO_DEFAULT:
            properties[name].setdefault("default", value)
    for name, text in texts.items():
        if name in properties:
            properties[name].setdefault("description", text)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if not open_ended:
        schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def _properties(converters: dict[str, TypeAdapter[Any]]) -> tuple[JsonObject, JsonObject]:
    """Schemas of all parameters over one set of shared definitions."""
    mode: Literal["validation"] = "validation"
    inputs: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (name, mode, adapter) for name, adapter in converters.items()
    ]
    schemas, shared = TypeAdapter.json_schemas(inputs)
    properties: JsonObject = {name: dict(schemas[name, mode]) for name in converters}
    return properties, shared.get("$defs", {})


_NO_DEFAULT = object()


def _plain_default(adapter: TypeAdapter[Any], default: Any) -> Any:
    """A default as JSON, or nothing when it is not a value that could be written there."""
    if isinstance(default, FieldInfo):
        return _NO_DEFAULT
    try:
        return adapter.dump_python(default, mode="json", warnings=False)
    except ValueError:
        return _NO_DEFAULT


def _returns(annotation: Any) -> tuple[TypeAdapter[Any] | None, JsonObject | None]:
    if annotation in _PLAIN_RETURNS or set(get_args(annotation)) & {Block, Result}:
        return None, None
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return adapter, adapter.json_schema(mode="serialization")


def _is_context(annotation: Any) -> bool:
    return annotation is Context or Context in get_args(annotation)


def _model(given: type[Any]) -> type[BaseModel]:
    if not issubclass(given, BaseModel):
        raise UnusableFunctionError("its input_schema is neither a JSON Schema nor a Pydantic model")
    return given


@dataclass(frozen=True, slots=True)
class _Documentation:
    text: str
    parameters: dict[str, str]


def _documentation(function: Callable[..., Any]) -> _Documentation:
    raw = inspect.getdoc(function)
    if not raw:
        return _Documentation("", {})
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(raw)
    except ParseError:
        return _Documentation(raw, {})
    text = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return _Documentation(
        text or raw,
        {item.arg_name: " ".join(item.description.split()) for item in parsed.params if item.description},
    )


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else function.__module__
