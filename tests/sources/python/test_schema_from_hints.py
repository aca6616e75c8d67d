# No `from __future__ import annotations` here: the types below are read as they are.
import dataclasses
import datetime
import enum
import functools
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import spindle
from spindle.calls.context import Context
from spindle.domain.call import Block, Result
from spindle.sources.code.schema import UnusableFunctionError, function_tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Shape(BaseModel):
    center: Point
    corners: list[Point] = []


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Options(TypedDict, total=False):
    depth: int


def schema_of(annotation: Any) -> Any:
    def function(value): ...

    function.__annotations__["value"] = annotation
    return function_tool(function).spec.input_schema


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, {"type": "integer"}),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (Any, {}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Literal["a", 1], {"enum": ["a", 1]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (Path, {"type": "string", "format": "path"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (
            Annotated[int, Field(ge=1, le=9, description="how many")],
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"},
        ),
        (Annotated[str, "only a note"], {"type": "string"}),
    ],
)
def test_a_type_becomes_its_schema(annotation: Any, expected: Any) -> None:
    schema = schema_of(annotation)
    assert schema["properties"]["value"] == expected
    assert schema["required"] == ["value"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("annotation", "name", "expected"),
    [
        (Color, "Color", {"enum": ["red", "blue"], "title": "Color", "type": "string"}),
        (Size, "Size", {"width": {"title": "Width", "type": "integer"}}),
        (Options, "Options", {"depth": {"title": "Depth", "type": "integer"}}),
        (Point, "Point", {"x": {"title": "X", "type": "integer"}}),
    ],
)
def test_a_named_type_is_a_shared_definition(annotation: Any, name: str, expected: Any) -> None:
    schema = schema_of(annotation)
    assert schema["properties"]["value"] == {"$ref": f"#/$defs/{name}"}
    definition = schema["$defs"][name]
    found = definition.get("properties", definition)
    assert {key: found[key] for key in expected} == expected


def test_models_inside_models_share_their_definitions() -> None:
    def draw(shape: Shape, origin: Point, others: list[Shape]): ...

    schema = function_tool(draw).spec.input_schema
    assert set(schema["$defs"]) == {"Shape", "Point"}
    assert schema["properties"]["others"]["items"] == {"$ref": "#/$defs/Shape"}


def test_parameters_without_types_take_anything() -> None:
    def free(a, b=2, **more): ...

    schema = function_tool(free).spec.input_schema
    assert schema == {"type": "object", "properties": {"a": {}, "b": {"default": 2}}, "required": ["a"]}


def test_defaults_are_shown_where_json_can_write_them() -> None:
    def many(
        a: int = 1,
        b: Color = Color.RED,
        c: Point = Point(x=1),  # noqa: B008
        d: Any = object,
        e: float | None = None,
        f: tuple[int, ...] = (1, 2),
        *,
        g: Path = Path("/x"),
    ): ...

    schema = function_tool(many).spec.input_schema
    defaults = {name: value.get("default", "none") for name, value in schema["properties"].items()}
    assert defaults == {
        "a": 1, "b": "red", "c": {"x": 1, "y": 0}, "d": "none", "e": None, "f": [1, 2], "g": "/x",
    }  # fmt: skip
    assert "required" not in schema


def test_a_field_as_default_is_read_as_pydantic_reads_it() -> None:
    def search(
        query: str = Field(description="what", min_length=2),
        limit: int = Field(default=5, le=10),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
        page: Annotated[int, Field(default=1)] = 1,
    ): ...

    schema = function_tool(search).spec.input_schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"] == {"description": "what", "minLength": 2, "type": "string"}
    assert schema["properties"]["limit"] == {"default": 5, "maximum": 10, "type": "integer"}


def google(path: str, depth: int = 1):
    """Read a file.

    It reads all of it.

    Args:
        path: where the file is,
            from the root
        depth (int): how deep

    Returns:
        The text.
    """


def numpy(path: str, depth: int = 1):
    """Read a file.

    It reads all of it.

    Parameters
    ----------
    path : str
        where the file is,
        from the root
    depth : int, optional
        how deep

    Returns
    -------
    str
        The text.
    """


def rest(path: str, depth: int = 1):
    """Read a file.

    It reads all of it.

    :param path: where the file is,
        from the root
    :param int depth: how deep
    :returns: The text.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_docstrings_of_every_style_are_read(function: Any) -> None:
    spec = function_tool(function).spec
    assert spec.description == "Read a file.\n\nIt reads all of it."
    texts = {name: value["description"] for name, value in spec.input_schema["properties"].items()}
    assert texts == {"path": "where the file is, from the root", "depth": "how deep"}


def test_a_field_s_own_description_wins_over_the_docstring() -> None:
    def read(path: Annotated[str, Field(description="from the field")]):
        """Read.

        Args:
            path: from the docstring
            gone: of a parameter that is not there
        """

    properties = function_tool(read).spec.input_schema["properties"]
    assert properties == {"path": {"type": "string", "description": "from the field"}}


def test_a_docstring_that_fits_no_style_is_taken_whole() -> None:
    def odd():
        """:param"""

    assert function_tool(odd).spec.description == ":param"

    def none(): ...

    assert function_tool(none).spec.description == ""


def test_the_decorator_s_options_win() -> None:
    @spindle.tool(
        name="fetch", description="Get it", tags=["web"], read_only=True, idempotent=True, destructive=False
    )
    def function():
        """Not this."""

    spec = function_tool(function).spec
    assert (spec.remote_name, spec.description, spec.tags) == ("fetch", "Get it", ("web",))
    assert spec.hints.to_dict() == {"read_only": True, "idempotent": True, "destructive": False}
    assert spec.place.startswith(__file__)


def test_a_context_is_no_part_of_the_schema() -> None:
    def one(context: Context, text: str): ...
    def two(text: str, *, ctx: Context | None = None): ...
    def three(text: str, ctx: Annotated[Context, "note"]): ...

    for function in (one, two, three):
        assert list(function_tool(function).spec.input_schema["properties"]) == ["text"]


class Arguments(BaseModel):
    """What to send."""

    text: str = Field(description="the words")
    times: int = 1


def test_an_argument_model_gives_the_schema() -> None:
    @spindle.tool(input_schema=Arguments)
    def send(context: Context, arguments: Arguments): ...

    schema = function_tool(send).spec.input_schema
    assert schema["required"] == ["text"]
    assert schema["properties"]["text"]["description"] == "the words"


def test_a_json_schema_is_taken_as_it_is() -> None:
    given = {"type": "object", "properties": {"n": {"type": "integer", "x-own": True}}}

    @spindle.tool(input_schema=given)
    def count(n): ...

    assert function_tool(count).spec.input_schema == given


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, {"type": "integer"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Annotated[int, Field(ge=0)], {"type": "integer", "minimum": 0}),
        (str, None), (bytes, None), (None, None), (Any, None), (Result, None), (Block, None),
        (list[Block], None), (list[Block] | None, None), (bytes | None, None),
    ],
)  # fmt: skip
def test_a_return_type_gives_the_output_schema(annotation: Any, expected: Any) -> None:
    def function(): ...

    function.__annotations__["return"] = annotation
    assert function_tool(function).spec.output_schema == expected


# --- what cannot be a tool


def positional(a, /): ...
def positional_context(a: Context, /): ...
def variadic(*many): ...
def unknown_type(a: "Nowhere"): ...  # type: ignore  # noqa: F821
def unusable_type(a: type(pytest)): ...  # type: ignore
def unusable_return() -> type(pytest): ...  # type: ignore
def generator():
    yield 1


async def async_generator():
    yield 1


class Callable_:
    def __call__(self, a: int) -> int:
        """Called."""
        return a

    def method(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (positional, "`a` cannot be given by name"),
        (positional_context, "`a` cannot be given by name"),
        (variadic, "`many` cannot be given by name"),
        (unknown_type, "its type hints cannot be read: name 'Nowhere' is not defined"),
        (unusable_type, "Unable to generate pydantic-core schema"),
        (unusable_return, "Unable to generate pydantic-core schema"),
        (generator, "a generator cannot be a tool"),
        (async_generator, "a generator cannot be a tool"),
        (functools.partial(generator), "a generator cannot be a tool"),
        (Callable_, "a class cannot be a tool"),
        (Callable_.method, "a method cannot be a tool"),
        (Callable_(), "it has no name"),
        (lambda a: a, "it has no name"),
        (5, "it cannot be called"),
        (spindle.tool(input_schema=int)(lambda a: a), "neither a JSON Schema nor a Pydantic model"),
        (spindle.tool(input_schema=Arguments, name="x")(lambda: 1), "it must take one argument"),
        (spindle.tool(input_schema=Arguments, name="x")(lambda a, b: 1), "it must take one argument"),
        (
            spindle.tool(input_schema={"properties": {"z": {}}}, name="x")(lambda a: 1),
            "its input_schema has `z`, which it does not take",
        ),
        (spindle.tool(input_schema={"default": object}, name="x")(lambda: 1), "not JSON serializable"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function: Any, reason: str) -> None:
    with pytest.raises(UnusableFunctionError) as caught:
        function_tool(function)
    assert reason in str(caught.value)


def test_what_can_be_called_and_has_a_name_is_a_tool() -> None:
    def scale(factor: int, value: int) -> int:
        """Multiply."""
        return factor * value

    doubled = function_tool(functools.partial(scale, 2)).spec
    assert doubled.remote_name == "scale"
    assert doubled.description == "Multiply."
    assert list(doubled.input_schema["properties"]) == ["value"]
    method = function_tool(Callable_().method).spec
    assert method.remote_name == "method"
    assert list(method.input_schema["properties"]) == ["a"]
    instance = spindle.tool(name="called")(Callable_())
    assert function_tool(instance).spec.input_schema["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("target", [int, 5, Callable_().method, len])
def test_what_cannot_be_marked_is_refused_at_once(target: Any) -> None:
    with pytest.raises(TypeError):
        spindle.tool(target)
