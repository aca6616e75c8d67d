"""The work that a schema makes is counted before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spindle.domain.definitions import Definitions
from spindle.domain.pattern_cost import backtracks, states_of
from spindle.domain.schema_cost import SchemaCosts, check_schema


def doubled(count: int, keyword: str = "allOf") -> dict[str, Any]:
    """Definitions of which each says the one before twice."""
    schemas: dict[str, Any] = {"d0": {"type": "object"}}
    for index in range(1, count):
        same = {"$ref": f"#/$defs/d{index - 1}"}
        schemas[f"d{index}"] = {keyword: [same, dict(same)]}
    return schemas


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_forty_definitions_each_twice_the_one_before_are_refused(keyword: str) -> None:
    schema = {"$defs": doubled(40, keyword), "$ref": "#/$defs/d39"}

    problem = check_schema(schema)

    assert problem is not None
    assert "about one value" in problem


def test_definitions_that_double_through_properties_cost_nothing() -> None:
    schemas: dict[str, Any] = {"d0": {"type": "string"}}
    for index in range(1, 40):
        same = {"$ref": f"#/$defs/d{index - 1}"}
        schemas[f"d{index}"] = {"properties": {"left": same, "right": dict(same)}}

    cost = SchemaCosts().of({"$defs": schemas, "$ref": "#/$defs/d39"})

    assert (cost.problem, cost.is_plain) == (None, True)


def test_a_tree_that_refers_to_itself_is_plain() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}

    cost = SchemaCosts().of(tree)

    assert (cost.problem, cost.is_plain) == (None, True)


def test_a_union_that_leads_back_to_itself_twice_is_counted_with_each_value() -> None:
    branch = {"properties": {"next": {"$ref": "#"}}}
    cost = SchemaCosts().of({"anyOf": [branch, dict(branch)]})

    def chain(length: int) -> dict[str, Any]:
        return {"next": chain(length - 1)} if length else {}

    assert (cost.problem, cost.is_plain) == (None, False)
    assert cost.looks(chain(3), 10**6) < 100
    assert cost.looks(chain(60), 10**6) > 10**6


def hidden_by(kind: str) -> dict[str, Any]:
    """Thirty definitions, each twice the one before, that refer to each other in a way of their own."""
    names = range(1, 31)
    match kind:
        case "ids":
            made = {f"n{i}": {"$id": f"d{i}", "allOf": [{"$ref": f"d{i - 1}"}] * 2} for i in names}
            return {"$id": "https://a.example/x", "$defs": made | {"n0": {"$id": "d0"}}, "$ref": "d30"}
        case "anchors":
            made = {f"n{i}": {"$anchor": f"a{i}", "not": {"$ref": f"#a{i - 1}"}, "if": {"$ref": f"#a{i - 1}"}}
                    for i in names}  # fmt: skip
            return {"$defs": made | {"n0": {"$anchor": "a0"}}, "$ref": "#a30"}
        case "dynamic":
            made = {f"n{i}": {"$dynamicAnchor": f"a{i}", "anyOf": [{"$dynamicRef": f"#a{i - 1}"}] * 2}
                    for i in names}  # fmt: skip
            return {"$defs": made | {"n0": {"$dynamicAnchor": "a0"}}, "$dynamicRef": "#a30"}
        case "elsewhere":
            made = {f"d{i}": {"oneOf": [{"$ref": f"#/x-any%77here/d{i - 1}"}] * 2} for i in names}
            return {"x-anywhere": made | {"d0": {}}, "$ref": "#/x-anywhere/d30"}
        case "dependencies":
            made = {f"d{i}": {"dependencies": {name: {"$ref": f"#/definitions/d{i - 1}"} for name in "xy"}}
                    for i in names}  # fmt: skip
            return {"definitions": made | {"d0": {}}, "$ref": "#/definitions/d30"}
        case _:
            made = {
                f"d{i}": {"unevaluatedItems": False, "allOf": [{"$ref": f"#/$defs/d{i - 1}"}]} for i in names
            }
            return {"$defs": made | {"d0": {}}, "$ref": "#/$defs/d30"}


@pytest.mark.parametrize("kind", ["ids", "anchors", "dynamic", "elsewhere", "dependencies", "unevaluated"])
def test_no_way_to_refer_hides_what_doubles(kind: str) -> None:
    assert check_schema(hidden_by(kind)) is not None


def test_what_examples_hold_is_no_address() -> None:
    rows = [{"id": f"row-{n}", "$id": f"https://a.example/{n}", "$anchor": "a"} for n in range(100)]
    schema = {
        "type": "object",
        "properties": {"id": {"examples": rows, "default": rows[0]}},
        "examples": [rows],
    }
    assert check_schema(schema) is None
    named = {f"default{n}": {"$id": f"https://a.example/{n}"} for n in range(40)}
    assert "`$id`" in (check_schema({"properties": {"default": {"properties": named}}}) or "")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "neither an object"),
        ({"$ref": "#"}, "nothing but itself"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "nothing but itself"),
        ({"pattern": "(a{1000}){1000}"}, "regular expressions"),
        ({"pattern": "a" * 20_000}, "characters"),
        ({"enum": list(range(300_000))}, "parts"),
        ({"$defs": {f"d{i}": {"$id": f"https://x.example/{i}"} for i in range(40)}}, "`$id`"),
        ({"$defs": doubled(200, "properties")} | {"allOf": [{"$ref": "#/$defs/d0"}] * 30_000}, "one value"),
    ],
)
def test_a_schema_that_is_too_much_says_what_is(schema: Any, said: str) -> None:
    assert said in (check_schema(schema) or "")


def test_shared_definitions_are_looked_at_once_for_all_tools() -> None:
    shared = Definitions(
        {f"t{i}": {"properties": {"x": {"type": "string"}}} for i in range(50)} | doubled(40)
    )
    assert shared.costs.of({"properties": {"a": {"$ref": "#/$defs/t1"}}}).problem is None
    assert "about one value" in (shared.costs.of({"$ref": "#/$defs/d39"}).problem or "")


@pytest.mark.parametrize(
    ("pattern", "least"),
    [("abc", 3), ("a{1000}", 1000), ("(ab{10}){10}", 110), ("(a{300}){300}", 90_000),
     (r"\p{L}{100}", 200_000), ("[a-z]{5,}", 6), ("a{,", 2), ("(((", 0), ("[", 1), ("\\", 1),
     ("x{99999999999999999999}", 10**9)],
)  # fmt: skip
def test_the_states_of_a_pattern(pattern: str, least: int) -> None:
    assert least <= states_of(pattern) <= 4 * least + 4


def test_a_pattern_that_looks_around_or_back_backtracks() -> None:
    assert [backtracks(pattern) for pattern in (r"(?=a)b", r"(a)\1", r"(?<!x)y")] == [True] * 3
    assert not backtracks(r"^(?:a+)+[b-z]\d$")


class Counted(dict[str, Any]):
    """An object that counts how often its parts are gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def items(self) -> Any:
        self.times += 1
        return super().items()


def test_schemas_that_say_nothing_of_an_objects_parts_do_not_go_through_them() -> None:
    parts = Counted({f"p{number}": "x" for number in range(1000)})
    union = {"anyOf": [{"const": number} for number in range(1000)]}
    cost = SchemaCosts().of({"type": "object", "additionalProperties": union})
    assert cost.problem is None
    assert cost.looks({"value": parts}, 1_000_000) < 10_000
    assert parts.times < 10
