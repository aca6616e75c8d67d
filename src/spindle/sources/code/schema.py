"""Makes a tool's definition from a function's signature and docstring, and its arguments from JSON."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from spindle.calls.context import Context
from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, canonical, to_json
from spindle.domain.tool import SHOWN, Hints, ToolSpec
from spindle.flows.node_cache import is_flow_safe
from spindle.sources.code.decorator import MARK, ToolOptions

if TYPE_CHECKING:
    from typing import LiteralString

    from pydantic_core import ErrorDetails, InitErrorDetails

# These are returned as content and need no schema.
_CONTENT = (Result, Block, bytes)
_UNDECLARED = (Any, inspect.Signature.empty)


class UnusableFunctionError(Exception):
    """The function cannot be a tool; the message says why."""


@dataclass(frozen=True, slots=True)
class Returns:
    """The declared result of a function: a type with a schema, plain content, or nothing known."""

    adapter: TypeAdapter[Any] | None = None
    plain: type | None = None


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function with everything needed to offer and call it."""

    function: Callable[..., Any]
    spec: ToolSpec
    converters: dict[str, TypeAdapter[Any]]
    defaults: dict[str, Callable[[], Any]]
    """The defaults of parameters declared with a pydantic `Field`, which Python would pass unchanged."""
    argument_model: tuple[str, type[BaseModel]] | None
    context_parameter: str | None
    returns: Returns

    def bind(self, arguments: JsonObject, context: Context) -> dict[str, Any]:
        """The arguments for the function itself. Raises pydantic's ValidationError."""
        named: dict[str, Any] = {}
        if self.context_parameter:
            named[self.context_parameter] = context
        if self.argument_model is not None:
            parameter, model = self.argument_model
            named[parameter] = model.model_validate_json(to_json(arguments))
            return named
        for name, default in self.defaults.items():
            if name not in arguments:
                named[name] = default()
        problems: list[InitErrorDetails] = []
        for name, value in arguments.items():
            try:
                named[name] = _converted(self.converters.get(name), value)
            except ValidationError as error:
                problems += [_inside(name, problem) for problem in error.errors()]
        if problems:
            raise ValidationError.from_exception_data("arguments", problems)
        return named


def _converted(converter: TypeAdapter[Any] | None, value: Any) -> Any:
    if converter is None:
        return value
    if isinstance(value, (dict, list)):
        # As JSON: a strict model accepts a date or a tuple in JSON, but not the Python objects made of them.
        return converter.validate_json(to_json(cast(Any, value)))
    return converter.validate_python(value)


def _inside(name: str, problem: ErrorDetails) -> InitErrorDetails:
    return {
        "type": PydanticCustomError("argument", cast("LiteralString", problem["msg"])),
        "loc": (name, *problem["loc"]),
        "input": problem["input"],
    }


def function_tool(function: Callable[..., Any]) -> FunctionTool:
    """Makes the tool of a function. Raises UnusableFunctionError."""
    options: ToolOptions = getattr(function, MARK, None) or ToolOptions()
    written = _written(function)
    try:
        hints = typing.get_type_hints(
            written if inspect.isroutine(written) else type(written).__call__, include_extras=True
        )
        signature = inspect.signature(function)
    except Exception as error:  # noqa: BLE001 - annotations are arbitrary code; the file's author must learn why
        raise UnusableFunctionError(f"its type hints cannot be read: {error}") from None
    documentation = _documentation(written)
    context = _context_parameter(signature, hints)
    converters: dict[str, TypeAdapter[Any]] = {}
    defaults: dict[str, Callable[[], Any]] = {}
    model: tuple[str, type[BaseModel]] | None = None
    try:
        if isinstance(options.input_schema, dict):
            schema = _given_schema(options.input_schema, signature)
        elif options.input_schema is not None:
            model = _argument_model(options.input_schema, signature, context)
            schema = model[1].model_json_schema()
        else:
            schema = _schema_from_hints(
                signature, hints, context, documentation.parameters, converters, defaults
            )
        returns, output_schema = _returns(hints.get("return", inspect.Signature.empty))
        spec = ToolSpec(
            remote_name=_name(written, options),
            description=options.description or documentation.text,
            input_schema=schema,
            output_schema=output_schema,
            hints=Hints(options.read_only, options.idempotent, options.destructive, options.open_world),
            tags=options.tags,
            place=place(function),
            pure=options.pure or is_flow_safe(function),
            metadata={SHOWN: {"execution": {"taskSupport": options.task}}} if options.task else {},
        )
        canonical(spec.definition())
    except UnusableFunctionError:
        raise
    except Exception as error:  # noqa: BLE001 - types are arbitrary code, and one must not spoil a whole file
        raise UnusableFunctionError(str(error).split("\n", 1)[0]) from None
    return FunctionTool(function, spec, converters, defaults, model, context, returns)


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, inside any `functools.partial`."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if isinstance(function, type):
        raise UnusableFunctionError("a class cannot be a tool; write a function")
    if not callable(function):
        raise UnusableFunctionError(
            "it cannot be called; a tool of another library is taken through its adapter in spindle.adapters"
        )
    if (
        inspect.isfunction(function)
        and function.__qualname__.rpartition(".")[0].rpartition(".")[2].isidentifier()
    ):
        raise UnusableFunctionError("a method cannot be a tool; write a function that calls it")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UnusableFunctionError("a generator cannot be a tool; return a list")
    return function


