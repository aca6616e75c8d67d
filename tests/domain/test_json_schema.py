from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.domain.json_schema import (
    canonical,
    from_json,
    parameters,
    property_texts,
    resolve,
    resolve_pointer,
    to_json,
    type_of,
    types_of,
)
from spindle.schemas.models import for_models

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
ODD_TEXT = st.text(
    alphabet=st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF) | st.characters(codec="utf-8")
)
"""As file names come that are not Unicode."""


def shuffled(value: Any, seed: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        seed.shuffle(items)
        return {key: shuffled(item, seed) for key, item in items}
    return [shuffled(item, seed) for item in value] if isinstance(value, list) else value


@given(value=JSON, seed=st.randoms(use_true_random=False))
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: Any, seed: random.Random) -> None:
    assert canonical(shuffled(value, seed)) == canonical(value)


@given(value=JSON)
def test_the_canonical_form_is_json_that_means_the_same(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@given(one=JSON, other=JSON)
def test_different_values_have_different_canonical_forms(one: Any, other: Any) -> None:
    if json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True):
        assert canonical(one) != canonical(other)


@given(value=JSON | st.dictionaries(ODD_TEXT, ODD_TEXT) | st.integers(min_value=2**63, max_value=2**90))
def test_what_is_written_as_json_is_read_as_it_was(value: Any) -> None:
    back = from_json(to_json(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[" * 100_000, "nested more than 200 levels deep"),
        (b'{"a":' * 100_000, "nested more than 200 levels deep"),
        (b"[" * 201 + b"]" * 201, "nested more than 200 levels deep"),
        (b"[NaN]", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"[1e400]", "the number 1e400 is too large"),
        (b"9" * 5000, "Exceeds the limit"),
        (b'"\xff"', "can't decode byte 0xff"),
        (b"{", "Expecting property name"),
    ],
)
def test_json_of_somebody_else_fails_in_one_way(data: bytes, problem: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        from_json(data)
    assert problem in caught.value.msg


def test_what_is_not_json_is_refused_or_replaced() -> None:
    with pytest.raises(TypeError):
        to_json({"x": object})
    assert to_json({"x": {2**70: 1}, "y": complex(1)}, default=str) == (
        b'{"x":{"1180591620717411303424":1},"y":"(1+0j)"}'
    )


ROOT = {
    "$defs": {
        "a/b": {"type": "string"},
        "m~n": {"type": "number"},
        "list": [{"x": 1}, {"y": 2}],
        "loop": {"$ref": "#/$defs/loop"},
        "to": {"$ref": "#/$defs/a~1b", "description": "own words"},
    }
}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#/$defs/a~1b", {"type": "string"}),
        ("#/$defs/a%2Fb", {"type": "string"}),
        ("#/$defs/m~0n", {"type": "number"}),
        ("#/$defs/list/1", {"y": 2}),
        ("#/$defs/list/2", None),
        ("#/$defs/list/²", None),
        ("#/$defs/list/-1", None),
        ("#/$defs/list/" + "9" * 5000, None),
        ("#/$defs/none", None),
        ("#anchor", None),
        ("#", ROOT),
    ],
)
def test_a_pointer_leads_to_its_place_or_nowhere(reference: str, expected: Any) -> None:
    assert resolve_pointer(ROOT, reference) == expected


def test_a_reference_is_followed_and_keeps_what_stands_beside_it() -> None:
    found = resolve(ROOT, {"$ref": "#/$defs/to", "title": "T"})
    assert found == {"type": "string", "description": "own words", "title": "T"}


def test_references_that_lead_nowhere_or_in_circles_are_empty() -> None:
    assert resolve(ROOT, {"$ref": "#/$defs/loop"}) == {}
    assert resolve(ROOT, {"$ref": "#/$defs/none"}) == {}
    assert resolve(ROOT, True) == {}
    assert resolve(ROOT, {"$ref": "https://example.org/schema"}) == {"$ref": "https://example.org/schema"}


@given(
    root=st.dictionaries(
        st.sampled_from(["$defs", "a", "allOf", "anyOf", "properties", "type", "$ref"]), JSON
    )
)
def test_no_schema_however_odd_raises(root: dict[str, Any]) -> None:
    assert isinstance(parameters(root), list)
    assert isinstance(types_of(root, root), frozenset)
    assert all(isinstance(text, str) for text in property_texts(root))


