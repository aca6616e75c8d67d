"""Flags of a tool, typed by its schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.calls.flags import load_object
from spindle.cli.arguments import parse
from spindle.cli.call import call
from spindle.errors import InvalidArgumentsError

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "force": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "options": {"type": "object"},
        "limit": {"type": ["integer", "null"]},
        "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "anything": {},
        "maybe": {"type": ["boolean", "null"]},
        "choice": {"enum": ["a", "b"]},
        "level": {"enum": [1, 2]},
        "some_name": {"type": "string"},
        "camelCase": {"type": "string"},
        "no-verify": {"type": "boolean"},
    },
}


def arguments(*words: str, schema: dict[str, Any] = SCHEMA) -> Any:
    return parse("t.tool", schema, words, call).arguments


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--path=x"], {"path": "x"}),
        (["--path", "x"], {"path": "x"}),
        (["--path="], {"path": ""}),
        (["--path=a=b"], {"path": "a=b"}),
        (["--path", "-"], {"path": "-"}),
        (["--path=--x"], {"path": "--x"}),
        (["--path", "007"], {"path": "007"}),
        (["--path", "null"], {"path": "null"}),
        (["--path", '{"a": 1}'], {"path": '{"a": 1}'}),
        (["--count", "-5"], {"count": -5}),
        (["--count=12345678901234567890123"], {"count": 12345678901234567890123}),
        (["--ratio", "1"], {"ratio": 1}),
        (["--ratio", "-1.5e3"], {"ratio": -1500.0}),
        (["--force"], {"force": True}),
        (["--no-force"], {"force": False}),
        (["--force=false"], {"force": False}),
        (["--force", "false"], {"force": False}),
        (["--force", "--path", "x"], {"force": True, "path": "x"}),
        (["--maybe", "null"], {"maybe": None}),
        (["--no-verify"], {"no-verify": True}),
        (["--tags", "a"], {"tags": ["a"]}),
        (["--tags", "a", "--tags", "b"], {"tags": ["a", "b"]}),
        (["--tags", '["a", "b"]'], {"tags": ["a", "b"]}),
        (["--tags", "[]"], {"tags": []}),
        (["--tags", "[x"], {"tags": ["[x"]}),
        (["--ids", "5"], {"ids": ["5"]}),
        (["--ids", "null"], {"ids": None}),
        (["--numbers", "1", "--numbers=-2"], {"numbers": [1, -2]}),
        (["--grid", "[1, 2]"], {"grid": [[1, 2]]}),
        (["--grid", "[1]", "--grid", "[2]"], {"grid": [[1], [2]]}),
        (["--grid", "[[1], [2]]"], {"grid": [[1], [2]]}),
        (["--options", '{"a": [1]}'], {"options": {"a": [1]}}),
        (["--limit", "null"], {"limit": None}),
        (["--limit", "3"], {"limit": 3}),
        (["--label", "null"], {"label": None}),
        (["--label", "12"], {"label": "12"}),
        (["--label", '"null"'], {"label": "null"}),
        (["--either", "5"], {"either": 5}),
        (["--either", "five"], {"either": "five"}),
        (["--either", '"5"'], {"either": "5"}),
        (["--anything", "[1]"], {"anything": [1]}),
        (["--anything", "word"], {"anything": "word"}),
        (["--choice", "b"], {"choice": "b"}),
        (["--level", "2"], {"level": 2}),
        (["--some-name", "x"], {"some_name": "x"}),
        (["--camel-case=x"], {"camelCase": "x"}),
    ],
)
def test_values_are_typed_by_the_schema(words, expected):
    found = arguments(*words)
    assert found == expected
    assert json.dumps(found) == json.dumps(expected)  # True is not 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "abc"], "--count must be an integer, not 'abc'"),
        (["--count", "1.5"], "--count must be an integer, not '1.5'"),
        (["--count", "9" * 5000], f"--count must be an integer, not '{'9' * 20}…'"),
        (["--ratio", "much"], "--ratio must be a number, not 'much'"),
        (["--ratio", "nan"], "--ratio must be a number, not 'nan'"),
        (["--ratio", "1e999"], "--ratio is too large a number: '1e999'"),
        (["--force=maybe"], "--force must be a boolean, not 'maybe'"),
        (["--limit", "x"], "--limit must be an integer or null, not 'x'"),
        (["--options", "x"], "--options must be a JSON object, not 'x'"),
        (["--options", "[1]"], "--options must be a JSON object, not '[1]'"),
        (["--numbers", "1", "--numbers", "x"], "--numbers must be an integer, not 'x'"),
        (["--path"], "--path needs a value"),
        (["--path", "--force"], "--path needs a value"),
        (["--path", "a", "--path", "b"], "--path was given 2 times and takes one value"),
        (["--pth", "x"], "t.tool has no parameter --pth"),
        (["--no-path"], "t.tool has no parameter --no-path"),
        (["notes.txt"], "'notes.txt' is neither a flag nor a JSON object"),
        (["{}", "{}"], "'{}' is one argument too many"),
    ],
)
def test_a_wrong_value_is_named_with_its_flag(words, message):
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments(*words)
    assert caught.value.message == message


def test_broken_json_for_an_object_says_where():
    with pytest.raises(InvalidArgumentsError, match=r"--options is not valid JSON: .*line 1 column"):
        arguments("--options", "{a: 1}")


def test_unknown_flags_get_a_suggestion():
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments("--pth", "x")
    assert caught.value.hint == "did you mean --path?"


def test_a_value_that_looks_like_a_flag_is_explained():
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments("--path", "--force")
    assert caught.value.hint == "write --path=--force if that is the value"


def test_a_plain_word_is_explained_by_the_first_required_parameter():
    schema = {**SCHEMA, "required": ["path"]}
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments("notes.txt", schema=schema)
    assert caught.value.hint == "perhaps --path=notes.txt"


def test_unknown_flags_pass_where_the_schema_invites_them():
    schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    assert arguments("--anything-else", "5", schema=schema) == {"anything-else": 5}
    assert arguments("--a", "x", schema={**schema, "additionalProperties": True}) == {"a": "x"}


def test_help_and_json_are_ours_unless_the_tool_has_them():
    given = parse("t", SCHEMA, ["--help", "--json"], call)
    assert (given.wants_help, given.options, given.arguments) == (True, ["--json"], {})
    own = {"type": "object", "properties": {"help": {"type": "boolean"}, "json": {"type": "string"}}}
    given = parse("t", own, ["--help", "--json", "x"], call)
    assert (given.wants_help, given.options) == (False, [])
    assert given.arguments == {"help": True, "json": "x"}


def test_two_parameters_that_differ_by_a_dash_are_told_apart():
    schema = {"type": "object", "properties": {"a-b": {"type": "string"}, "a_b": {"type": "string"}}}
    assert arguments("--a-b=1", "--a_b=2", schema=schema) == {"a-b": "1", "a_b": "2"}
    with pytest.raises(InvalidArgumentsError):
        arguments("--aB=1", schema=schema)


def test_all_arguments_can_be_one_document():
    given = parse("t", SCHEMA, ["--count", "1", '{"path": "x"}'], call)
    assert given.document == '{"path": "x"}'
    assert load_object(given.document, "the argument") == {"path": "x"}
    assert parse("t", SCHEMA, ["-"], call).document == "-"
    assert parse("t", SCHEMA, ["--", "{}"], call).document == "{}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x is not valid JSON: Expecting property name"),
        ('{"a": NaN}', "x is not valid JSON: NaN is not a number that JSON knows"),
        ('{"a": 1e999}', "x is not valid JSON: the number 1e999 is too large"),
        ("[1]", "x must be a JSON object, not a JSON array"),
        ("[" * 100_000, "x is not valid JSON: it is nested too deeply"),
    ],
)
def test_a_document_that_is_no_object_is_refused(text, message):
    with pytest.raises(InvalidArgumentsError) as caught:
        load_object(text, "x")
    assert caught.value.message.startswith(message)


# --- whatever fits the schema survives being written as flags

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["null", "true", "1", "-1", "--x", "[]", "{}", '"', "=", "-", "--", ""]
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "integer": st.integers(),
    "number": numbers,
    "boolean": st.booleans(),
    "null": st.none(),
    "object": st.dictionaries(texts, values, max_size=3),
}


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that fits it."""
    form = draw(st.sampled_from(["one", "several", "array", "any", "optional array"]))
    if form == "any":
        return {}, draw(values)
    if form in ("array", "optional array"):
        item = draw(st.sampled_from(list(OF_TYPE)))
        array = {"type": "array", "items": {"type": item}}
        value = draw(st.lists(OF_TYPE[item], max_size=4))
        return (array, value) if form == "array" else ({"anyOf": [array, {"type": "null"}]}, value)
    names = draw(st.lists(st.sampled_from(list(OF_TYPE)), min_size=1, max_size=3, unique=True))
    names = names[:1] if form == "one" else names
    value = draw(OF_TYPE[draw(st.sampled_from(names))])
    return {"type": names if len(names) > 1 else names[0]}, value


