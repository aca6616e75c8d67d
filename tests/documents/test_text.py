"""JSON and YAML from outside: one reader, within bounds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spindle
from spindle.documents.bounds import MAX_DEPTH, MAX_UNFOLDED, Bounds
from spindle.documents.places import TextError
from spindle.documents.text import decode, read, read_any
from spindle.documents.yaml_writing import write

SIZE = 120_000
"""Bytes that nobody would think large."""


def chain(first: str, line: str, count: int) -> str:
    """Lines of which each holds the one before, where it says `{b}`."""
    lines = [f"a0: &a0 {first}"]
    lines += [
        f"a{n}: &a{n} " + line.replace("{b}", f"*a{n - 1}").replace("{n}", str(n)) for n in range(1, count)
    ]
    return "\n".join(lines)


TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY = f"its YAML aliases unfold to more than {MAX_UNFOLDED} parts"
CIRCLE = "a YAML alias refers to a value that contains it"

HOSTILE = {
    "lists that never end": ("[" * SIZE, TOO_DEEP),
    "lists in lists": ("[" * (SIZE // 2) + "]" * (SIZE // 2), TOO_DEEP),
    "lists in lines": ("- " * (SIZE // 2) + "x", TOO_DEEP),
    "objects in objects": ("a: " + "{a: " * (SIZE // 4), TOO_DEEP),
    "objects in lists": ("{[" * (SIZE // 2), "this is not JSON: Expecting property name"),
    "objects in lists in YAML": ("---\n" + "{[" * (SIZE // 2), "a name must be text"),
    "names in names": ("? " * (SIZE // 2), "a name must be text"),
    "JSON objects": ('{"a":' * 40_000 + "1" + "}" * 40_000, TOO_DEEP),
    "JSON that a parser would take": ('{"a":' + "[" * 150 + "]" * 150 + "}", TOO_DEEP),
    "a billion laughs": (chain("[x,x,x,x,x,x,x,x,x,x]", "[" + "{b}," * 10 + "]", 9), TOO_MANY),
    "a billion laughs in objects": (chain("{x: y}", "{p: {b}, q: {b}, r: {b}, s: {b}}", 14), TOO_MANY),
    "aliases one in the other": (chain("[x]", "[{b}]", 5000), TOO_DEEP),
    "merges one in the other": (chain("{k0: 1}", "{<<: {b}, k{n}: 1}", 3500), TOO_MANY),
    "merges doubled": (chain("{k0: 1}", "{<<: [{b}, {b}]}", 60), TOO_MANY),
    "merges of one large object": (
        "a: &a {" + ", ".join(f"k{n}: 1" for n in range(5000)) + "}\n"
        + "\n".join(f"b{n}: {{<<: *a}}" for n in range(4000)),
        TOO_MANY,
    ),
    "merges without aliases": (
        "a: " + "{<<: " * 140 + "{" + ", ".join(f"k{n}: 1" for n in range(10_000)) + "}" + "}" * 140,
        TOO_MANY,
    ),
    "a list that holds itself": ("a: &a [*a]", CIRCLE),
    "an object that holds itself": ("a: &a {b: {c: *a}}", CIRCLE),
    "an object merged into itself": ("a: &a {<<: *a}", CIRCLE),
    "a number without end": ("a: " + "9" * SIZE, "the number 9999999999… has more than 4000 digits"),
    "a tag without end": ("a: !!" + "x" * SIZE + " 1", f"the tag !!{'x' * 78}… is not understood"),
    "a quote that is not closed": ("'" + "a" * SIZE, "neither JSON nor YAML: found unexpected end of stream"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(TextError) as caught:
        read_any(text.encode())
    assert problem in caught.value.problem


def test_what_is_as_deep_as_allowed_is_read() -> None:
    for text in ("[" * MAX_DEPTH + "]" * MAX_DEPTH, "- " * MAX_DEPTH + "x"):
        assert read_any(text.encode())
    with pytest.raises(TextError, match=TOO_DEEP):
        read_any(("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).encode())


def test_aliases_count_and_plain_parts_do_not() -> None:
    bounds = Bounds(unfolded=20)
    plain = "[" + "1, " * 1000 + "]"
    assert len(read_any(f"a: {plain}".encode(), bounds)["a"]) == 1000
    assert read_any(b"a: &a [1, 2]\nb: [*a, *a]", bounds)["b"] == [[1, 2], [1, 2]]
    with pytest.raises(TextError, match="more than 20 parts"):
        read_any(b"a: &a [1, 2]\nb: [*a, *a, *a, *a, *a, *a, *a]", bounds)


@pytest.mark.parametrize("text", ["[1, 2, 3, 4]", "- 1\n- 2\n- 3\n- 4"])
def test_parts_are_counted_while_a_text_is_read(text: str) -> None:
    with pytest.raises(TextError, match="more than 3 lists, objects and values"):
        read_any(text.encode(), Bounds(parts=3))
    assert read_any(text.encode(), Bounds(parts=20)) == [1, 2, 3, 4]


def test_json_that_cannot_be_read_is_not_given_to_a_reader_of_yaml() -> None:
    with pytest.raises(TextError) as caught:
        read_any(b"\n\n{openapi: 3.0.0}")
    assert (caught.value.line, "not JSON" in caught.value.problem) == (3, True)
    assert "`---`" in (caught.value.hint or "")
    assert read_any(b"---\n{openapi: 3.0.0}") == {"openapi": "3.0.0"}


def test_a_text_has_a_size() -> None:
    with pytest.raises(TextError, match="larger than 10 bytes"):
        read_any(b"[1, 2, 3, 4]", Bounds(size=10))
    with pytest.raises(TextError, match="longer than 10 characters"):
        read("[1, 2, 3, 4]", "json", Bounds(size=10))


REFUSED = "!"
"""Before a problem, in the table."""

SAME: dict[str, tuple[str | bytes, Any]] = {
    "an integer of 30 digits": ("a: 999999999999999999999999999999", {"a": 10**30 - 1}),
    "an integer of 30 digits in JSON": ('{"a": 999999999999999999999999999999}', {"a": 10**30 - 1}),
    "NaN": ("a: [.nan, .inf, NaN]", {"a": [".nan", ".inf", "NaN"]}),
    "a number beyond all": ("a: 1e400", "!the number 1e400 is too large"),
    "a number beyond all in JSON": ('{"a": 1e400}', "!the number 1e400 is too large"),
    "numbers of YAML 1.1": (
        "a: [010, 0o10, 0x1F, 1_000, 1:30, 0b1, 08]",
        {"a": ["010", "0o10", "0x1F", "1_000", "1:30", "0b1", "08"]},
    ),
    "numbers": ("a: [+5, -0, .5, 5., 1e3, 0.10]", {"a": [5, 0, 0.5, 5.0, 1000.0, 0.1]}),
    "names that look like something else": (
        "200: a\n1.0: b\ntrue: c\nnull: d\n2020-01-01: e\n~: f\nTrue: g",
        {"200": "a", "1.0": "b", "true": "c", "null": "d", "2020-01-01": "e", "~": "f", "True": "g"},
    ),
    "a name that is a list": ("? [a]\n: 1", "!a name must be text"),
    "a name that is an alias": ("a: &x b\n*x : 1", {"a": "b", "b": 1}),
    "a name that is an alias of an object": ("a: &x {}\n*x : 1", "!a name must be text"),
    "a tag of one's own": ("a: !x 1", "!the tag !x is not understood"),
    "a tag of Python": (
        "a: !!python/object/apply:os.system [ls]",
        "!the tag !!python/object/apply:os.system is not understood",
    ),
    "bytes": ("a: !!binary aGk=", "!the tag !!binary is not understood"),
    "a set": ("a: !!set {b}", "!the tag !!set is not understood"),
    "a date by its tag": ("a: !!timestamp 2020-01-01", "!the tag !!timestamp is not"),
    "tags of JSON's types": (
        "a: [!!str 5, !!int '5', !!float '1', !!bool 'true', !!null '', ! 5]",
        {"a": ["5", 5, 1.0, True, None, "5"]},
    ),
    "a mark of UTF-8": ("\ufeffa: 1", {"a": 1}),
    "a mark of UTF-8 before JSON": ('\ufeff{"a": 1}', {"a": 1}),
    "UTF-16": (b"\xff\xfea\x00:\x00 \x00\xe9\x00", {"a": "é"}),
    "UTF-16 the other way round": (b"\xfe\xff\x00a\x00:\x00 \x00\xe9", {"a": "é"}),
    "JSON in UTF-16": (b'\xff\xfe{\x00"\x00a\x00"\x00:\x00 \x00"\x00\xe9\x00"\x00}\x00', {"a": "é"}),
    "Latin 1": (b"a: \xe9", "!this is not UTF-8 text"),
    "dates": ("a: [2020-01-01, 2020-01-01T10:00:00Z]", {"a": ["2020-01-01", "2020-01-01T10:00:00Z"]}),
    "yes and no": ("a: [yes, no, on, off, y, n, Yes]", {"a": ["yes", "no", "on", "off", "y", "n", "Yes"]}),
    "true and false": ("a: [true, True, TRUE, tRue, false]", {"a": [True, True, True, "tRue", False]}),
    "nothing": ("a: [~, null, Null, NULL, '']\nb:", {"a": [None, None, None, None, ""], "b": None}),
    "signs": ("a: [=, <<, '<<']", {"a": ["=", "<<", "<<"]}),
    "a merge": ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}}),
    "a merge of several": ("a: {<<: [{x: 1}, {x: 2, y: 2}]}", {"a": {"x": 1, "y": 2}}),
    "a merge of no object": ("a: {<<: 5}", "!`<<` takes an object, or a list of them"),
    "a merge in quotes": ('a: {"<<": {b: 1}}', {"a": {"<<": {"b": 1}}}),
    "an anchor twice": ("a: &a 1\nb: &a 2\nc: *a", {"a": 1, "b": 2, "c": 2}),
    "a long text": ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    "no text": ("", None),
    "one word": ("x", "x"),
}
"""What every reader says."""

DIFFERENT: dict[str, tuple[str, Any, Any]] = {
    "a name twice": (
        "a: 1\nb: 2\na: 3",
        {"a": 3, "b": 2},
        "!'a' appears a second time; the first is in line 1",
    ),
    "a name twice in JSON": (
        '{"a": 1, "a": 2}',
        {"a": 2},
        "!'a' appears a second time; the first is in line 1",
    ),
    "NaN in JSON": (
        '{"a": NaN}',
        "!NaN is not a number that JSON knows",
        "!NaN is not a number that JSON knows",
    ),
    "a tab": (
        "a:\n\tb: 1",
        "!this is neither JSON nor YAML: found character that cannot start any token",
        "!this is not YAML: found character that cannot start any token",
    ),
    "two documents": (
        "a: 1\n---\nb: 2",
        "!this is neither JSON nor YAML: a second document begins here",
        "!this is not YAML: a second document begins here",
    ),
    "an alias of nothing": (
        "a: *b",
        "!this is neither JSON nor YAML: found undefined alias",
        "!this is not YAML: found undefined alias",
    ),
    "a control character": (
        "a: \x01",
        "!this is neither JSON nor YAML: control characters are not allowed",
        "!this is not YAML: control characters are not allowed",
    ),
    "a comma too many": (
        '{"a": 1,}',
        "!this is not JSON: Expecting property name",
        "!this is not JSON: Expecting property name",
    ),
}
"""In a document of somebody else, and in a text of one's own."""