@given(reference=st.text().map("#/".__add__), root=st.dictionaries(st.text(), JSON))
def test_no_reference_however_odd_raises(reference: str, root: dict[str, Any]) -> None:
    assert isinstance(resolve(root, {"$ref": reference}), dict)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"const": 1}, {"integer"}),
        ({"enum": ["a", None, 1.5, True]}, {"string", "null", "number", "boolean"}),
        (
            {"anyOf": [{"type": "integer"}, {"oneOf": [{"type": "null"}, {"const": [1]}]}]},
            {"integer", "null", "array"},
        ),
        ({"allOf": [{"$ref": "#/$defs/a~1b"}]}, {"string"}),
        ({"properties": {}}, {"object"}),
        ({}, set()),
        (True, set()),
    ],
)
def test_the_types_of_a_schema(schema: Any, expected: set[str]) -> None:
    assert types_of(ROOT, schema) == expected


def test_schemas_that_branch_in_circles_are_answered_soon() -> None:
    again = {"$ref": "#/$defs/a"}
    root = {"$defs": {"a": {"anyOf": [again] * 20, "allOf": [again] * 20}}, "allOf": [again]}
    assert types_of(root, again) == frozenset()
    assert parameters(root) == []


def test_parameters_come_in_order_with_their_types() -> None:
    schema = {
        "$defs": {"Color": {"enum": ["red", "blue"], "title": "Color"}},
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "color": {"$ref": "#/$defs/Color"},
        },
        "required": ["path"],
        "allOf": [
            {"properties": {"sizes": {"type": "array", "items": {"type": "integer"}}}, "required": ["sizes"]},
            {"properties": {"any": {}, "maybe": {"type": ["string", "null"]}}},
        ],
    }
    found = {parameter.name: parameter for parameter in parameters(schema)}
    assert list(found) == ["path", "color", "sizes", "any", "maybe"]
    assert [name for name, parameter in found.items() if parameter.required] == ["path", "sizes"]
    labels = [parameter.label for parameter in found.values()]
    assert labels == ["string", "red|blue", "integer[]", "any", "string"]
    assert found["path"].description == "where"
    assert found["color"].description == "Color"


def test_texts_for_search_come_from_every_depth_and_are_bounded() -> None:
    schema = {"properties": {"a": {"description": "first", "properties": {"b": {"description": "second"}}}}}
    assert list(property_texts(schema)) == ["a", "first", "b", "second"]
    wide = {"enum": [[]] * 100_000, "properties": {f"p{number}": {} for number in range(5)}}
    assert len(list(property_texts(wide))) == 5
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"properties": {"x": deep}}
    assert 0 < len(list(property_texts(deep))) <= 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_the_json_type_of_a_value(value: Any, expected: str) -> None:
    assert type_of(value) == expected


def test_the_items_of_an_array_are_found_among_alternatives() -> None:
    schema = {
        "type": "object",
        "properties": {
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "ids": {"oneOf": [{"$ref": "#/$defs/ids"}, {"type": "string"}]},
        },
        "$defs": {"ids": {"type": "array", "items": {"type": "integer"}}},
    }
    tags, ids = parameters(schema)
    assert tags.item_types == {"string"}
    assert tags.label == "string[]"
    assert ids.item_types == {"integer"}


def test_an_ordinary_schema_is_given_to_models_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "$defs": {}}
    assert for_models(schema) is schema
    assert for_models({"type": "object"}) == {"type": "object", "properties": {}}
    assert for_models({}) == {"type": "object", "properties": {}}


def test_combinations_at_the_top_become_properties_that_models_take() -> None:
    by_id = {"properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}}, "required": ["id", "x"]}
    by_name = {
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "required": ["name", "x"],
    }
    schema = {
        "$defs": {"ById": by_id},
        "type": "object",
        "properties": {"x": {"type": "null"}},
        "oneOf": [{"$ref": "#/$defs/ById"}, by_name],
        "allOf": [{"properties": {"y": {}}, "required": ["y"]}],
        "additionalProperties": False,
    }
    assert for_models(schema) == {
        "$defs": {"ById": by_id},
        "type": "object",
        "properties": {
            "x": {"type": "null"},
            "y": {},
            "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "deep": {"type": "boolean"},
            "name": {"type": "string"},
        },
        "required": ["x", "y"],
    }


def test_references_at_the_top_are_followed_and_circles_end() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}, "required": ["a"]}}}
    assert for_models(schema)["properties"] == {"a": {}}
    assert for_models(schema)["required"] == ["a"]
    circle = {
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}], "properties": {"a": {}}}},
        "$ref": "#/$defs/A",
    }
    assert for_models(circle)["properties"] == {"a": {}}


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_stands_in_a_schema_models_get_an_object(value: Any) -> None:
    for keyword in ("anyOf", "allOf", "oneOf", "properties", "required", "$ref"):
        found = for_models({keyword: value})
        assert found["type"] == "object"
        assert isinstance(found["properties"], dict)
