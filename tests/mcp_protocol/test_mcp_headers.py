"""Headers that repeat arguments are made as the SDK's servers expect them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from spindle.mcp_protocol import headers

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def repeated(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name, **more}


@pytest.mark.parametrize(
    "given",
    [
        schema(),
        schema(a=TEXT),
        schema(a=repeated("Region"), b=repeated("Zone", type="integer")),
        schema(a=schema(b=schema(c=repeated("Deep", type="boolean")))),
        {**schema(a=repeated("Region")), "default": {"x-mcp-header": 5}, "examples": [{"x-mcp-header": 5}]},
        schema(properties=repeated("Odd")),
        None,
        5,
    ],
)
def test_what_a_schema_asks_for_is_repeated(given: Any) -> None:
    assert inbound.find_invalid_x_mcp_header(given) is None
    assert headers.repeated_arguments(given) == inbound.x_mcp_header_map(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({**schema(), "x-mcp-header": "Root"}, "no property"),
        (schema(a={"type": "array", "items": repeated("Item")}), "no property"),
        (schema(a={"anyOf": [repeated("One")]}), "no property"),
        ({"$defs": {"a": repeated("Def")}}, "no property"),
        ({"not": schema(a=repeated("Not"))}, "no property"),
        (schema(a=repeated(5)), "'a': x-mcp-header must be a string, not int"),
        (schema(a=repeated("")), "not the name of a header"),
        (schema(a=repeated("a b")), "not the name of a header"),
        (schema(a=repeated("a\nb")), "not the name of a header"),
        (schema(a=repeated("a", type="number")), "only texts, integers and booleans"),
        (schema(a=repeated("a", type=["string"])), "only texts, integers and booleans"),
        (schema(a=repeated("Same"), b=repeated("same")), "is that of property"),
    ],
)
def test_a_schema_that_asks_in_a_wrong_way_is_refused_with_the_reason(given: Any, reason: str) -> None:
    assert inbound.find_invalid_x_mcp_header(given) is not None
    with pytest.raises(ValueError, match=reason):
        headers.repeated_arguments(given)


def test_a_schema_may_be_nested_deeply() -> None:
    deep: dict[str, Any] = repeated("Deep")
    for _ in range(20_000):
        deep = {"not": deep}
    with pytest.raises(ValueError, match="no property"):
        headers.repeated_arguments(deep)


@given(st.text())
def test_a_text_is_written_as_the_sdk_writes_it_and_reads_it(text: str) -> None:
    assert headers.encoded(text) == inbound.encode_header_value(text)
    assert inbound.decode_header_value(headers.encoded(text)) == text


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"a": "eu", "b": {"c": 5}},
        {"a": None, "b": 5},
        {"a": True, "b": {"c": 1.5}},
        {"a": " edge", "b": {"c": "é"}},
        {"a": ["x"], "b": {"c": {}}},
        {"a": 10**5000},
    ],
)
def test_arguments_are_repeated_as_the_sdk_repeats_them(arguments: dict[str, Any]) -> None:
    asked = {("a",): "Region", ("b", "c"): "Zone"}
    assert headers.argument_headers(asked, arguments) == inbound.mcp_param_headers(asked, arguments)


@given(
    st.text()
    | st.text(st.characters(max_codepoint=127)).map(lambda text: f"=?base64?{text}?=")
    | st.sampled_from(["=?base64?aGk=?=", "=?base64?aGl=?=", "=?base64?/w==?="])
)
def test_a_header_is_read_as_the_sdk_reads_it(value: str) -> None:
    assert headers.decoded(value) == inbound.decode_header_value(value)


def test_base64_that_is_not_ascii_stands_for_nothing() -> None:
    assert headers.decoded("=?base64?\x80?=") is None


NAMED = schema(
    a=repeated("Region"), b=schema(c=repeated("Zone", type="integer")), d=repeated("On", type="boolean")
)
SAID = st.sampled_from(
    ["eu", "5", "5.0", "5.5", "-5", "true", "=?base64?aGk=?=", "=?base64?a?=", "é", "1e2", "9" * 5000]
)


@given(
    st.sampled_from([NAMED, schema(a=repeated("Same"), b=repeated("same")), schema(), schema(a=repeated(5))]),
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.sampled_from(["eu", "hi", "é", 5, None, ["x"], True, 10**5000]),
            "b": st.sampled_from(
                [{"c": 5}, {"c": 5.0}, {"c": 5.5}, {"c": -5}, {"c": None}, {}, 5, {"c": "eu"}]
            ),
            "d": st.sampled_from([True, False, None, "true"]),
        },
    ),
    st.dictionaries(
        st.sampled_from(["mcp-param-region", "mcp-param-zone", "mcp-param-on", "mcp-param-same"]), SAID
    ),
)
def test_headers_are_compared_with_arguments_as_the_sdk_does(
    schema: dict[str, Any], arguments: dict[str, Any], given: dict[str, str]
) -> None:
    theirs = inbound.validate_mcp_param_headers(schema, arguments, given)
    assert headers.wrong_header(schema, arguments, given) == (theirs.message if theirs is not None else None)
