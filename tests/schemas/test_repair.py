"""The most of a schema that can be used: what is dropped, what goes with it, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest
from model_rules import invalid

from spindle.domain.definitions import Definitions
from spindle.schemas.compiled import CompiledSchema
from spindle.schemas.models import MAX_SIZE, for_models
from spindle.schemas.repair import Repairs, Usable, read_schemas, usable_input

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def repaired(schema: dict[str, Any]) -> Usable:
    usable = Repairs().of(schema)
    assert invalid(usable.schema) is None, (usable, invalid(usable.schema))
    return usable


@pytest.mark.parametrize(
    ("given", "kept", "said"),
    [
        ({"type": "strng", "minLength": 1}, {"minLength": 1}, 'type: must be types of JSON, not "strng"'),
        ({"type": ["string", "date"]}, {}, "type"),
        ({"type": ["string", "string"]}, {"type": ["string"]}, "type"),
        ({"pattern": "([", "maxLength": 3}, {"maxLength": 3}, 'pattern: "(["'),
        ({"pattern": "(?P<year>a)"}, {}, "everybody can read"),
        ({"$ref": "#/$defs/gone", "title": "t"}, {"title": "t"}, '$ref: "#/$defs/gone": it leads nowhere'),
        ({"$ref": "https://example.com/a.json"}, {}, "nothing is fetched"),
        ({"$ref": 5}, {}, "$ref"),
        ({"$ref": "#/x", "x": {"type": "strng"}}, {"x": {"type": "strng"}}, "not a schema as it should be"),
        ({"properties": {"a": "text"}}, {"properties": {"a": {}}}, 'properties.a: "text" is not a schema'),
        ({"required": ["a", 5, "a"]}, {"required": ["a"]}, "required"),
        ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}}, "properties.a.required"),
        ({"enum": []}, {}, "enum"),
        ({"allOf": []}, {}, "allOf"),
        ({"anyOf": [{"type": "null"}, "text"]}, {"anyOf": [{"type": "null"}, {}]}, "anyOf.1"),
        ({"minLength": -1, "maximum": "9", "multipleOf": 0}, {}, "minLength"),
        ({"title": 5, "description": ["a"], "examples": {}}, {}, "title"),
        ({"$id": "not an address", "type": "object"}, {"type": "object"}, "$id"),
        ({"$schema": "https://example.com/own", "type": "object"}, {"type": "object"}, "$schema: no draft"),
        (
            {"$defs": {"a": {"type": "int"}}, "$ref": "#/$defs/a"},
            {"$defs": {"a": {}}, "$ref": "#/$defs/a"},
            "$defs.a",
        ),
    ],
)
def test_a_keyword_that_nobody_can_read_is_dropped_and_said(
    given: dict[str, Any], kept: dict[str, Any], said: str
) -> None:
    usable = repaired(given)
    assert usable.schema == kept
    assert said in usable.faults[0]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        # Without the names, no name would be allowed.
        ({"properties": [], "additionalProperties": False, "minProperties": 1}, {"minProperties": 1}),
        (
            {"patternProperties": {"[": {}, "^x": {}}, "additionalProperties": False},
            {"patternProperties": {"^x": {}}},
        ),
        # What is looser inside is stricter outside.
        ({"not": {"type": "strng"}}, {}),
        ({"if": {"pattern": "["}, "then": {"required": ["a"]}, "else": False}, {}),
        (
            {"oneOf": [{"type": "string", "pattern": "["}, {"type": "string", "maxLength": 2}]},
            {"anyOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]},
        ),
        ({"contains": {"type": "strng"}, "maxContains": 1}, {"contains": {}}),
        ({"allOf": [{"$ref": "#/gone"}], "unevaluatedProperties": False}, {"allOf": [{}]}),
        ({"prefixItems": 5, "items": False}, {}),
    ],
)
def test_what_would_be_stricter_without_a_keyword_goes_with_it(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert repaired(given).schema == kept


def test_branches_are_not_told_apart_by_a_definition_that_was_loosened() -> None:
    schema = {
        "oneOf": [{"$ref": "#/$defs/code"}, {"type": "string", "maxLength": 3}],
        "$defs": {"code": {"$ref": "#/$defs/inner"}, "inner": {"type": "string", "pattern": "(?i)[a"}},
    }
    checked = CompiledSchema(repaired(schema).schema)
    assert checked.accepts("abc")
    assert not checked.accepts(5)


@pytest.mark.parametrize("draft", [None, DRAFT_7])
def test_a_tuple_of_draft_7_is_checked_as_draft_7_does(draft: str | None) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "items": [{"type": "string"}, {"type": "integer"}],
                "additionalItems": False,
            },
            "first": {"$ref": "#/properties/pair/items/0"},
        },
        "dependencies": {"pair": ["first"]},
    } | ({"$schema": draft} if draft else {})
    usable = repaired(schema)
    assert usable.faults == ()
    checked = CompiledSchema(usable.schema)
    assert checked.accepts({"pair": ["a", 1], "first": "b"})
    for wrong in ({"pair": [1, "a"]}, {"pair": ["a", 1, 2]}, {"first": 5}, {"pair": ["a", 1]}):
        assert not checked.accepts(wrong), wrong


def test_a_schema_of_draft_4_means_what_it_meant() -> None:
    schema = {
        "$schema": DRAFT_4,
        "id": "https://example.com/a",
        "properties": {
            "n": {"minimum": 1, "exclusiveMinimum": True},
            "m": {"id": "#m", "maximum": 9, "exclusiveMaximum": False},
            "again": {"$ref": "#m", "type": "string"},
        },
    }
    usable = repaired(schema)
    checked = CompiledSchema(usable.schema)
    assert usable.faults == ()
    assert checked.accepts({"n": 1.5, "m": 9, "again": 9})
    assert not checked.accepts({"n": 1})
    assert not checked.accepts({"again": 10})


def test_a_schema_of_an_older_draft_stays_in_its_own_words_where_all_know_them() -> None:
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}}
    schema["definitions"] = {"a": {"type": "string"}}
    assert repaired(schema).schema is schema


def test_keywords_that_are_null_are_left_out_without_a_word() -> None:
    usable = repaired(
        {"title": None, "enum": None, "items": None, "$ref": None, "default": None, "const": None}
    )
    assert usable == Usable({"default": None, "const": None})


@pytest.mark.parametrize(
    ("given", "kept", "faults"),
    [
        ({"type": "string"}, {}, 1),
        ({"type": ["string", "null"], "properties": {"a": {}}}, {"properties": {"a": {}}}, 1),
        ({"type": "string", "enum": ["a"]}, {}, 2),
        ({"type": ["object", "null"]}, {"type": ["object", "null"]}, 0),
        ({"const": {"a": 1}}, {"const": {"a": 1}}, 0),
    ],
)
def test_arguments_are_an_object_whatever_their_schema_says(
    given: dict[str, Any], kept: dict[str, Any], faults: int
) -> None:
    usable = usable_input(repaired(given))
    assert (usable.schema, len(usable.faults)) == (kept, faults)


@pytest.mark.parametrize(
    ("arguments", "result", "read"),
    [
        (None, None, ({}, None, ())),
        ({}, {}, ({}, {}, ())),
        ([], True, ({}, None, ("input schema: [] is not a schema",))),
        (True, "text", ({}, None, ('output schema: "text" is not a schema',))),
    ],
)
def test_what_is_no_schema_is_read_as_none(arguments: Any, result: Any, read: Any) -> None:
    assert read_schemas(arguments, result) == read


def test_definitions_are_repaired_once_for_all_who_share_them() -> None:
    given = Definitions({
        "good": {"type": "string"},
        "bad": {"type": "strng", "properties": {"a": {"$ref": "#/$defs/good"}}},
        "uses": {"oneOf": [{"$ref": "#/$defs/bad"}, {"$ref": "#/$defs/good"}]},
        "lost": {"$ref": "#/$defs/nowhere"},
    })  # fmt: skip
    usable, faults, loose = Repairs().definitions(given)
    assert usable.schemas["good"] is given.schemas["good"]
    assert usable.schemas["uses"] == {"anyOf": [{"$ref": "#/$defs/bad"}, {"$ref": "#/$defs/good"}]}
    assert set(faults) == {"bad", "uses", "lost"}
    assert ("$defs", "uses") in loose
    assert Repairs().definitions(Definitions({"good": {}}))[0].schemas == {"good": {}}


def test_many_faults_are_counted_and_not_all_said() -> None:
    usable = repaired({"properties": {f"p{number}": {"type": "strng"} for number in range(500)}})
    assert len(usable.faults) == 20
    assert usable.faults[-1] == "and 481 more like these"


# --- for models


def test_a_model_is_told_what_lists_hold_and_knows_all_arguments_by_names_that_it_may_use() -> None:
    made = for_models({
        "type": "object",
        "properties": {"$filter": {"type": "array"}, "_filter": True, "a.b": {"type": ["array", "null"]}},
        "required": ["$filter"],
    })  # fmt: skip
    assert made["properties"]["_filter"] == {}
    (renamed,) = made["required"]
    assert renamed.startswith("_filter_")
    assert made["properties"][renamed] == {"type": "array", "items": {}}
    assert made["properties"]["a.b"]["items"] == {}


def test_references_into_branches_that_a_model_is_not_shown_are_not_left_dangling() -> None:
    shared = {"$ref": "#/anyOf/0/properties/a"}
    made = for_models({"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": shared}}]})
    assert made["properties"] == {"a": {"type": "string"}, "b": {}}
    assert invalid(made) is None


def test_a_model_is_shown_the_nearest_definitions_of_a_schema_that_is_too_large() -> None:
    text = {"description": "x" * 1000}
    chain = {
        f"d{n}": {**text, "type": "object", "properties": {"n": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(500)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d500": text}}
    made = for_models(schema)
    assert len(str(made)) < MAX_SIZE * 1.1
    assert "d5" in made["$defs"]
    assert "d499" not in made["$defs"]
    assert invalid(made) is None
    wide = {
        "type": "object",
        "properties": {"a": {"properties": {f"p{n}": {"properties": {"x": text}} for n in range(500)}}},
    }
    assert len(str(for_models(wide))) < MAX_SIZE


@pytest.mark.parametrize(
    "given",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}], "type": "object"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
        {
            "properties": {
                "x": {"$ref": "#/properties/y/not"},
                "y": {"not": {"allOf": [{"$ref": "#/properties/y"}]}},
            }
        },
        {"dependentSchemas": {"x": {"$ref": "#"}}, "properties": {"tree": {"$ref": "#"}}},
    ],
)
def test_a_reference_that_leads_back_to_itself_and_nothing_else_is_dropped(given: dict[str, Any]) -> None:
    usable = Repairs().opened(Repairs().of(given))
    assert invalid(usable.schema) is None
    assert "leads back to itself and nothing else" in usable.faults[0]
    assert CompiledSchema(usable.schema).accepts({})
    assert CompiledSchema(usable.schema).accepts({"x": 1, "y": 2})


def test_a_tree_is_no_circle() -> None:
    tree = {"properties": {"next": {"$ref": "#"}}}
    assert Repairs().opened(Usable(tree)).schema is tree