SAID = {name: (text, said, said) for name, (text, said) in SAME.items()} | DIFFERENT


@pytest.mark.parametrize(("text", "theirs", "own"), SAID.values(), ids=SAID)
def test_one_text_says_one_thing(text: str | bytes, theirs: Any, own: Any) -> None:
    data = text if isinstance(text, bytes) else text.encode()

    def told(reading: Any) -> Any:
        try:
            return reading()
        except TextError as error:
            return REFUSED + error.problem

    def own_reading() -> Any:
        decoded = decode(data)
        return read(decoded, "json" if decoded.startswith("{") else "yaml").value

    for found, expected in ((told(lambda: read_any(data)), theirs), (told(own_reading), own)):
        if isinstance(expected, str) and expected.startswith(REFUSED):
            assert isinstance(found, str)
            assert found.startswith(REFUSED)
            assert expected[1:] in found
        else:
            assert json.dumps(found) == json.dumps(expected)


def test_an_alias_in_a_text_of_ones_own_is_a_copy() -> None:
    value = read("a: &a {x: []}\nb: *a", "yaml").value
    value["a"]["x"].append(1)
    assert value["b"] == {"x": []}


def test_places_are_known_behind_aliases_and_merges() -> None:
    text = "a: &a\n  x: [1,\n    2]\nb: *a\nc:\n  <<: *a\n  y: 3\nd:\n- *a\n"
    marks = read(text, "yaml").find_marks()
    lines = {path: mark.line for path, mark in marks.items()}
    assert lines["b",] == 4
    assert lines["b", "x", 1] == 3
    assert lines["c", "y"] == 7
    assert ("c", "x") not in lines
    assert lines["d", 0] == 9
    assert lines["d", 0, "x"] == 2


def test_json_that_is_too_deep_is_told_with_its_line() -> None:
    with pytest.raises(TextError) as caught:
        read('{"a":\n' + "[\n" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "json")
    assert (caught.value.problem, caught.value.line) == (TOO_DEEP, MAX_DEPTH + 1)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES)
def test_json_and_yaml_say_the_same(value: Any) -> None:
    value = {"value": value}
    as_json, as_yaml = json.dumps(value), write(value)
    assert read(as_json, "json").value == value
    assert read(as_yaml, "yaml").value == value
    assert read_any(as_json.encode()) == value
    assert read_any(as_yaml.encode()) == value


@given(text=st.text(st.sampled_from("{}[]&*a:<, -?!'\"|>\n\t#%@`0.e~"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for format in ("json", "yaml"):
        try:
            found = read(text, format)
        except TextError:
            continue
        assert all(mark.line >= 1 for mark in found.find_marks().values())


def test_nobody_else_reads_yaml() -> None:
    package = Path(spindle.__file__).parent
    uses = re.compile(r"^\s*(?:import|from) yaml\b", re.MULTILINE)
    found = {path.parent.name for path in package.rglob("*.py") if uses.search(path.read_text("utf-8"))}
    assert found == {"documents"}