def as_flags(name: str, schema: dict[str, Any], value: Any) -> list[str]:
    items = schema.get("items") or schema.get("anyOf", [{}])[0].get("items")
    if items and isinstance(value, list) and len(value) > 1:
        return [f"--{name}={item if items['type'] == 'string' else json.dumps(item)}" for item in value]
    if schema.get("type") == "string":
        return [f"--{name}={value}"]
    if schema.get("type") == "boolean":
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}={json.dumps(value)}"]


names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: not name.lower().startswith("no")  # `--no-x` means the parameter `nox` where there is one
)


@given(
    st.lists(
        st.tuples(names, typed_values()), max_size=4, unique_by=lambda pair: pair[0].replace("_", "").lower()
    )
)
def test_arguments_survive_being_written_as_flags(drawn):
    schema = {"type": "object", "properties": {name: own for name, (own, _) in drawn}}
    wanted = {name: value for name, (_, value) in drawn}
    words = [word for name, (own, value) in drawn for word in as_flags(name, own, value)]
    found = parse("t", schema, words, call).arguments
    assert found == wanted
    assert json.dumps(found, sort_keys=True) == json.dumps(
        wanted, sort_keys=True
    )  # 1 is neither 1.0 nor True


@given(st.dictionaries(texts, values, max_size=4))
def test_arguments_survive_being_written_as_a_document(wanted):
    assert load_object(json.dumps(wanted), "x") == wanted


def test_a_parameter_may_have_any_name():
    schema = {"type": "object", "properties": {"a": {}, "a=b": {"type": "string"}, "": {"type": "string"}}}
    assert arguments("--a=b=c", "--=d", schema=schema) == {"a=b": "c", "": "d"}
