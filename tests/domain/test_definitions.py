"""Schemas that tools share."""

from typing import Any

import pytest

from spindle.domain.definitions import Definitions
from spindle.domain.tool import ToolSpec


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


# a and b refer to each other, and to c; d refers to a; e stands alone.
CIRCLE: dict[str, Any] = {
    "a": {"items": ref("b")},
    "b": {"anyOf": [ref("a"), ref("c")]},
    "c": {"type": "string"},
    "d": {"properties": {"x": ref("a")}},
    "e": {"type": "integer"},
}


def fingerprint(start: str, schemas: dict[str, Any]) -> str:
    return ToolSpec("t", input_schema=ref(start), definitions=Definitions(schemas)).fingerprint


def test_a_schema_is_completed_with_what_it_reaches_and_no_more() -> None:
    shared = Definitions(CIRCLE)
    assert list(shared.completed(ref("d"))["$defs"]) == ["a", "b", "c", "d"]
    assert shared.completed(ref("e")) == {**ref("e"), "$defs": {"e": CIRCLE["e"]}}
    plain = {"type": "object", "description": 'not a reference: "$ref":"#/$defs/a"'}
    assert shared.completed(plain) is plain


@pytest.mark.parametrize("changed", "abcde")
@pytest.mark.parametrize("start", "abcde")
def test_a_fingerprint_changes_just_when_a_definition_it_reaches_does(start: str, changed: str) -> None:
    after = {**CIRCLE, changed: {**CIRCLE[changed], "title": "new"}}
    reached = changed in Definitions(CIRCLE).reached_from([start])
    assert (fingerprint(start, CIRCLE) != fingerprint(start, after)) is reached


def test_a_fingerprint_is_the_same_whatever_else_was_asked_before() -> None:
    alone = [fingerprint(name, CIRCLE) for name in "abcde"]
    shared = Definitions(CIRCLE)
    together = [ToolSpec("t", input_schema=ref(n), definitions=shared).fingerprint for n in "edcba"]
    assert alone == together[::-1]


def test_the_key_of_a_set_is_that_of_its_content() -> None:
    assert Definitions(CIRCLE).key == Definitions(dict(reversed(CIRCLE.items()))).key
    assert Definitions(CIRCLE).key != Definitions({**CIRCLE, "f": {}}).key