def _name(written: Callable[..., Any], options: ToolOptions) -> str:
    name = options.name or getattr(written, "__name__", "")
    if not name or name == "<lambda>":
        raise UnusableFunctionError("it has no name; give one with @tool(name=...)")
    return name


def _context_parameter(signature: inspect.Signature, hints: dict[str, Any]) -> str | None:
    for name, parameter in signature.parameters.items():
        if _is_context(hints.get(name)):
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise UnusableFunctionError(f"its parameter `{name}` cannot be given by name")
            return name
    return None


def _given_schema(schema: JsonObject, signature: inspect.Signature) -> JsonObject:
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for name in schema.get("properties", {}):
            if name not in signature.parameters:
                raise UnusableFunctionError(f"its input_schema has `{name}`, which it does not take")
    return schema


def _schema_from_hints(
    signature: inspect.Signature,
    hints: dict[str, Any],
    context: str | None,
    texts: dict[str, str],
    converters: dict[str, TypeAdapter[Any]],
    field_defaults: dict[str, Callable[[], Any]],
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
        hint: Any = hints.get(name, Any)
        default = parameter.default
        if isinstance(default, FieldInfo):
            hint, default = cast(Any, Annotated)[hint, default], parameter.empty
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        converters[name] = adapter
        if default is not parameter.empty:
            defaults[name] = default
        elif adapter.get_default_value() is not None:
            field_defaults[name] = functools.partial(_field_default, adapter)
        else:
            required.append(name)
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
    """The schemas of all parameters, with one set of shared definitions."""
    mode: Literal["validation"] = "validation"
    inputs: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (name, mode, adapter) for name, adapter in converters.items()
    ]
    schemas, shared = TypeAdapter.json_schemas(inputs)
    properties: JsonObject = {name: dict(schemas[name, mode]) for name in converters}
    return properties, shared.get("$defs", {})


_NO_DEFAULT = object()


def _plain_default(adapter: TypeAdapter[Any], default: Any) -> Any:
    """The default as JSON, or nothing if it cannot be written as JSON."""
    try:
        value = adapter.dump_python(default, mode="json", warnings=False)
        canonical(value)
    except (ValueError, TypeError):
        return _NO_DEFAULT
    return value


def _field_default(adapter: TypeAdapter[Any]) -> Any:
    found = adapter.get_default_value()
    return found.value if found is not None else None


def _returns(annotation: Any) -> tuple[Returns, JsonObject | None]:
    if annotation in (str, bytes, type(None)):
        return Returns(plain=annotation), None
    if annotation in _UNDECLARED or _mentions(annotation, _CONTENT):
        return Returns(), None
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return Returns(adapter), adapter.json_schema(mode="serialization")


def _mentions(annotation: Any, types: tuple[type, ...]) -> bool:
    return annotation in types or any(_mentions(part, types) for part in get_args(annotation))


def _is_context(annotation: Any) -> bool:
    return annotation is Context or Context in get_args(annotation)


def _argument_model(
    given: type[Any], signature: inspect.Signature, context: str | None
) -> tuple[str, type[BaseModel]]:
    if not issubclass(given, BaseModel):
        raise UnusableFunctionError("its input_schema is neither a JSON Schema nor a Pydantic model")
    wanted = [
        name
        for name, parameter in signature.parameters.items()
        if name != context and parameter.default is parameter.empty
    ]
    if len(wanted) != 1:
        raise UnusableFunctionError(f"it must take one argument, an instance of {given.__name__}")
    return wanted[0], given


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


def place(function: Callable[..., Any]) -> str:
    """The file and line of the function."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else function.__module__
