"""Typed stubs, made of JSON Schemas."""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from servers.examples import examples
from spindle.code_mode.naming import ToolFunction, functions_of, identifier, module_name, parameter_names
from spindle.code_mode.stubs import HEAD, declared, described, stub_of
from spindle.domain.tool import Tool, ToolSpec, ToolSummary


def made(schema: dict[str, Any], output: dict[str, Any] | None = None, description: str = "Do it.") -> Tool:
    spec = ToolSpec("do", description, schema, output)
    return Tool("src.do", "src", "python", spec, "")


DO = ToolFunction("src", "do", "src.do")


def declaration(schema: dict[str, Any], output: dict[str, Any] | None = None) -> str:
    return declared(DO, made({"type": "object", **schema}, output))


def test_arguments_and_results_have_the_types_of_their_schemas() -> None:
    schema = {
        "properties": {
            "state": {"enum": ["open", "closed"]},
            "count": {"type": "integer"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "about": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "owner": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "is-admin": {"type": "boolean"}},
                "required": ["name"],
            },
        },
        "required": ["count"],
    }
    assert declaration(schema, {"type": "array", "items": {"type": "number"}}) == (
        "DoOwner = TypedDict('DoOwner', {'name': str, 'is-admin': NotRequired[bool]})\n"
        "async def do(*, count: int, about: str | None = ..., labels: list[str] = ..., owner: DoOwner = ..., "
        "state: Literal['open', 'closed'] = ...) -> list[float]: ...\n"
    )


def test_a_schema_that_refers_to_itself_is_a_type_that_does() -> None:
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
    }
    found = declaration({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert "    children: NotRequired[list[DoTree]]\n" in found
    assert "tree: DoTree = ..." in found


def test_names_that_python_has_no_place_for_are_changed_and_found_again() -> None:
    assert [identifier(name) for name in ("list", "class", "a-b", "1st", "_x", "", "größe")] == [
        "list_", "class_", "a_b", "n1st", "x", "tool", "gr_e",
    ]  # fmt: skip
    assert module_name("json") == "json_tools"
    names = parameter_names(["a-b", "a_b", "from"])
    assert sorted(names.values()) == ["a-b", "a_b", "from"]
    assert names["a_b"] == "a_b"
    assert names["from_"] == "from"


def test_no_two_tools_have_the_same_function() -> None:
    tools = [ToolSummary(f"my-src.{name}", "my-src", "mcp", "") for name in ("a.b", "a_b", "a-b", "c")]
    found = functions_of(tools)
    assert len({function.path for function in found.values()}) == 4
    assert found["my-src.c"].path == "my_src.c"
    assert functions_of(reversed(tools)) == found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    inner = schemas(depth - 1) if depth else st.just(dict[str, Any]())
    return draw(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "array", "string", "integer", "number", "null", "odd"]),
                "properties": st.dictionaries(st.text(max_size=6), inner, max_size=3),
                "required": st.lists(st.text(max_size=6), max_size=2),
                "items": inner,
                "anyOf": st.lists(inner, max_size=2),
                "allOf": st.lists(inner, max_size=2),
                "enum": st.lists(JSON, max_size=3),
                "additionalProperties": st.booleans() | inner,
                "$ref": st.sampled_from(["#", "#/properties/a", "#/nowhere", "other.json"]),
            },
        )
    )


@examples(30)
@given(schemas(), schemas(), st.text(max_size=40))
def test_whatever_a_schema_says_its_stub_is_python_and_declares_only_its_function(
    schema: dict[str, Any], output: dict[str, Any], said: str
) -> None:
    tool = made({**schema, "type": "object"}, output, said)
    for text in (stub_of([(DO, tool)]), HEAD + described(DO, tool).replace("async def src.", "async def ")):
        tree = ast.parse(text)
        functions = [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
        assert functions == ["do"]
        kinds = (ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.ImportFrom)
        assert all(isinstance(node, kinds) for node in tree.body)


def test_a_small_schema_with_endless_references_costs_little_and_is_any() -> None:
    levels = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 50} for number in range(20)
    }  # fmt: skip
    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": levels}
    assert declaration(schema) == "async def do(*, a: Any = ...) -> Any: ...\n"


def test_a_declaration_that_no_model_could_read_is_cut() -> None:
    schema = {
        "type": "object",
        "properties": {f"p{number}": {"type": "string", "description": "It."} for number in range(5_000)},
    }
    shown = described(DO, made(schema))
    assert len(shown) < 30_000
    assert shown.endswith("characters is left out")
    assert len(stub_of([(DO, made(schema))])) > 50_000
