"""References: pointers, chains, circles, and documents that are not there."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from spindle.documents.fetch import parse
from spindle.documents.refs import MAX_HOPS, Document, Documents, references
from spindle.domain.json_schema import pointer_steps, resolve_pointer
from spindle.errors import ConfigurationError

ROOT = {"a/b": {"m~n": [10, {"é x": 20}]}, "": {"": 30}, "c%d": 40, "e#f": 50}


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("#", ROOT),
        ("", ROOT),
        ("#/a~1b/m~0n/0", 10),
        ("/a~1b/m~0n/0", 10),
        ("#/a~1b/m~0n/1/%C3%A9%20x", 20),
        ("#/a%2Fb/m~0n/0", 10),
        ("#/a~1b/m~0n/01", None),
        ("#/a~1b/m~0n/2", None),
        ("#/a~1b/m~0n/-", None),
        ("#/a~1b/m~0n/0/x", None),
        ("#//", 30),
        ("#/c%25d", 40),
        ("#/e#f", 50),
        ("#/e%23f", 50),
        ("#a", None),
    ],
)
def test_a_pointer_is_followed(pointer: str, expected: Any) -> None:
    assert resolve_pointer(ROOT, pointer) == expected


def test_the_steps_of_a_pointer_are_names() -> None:
    assert pointer_steps("other.json#/a~1b/m~0n/~01") == ["a/b", "m~n", "~1"]
    assert pointer_steps("#") == pointer_steps("other.json") == []


def documents(root: dict[str, Any], **others: dict[str, Any]) -> Documents:
    more = {f"file:///{name}.json": Document(f"file:///{name}.json", other) for name, other in others.items()}
    return Documents(Document("file:///main.json", root), more, {"file:///gone.json": "cannot be read: no"})


def test_a_reference_is_followed_from_document_to_document() -> None:
    found = documents(
        {"a": {"$ref": "#/b"}, "b": {"$ref": "other.json#/c"}}, other={"c": {"$ref": "#/d"}, "d": 1}
    )
    located = found.follow({"$ref": "#/a"}, found.main)
    assert (located.node, located.document.address) == (1, "file:///other.json")
    plain = found.follow({"x": 1}, found.main)
    assert (plain.node, plain.document) == ({"x": 1}, found.main)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("#/a", "goes in a circle: #/a → #/b → #/a"),
        ("#/self", "goes in a circle: #/self → #/self"),
        ("other.json#/c", "goes in a circle: #/c → #/round → #/c"),
        ("#/long/0", f"comes after {MAX_HOPS} others in a row"),
        ("#/nothing", "'#/nothing' points at nothing"),
        ("gone.json", "'gone.json' cannot be read: no"),
        ("else.json", "'else.json' was not read"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(reference: str, problem: str) -> None:
    long = [{"$ref": f"#/long/{number + 1}"} for number in range(MAX_HOPS)] + [{"$ref": "#/end"}]
    found = documents(
        {"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}, "self": {"$ref": "#/self"}, "long": long, "end": 1,
         "round": {"$ref": "other.json#/c"}},
        other={"c": {"$ref": "main.json#/round"}},
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"main\.json|other\.json") as caught:
        found.follow({"$ref": reference}, found.main)
    assert problem in caught.value.message


def test_a_chain_as_long_as_allowed_is_followed() -> None:
    long = [{"$ref": f"#/long/{number + 1}"} for number in range(MAX_HOPS - 1)] + [7]
    found = documents({"long": long})
    assert found.follow({"$ref": "#/long/0"}, found.main).node == 7


def test_references_to_other_documents_are_found_at_any_depth() -> None:
    deep: Any = {"$ref": "deep.json#/x"}
    for _ in range(100):
        deep = [deep]
    assert set(references({"a": {"$ref": "#/b"}, "b": [{"$ref": "b.json"}], "c": deep})) == {
        "b.json",
        "deep.json#/x",
    }


def test_a_text_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    for text, problem in (
        ("a: 1\nb: !x 1", "/api.yaml, line 2: the tag !x is not understood"),
        ("<!DOCTYPE html>", "/api.yaml is an HTML page, not a manual"),
        (json.dumps([1]), "/api.yaml is not a manual: it holds no object"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            parse((tmp_path / "api.yaml").as_uri(), text.encode(), "a manual")
        assert caught.value.message.endswith(problem)


def test_a_document_has_the_size_that_its_source_allows() -> None:
    assert parse("file:///a", b"{}", limit=2).root == {}
    with pytest.raises(ConfigurationError, match="/a: larger than 2 bytes"):
        parse("file:///a", b"{} ", limit=2)


def test_a_pointer_leads_through_references_on_its_way() -> None:
    found = documents(
        {
            "a": {"$ref": "other.json#/c"},
            "loop": {"$ref": "#/loop/x"},
            "n": {"child": {"$ref": "#/n"}, "v": 2},
        },
        other={"c": {"d": {"$ref": "#/e"}}, "e": {"f": [0, {"g": 1}]}},
    )
    located = found.target("#/a/d/f/1/g", found.main)
    assert (located.node, located.document.address) == (1, "file:///other.json")
    assert found.target("#/n/child/child/v", found.main).node == 2
    with pytest.raises(ConfigurationError, match="points at nothing"):
        found.target("#/a/d/no", found.main)
    with pytest.raises(ConfigurationError, match=f"comes after {MAX_HOPS} others"):
        found.follow({"$ref": "#/loop/x/y"}, found.main)


def test_following_a_pointer_takes_no_longer_than_its_references_allow() -> None:
    """Each of these leads through the next one twice: together they would never end."""
    names = [f"n{number}" for number in range(60)]
    root: dict[str, Any] = {
        name: {"x": {"$ref": f"#/{other}/x/x"}} for name, other in itertools.pairwise(names)
    }
    found = documents({**root, names[-1]: {"x": {"x": 1}}})
    with pytest.raises(ConfigurationError, match=f"comes after {MAX_HOPS} others"):
        found.target("#/n0/x/x", found.main)
