"""Conditions over an output."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.flows.expression import MAX_LENGTH, ExpressionError, parse

OUTPUT = {
    "ok": False,
    "status": "failed",
    "retry": None,
    "count": 0,
    "code": 404,
    "ratio": 0.5,
    "items": [{"code": 500}, {"code": 200}],
    "empty": [],
    "headers": {"x-state": "Bad", "class": "a"},
    "message": "access denied",
    "in_quotes": 'a "b" c',
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ok == false", True),
        ("ok == False", True),
        ("ok == 0", False),
        ("count == 0", True),
        ("count == false", False),
        ("ok", False),
        ("not ok", True),
        ("not not ok", False),
        ('status != "ok" and not retry', True),
        ("status != 'ok' and retry", False),
        ("error", False),
        ("message", True),
        ("missing == null", True),
        ("missing.deep[3].er == null", True),
        ("missing != None", False),
        ("items[0].code >= 400", True),
        ("items[-1].code >= 400", False),
        ("items[7].code >= 400", False),
        ("len(items) == 2", True),
        ("len(empty) == 0", True),
        ("len(nothing) == 0", True),
        ("len(headers) > 1", True),
        ('lower(headers["x-state"]) == "bad"', True),
        ("headers.class == 'a'", True),
        ("headers['x-state'] == 'Bad'", True),
        ('"denied" in message', True),
        ('"denied" not in message', False),
        ("code in [403, 404]", True),
        ("code not in [403, 404]", False),
        ("'x-state' in headers", True),
        ("1 in message", False),
        ("code in missing", False),
        ("code < 500 and code >= 400", True),
        ("status < 5", False),
        ("status >= 5", False),
        ("null < 1", False),
        ("true < 2", False),
        ("ratio > 0.25", True),
        ("ratio == 5e-1", True),
        ("count > -1", True),
        ("count == -0", True),
        ("(ok or code == 404) and status == 'failed'", True),
        ("ok or code == 404 and status == 'fine'", False),
        ("not (ok or retry)", True),
        ("not ok == true", True),
        ("[1, [2]] == [1, [2]]", True),
        ("[true] == [1]", False),
        ("value.code == 404", True),
        ("'a \"b\" c' == in_quotes", True),
        ('"a \\"b\\" c" == in_quotes', True),
        ("'it\\'s' == 'it\\'s'", True),
        ("items == items", True),
        ("headers == items", False),
        ("  ok==false  ", True),
        ("status\n!= 'ok'", True),
    ],
)
def test_a_condition_over_an_object(text: str, expected: bool) -> None:
    assert parse(text).holds(OUTPUT) is expected


@pytest.mark.parametrize(
    ("text", "output", "expected"),
    [
        ("value == 'failed'", "failed", True),
        ("'fail' in value", "it failed", True),
        ("len(value) == 0", [], True),
        ("value[0] == 1", [1], True),
        ("value", None, False),
        ("anything", 5, False),
        ("value == 5", {"value": 5}, True),
    ],
)
def test_a_condition_over_the_whole_output(text: str, output: Any, expected: bool) -> None:
    assert parse(text).holds(output) is expected


def test_other_names_stand_behind_the_keys_of_the_output() -> None:
    expression = parse("summary == 'x'")
    assert expression.holds("x", {"summary": "x"})
    assert not expression.holds({"summary": "y"}, {"summary": "x"})


def test_an_expression_knows_the_keys_that_it_speaks_of() -> None:
    assert parse("a == 1 and (b.c or a) and len(d) > 0").names == {"a": 1, "b": 13, "d": 31}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "there is no condition (at column 1)", None),
        ("   ", "there is no condition (at column 1)", None),
        ("ok = false", "'=' is not understood (at column 4)", "write == to compare"),
        ("ok === false", "'===' is not understood (at column 4)", "write =="),
        ("ok && x", "'&&' is not understood (at column 4)", "write `and`"),
        ("ok || x", "'||' is not understood (at column 4)", "write `or`"),
        ("!ok", "'!' is not understood (at column 1)", "write `not`"),
        ("${ok}", "'${' is not understood (at column 1)", "keys of the output are written without ${…}"),
        ("a-b == 1", "'-' is not understood (at column 2)", 'a key with a dash is written value["the-key"]'),
        ("count -1", "there is no arithmetic (at column 7)", 'a key with a dash is written value["the-key"]'),
        ("ok ==", "a key or a value is missing (at column 6)", None),
        ("(ok", "')' is missing for '(' (at column 4)", None),
        ("ok)", "')' is not expected here (at column 3)", "join conditions with `and` or `or`"),
        ("a b", "'b' is not expected here (at column 3)", "join conditions with `and` or `or`"),
        ("a < b < c", "one comparison at a time (at column 7)", "join comparisons with `and` or `or`"),
        ("lne(items) == 0", "there is no function 'lne' (at column 1)", "did you mean 'len'?"),
        ("exit() == 0", "there is no function 'exit' (at column 1)", "there are len and lower"),
        ("items[code]", "brackets hold a number or a quoted name (at column 7)", None),
        ("items[0.5]", "brackets hold a number or a quoted name (at column 7)", None),
        ("items[0", "']' is missing for '[' (at column 8)", None),
        ("a.", "a name is missing (at column 3)", None),
        ("a.'b'", "a name is missing after the dot (at column 3)", None),
        ("a == 'x", "a quote is not closed (at column 6)", None),
        ("a == '\\q'", "the text in quotes is not valid JSON (at column 6)", None),
        ("a not b", "'b' is not expected here (at column 7)", None),
        ("and", "'and' is not expected here (at column 1)", None),
        ("[1, 2", "',' is missing for '[' (at column 6)", None),
        ("(" * 60 + "a" + ")" * 60, "nested too deeply (at column 51)", None),
        ("a" * (MAX_LENGTH + 1), f"longer than {MAX_LENGTH} characters (at column {MAX_LENGTH + 1})", None),
        ("__import__('os')", "there is no function '__import__' (at column 1)", "there are len and lower"),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_be_read_says_where(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (str(caught.value), caught.value.hint) == (message, hint)


_WORDS = st.sampled_from(
    ["a", "b.c", "not", "and", "or", "in", "(", ")", "[", "]", "==", "<", "1", "-2.5", "'x'", '"y"', ",", ".",
     "len(", "lower(", "null", "true", "value", "$", "é", "\\", "\x00", "="]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "c", "value"]), inner),
)


@given(st.one_of(st.text(), st.lists(_WORDS).map(" ".join), st.lists(_WORDS).map("".join)), _JSON)
def test_no_text_and_no_output_raise_anything_else(text: str, output: Any) -> None:
    try:
        expression = parse(text)
    except ExpressionError:
        return
    assert expression.holds(output) in (True, False)
