"""The language of expressions, alone."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.examples import examples
from spindle.flows.expressions import globs
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.functions import FUNCTIONS
from spindle.flows.expressions.parsing import MAX_LENGTH, Expression, began, parse
from spindle.flows.expressions.values import WorkBudget
from spindle.flows.shared import SharedLookup
from spindle.flows.templates import render

ROOT = Path(__file__).parents[2]

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


def test_an_expression_knows_the_places_that_it_reads() -> None:
    reads = parse("a == 1 and (b.c[0] or a ?? d) and any(e, item.x or f) and any(e, g => g.x)").reads
    assert [(read.path, read.has_default, read.is_default) for read in reads] == [
        (("a",), False, False),
        (("b", "c", 0), False, False),
        (("a",), True, False),
        (("d",), False, True),
        (("e",), False, False),
        (("f",), False, False),
        (("e",), False, False),
    ]


STORE: dict[str, Any] = {
    "n": 3,
    "half": 0.5,
    "word": " Tea ",
    "none": None,
    "yes": True,
    "empty": [],
    "rows": [
        {"name": "b", "price": 5, "tags": ["x", "y"]},
        {"name": "a", "price": 7, "tags": []},
        {"name": "c", "price": 5, "tags": ["y"]},
    ],
    "prices": {"a": 1, "odd key": 2},
    "odd-name": 4,
    "2nd": 6,
    "in": 8,
}


def value(text: str, **more: Any) -> Any:
    return parse(text).value(SharedLookup({**STORE, **more}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # arithmetic
        ("n + 1", 4), ("n - 1", 2), ("n -1", 2), ("n*2", 6), ("6 / n", 2), ("n / 2", 1.5), ("7 % n", 1),
        ("-n", -3), ("--n", 3), ("1 - -n", 4), ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 3 - 2", 5),
        ("-7 % 3", 2), ("half * 2", 1.0), ("len(rows)-1", 2), ("1e3", 1000.0),
        ("'a' + 'b'", "ab"), ("[1] + [2]", [1, 2]), ("odd-name + 1", 5), ("`odd-name` - 1", 3),
        ("`2nd` * 2", 12), ("`in`", 8),
        # names, keys, items
        ("rows[0].name", "b"), ("rows[-1].name", "c"), ("rows.0.name", "b"), ("prices['odd key']", 2),
        ("prices[rows[1].name]", 1), ("rows[n - 3].name", "b"), ("[1, 2][1]", 2), ('{"a": {"b": 3}}.a.b', 3),
        ("{a: 1, 'b c': [n]}", {"a": 1, "b c": [3]}), ("${n} + 1", 4), ("[]", []), ("{}", {}),
        # defaults
        ("missing ?? 1", 1), ("missing.deep[3] ?? 'x'", "x"), ("none ?? 2", 2), ("none ?? missing ?? 3", 3),
        ("n ?? 0 + 1", 4), ("missing ?? -1", -1), ("rows[9].name ?? 'nobody'", "nobody"),
        ("first(empty) ?? 'nothing'", "nothing"), ("(missing ?? 2) * 3", 6), ("yes ?? false", True),
        ("missing ?? ${none} ?? {'a': []}", {"a": []}), ("missing ?? 0 > 1", False),
        # logic
        ("n > 2 and not none", True), ("n in [1, 2, 3]", True), ("'e' in word", True), ("n == 3.0", True),
        ("yes == 1", False), ("if(n > 2, 'many', 'few')", "many"), ("if(none, missing, 1)", 1),
        ("n or missing", True), ("none and missing", False), ("'b' not in prices", True),
        # text
        ("trim(word)", "Tea"), ("upper(trim(word))", "TEA"), ("lower(word)", " tea "),
        ("replace('a-b-c', '-', '+')", "a+b+c"), ("split('a, b', ', ')", ["a", "b"]),
        ("split(' two  words ')", ["two", "words"]), ("join(['a', 1, true], '-')", "a-1-true"),
        ("join(empty)", ""), ("starts_with('abc', 'ab')", True), ("ends_with('abc', 'ab')", False),
        ("text(n) + '!'", "3!"), ("text({'a': none})", '{"a":null}'), ("text('x')", "x"), ("len('héé')", 3),
        ("lower(none)", None), ("first('abcdef', 3)", "abc"), ("last('abcdef', 2)", "ef"),
        # numbers
        ("number(' 12 ')", 12), ("number('1.5')", 1.5), ("number('-3')", -3), ("number(n)", 3),
        ("round(2.567, 2)", 2.57),
        ("round(2.4)", 2), ("sum([1, 2.5])", 3.5), ("sum(empty)", 0), ("sum(rows, item.price)", 17),
        ("min([3, 1, 2])", 1), ("max(['a', 'c'])", "c"), ("max(rows, item.price).name", "a"),
        ("min(empty)", None),
        # lists
        ("len(rows)", 3), ("len(prices)", 2), ("len(none)", 0), ("first(rows).name", "b"),
        ("last(rows).name", "c"),
        ("first([1, 2, 3], 2)", [1, 2]), ("last([1, 2, 3], 2)", [2, 3]), ("last([1], 5)", [1]),
        ("last([1], 0)", []),
        ("map(rows, item.price * 2)", [10, 14, 10]), ("map(rows, r => r.name)", ["b", "a", "c"]),
        ("map(none, item)", []), ("filter(rows, item.price == 5)[1].name", "c"),
        ("map(sort(rows, item.price), item.name)", ["b", "c", "a"]), ("sort([3, 1, 2])", [1, 2, 3]),
        ("reverse(sort(['b', 'a']))", ["b", "a"]),
        ("unique([1, 1.0, true, 'a', 'a', [1], [1]])", [1, True, "a", [1]]),
        ("any(rows, item.price > 6)", True), ("all(rows, item.price > 6)", False),
        ("all(empty, false)", True),
        ("map(rows, r => len(filter(r.tags, item == 'y')))", [1, 0, 1]),
        ("map(rows, map(item.tags, item + '!'))", [["x!", "y!"], [], ["y!"]]),
        ("map([1, 2], a => map([3], b => a * b))", [[3], [6]]),
        ("map(rows, {name: item.name})[0]", {"name": "b"}),
        # objects
        ("keys(prices)", ["a", "odd key"]), ("values(prices)", [1, 2]), ("merge(prices, {a: 9}).a", 9),
        ("map(keys(prices), prices[item])", [1, 2]),
        # JSON and dates
        ("parse_json('{\"a\": [1]}').a[0]", 1), ("to_json({'a': [1, null]})", '{"a":[1,null]}'),
        ("parse_date('1970-01-02')", 86400), ("parse_date('2026-11-17T12:00:00+02:00')", 1794909600),
        ("parse_date('2026-11-17T10:00:00Z')", 1794909600),
        ("parse_date('17.11.2026', '%d.%m.%Y')", 1794873600),
        ("parse_date('2026-07-01 09:00', null, 'Europe/Berlin')", 1782889200),
        ("parse_date('2026-01-01 09:00', null, 'Europe/Berlin')", 1767254400),
        ("parse_date('2026-07-01T09:00Z', null, 'Asia/Tokyo')", 1782896400),
        ("parse_date('01.07.2026', '%d.%m.%Y', '+02:00')", 1782856800),
        ("format_date(1782889200, '%H:%M %z %Z', 'America/New_York')", "03:00 -04:00 EDT"),
        ("format_date(1782889200, null, 'Europe/Berlin')", "2026-07-01T09:00:00+02:00"),
        ("format_date(1782889200, null, '-0330')", "2026-07-01T03:30:00-03:30"),
        ("matches('report-2026.pdf', 'report-????.*')", True), ("matches('abc', 'a*b')", False),
        ("matches('a.c', 'a?c')", True), ("matches('', '*')", True), ("matches('', '?')", False),
        ("matches('aab', 'a*ab')", True), ("matches('ab', 'ab*ab')", False), ("matches(none, 'a')", None),
        ("matches('one\ntwo', 'o*o')", True), ("matches('[x]', '[x]')", True),
        ("parse_date('1970-01-01T00:00:00.5')", 0.5), ("parse_date(none)", None),
        ("format_date(0)", "1970-01-01T00:00:00Z"), ("format_date(1794909600, '%A %d %b %Y, %I:%M %p')",
                                                      "Tuesday 17 Nov 2026, 10:00 AM"),
        ("format_date(parse_date('2026-03-01') - 86400, '%Y-%m-%d')", "2026-02-28"),
        ("parse_date('2026-11-17') < parse_date('2026-11-18')", True), ("format_date(0, '100%%')", "100%"),
    ],
)  # fmt: skip
def test_the_value_of_an_expression(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("missing + 1", "${missing} has no value"),
        ("rows[0].nmae", "${rows[0].nmae} has no value"),
        ("map(rows, item.nmae)", "${item.nmae} has no value"),
        ("first(rows).nmae", "has no value"),
        ("prices['nothing']", '${prices.nothing} has no value'),
        ("prices[rows[0].name]", "has no value"),
        ("rows[none]", "brackets hold a number or a name, not null"),
        ("none + 1", "null + a number cannot be calculated"),
        ("'1' + 1", "text + a number cannot be calculated"),
        ("true * 2", "true or false * a number cannot be calculated"),
        ("{} + {}", "an object + an object cannot be calculated"),
        ("n / 0", "a division by zero"),
        ("n % 0", "a division by zero"),
        ("1e308 * 10", "the number is too large"),
        ("9000000000000000000 + 9000000000000000000", "the number is too large"),
        ("word > 3", "text > a number: only numbers and texts have an order"),
        ("none < 3", "null < a number"),
        ("sort([1, 'a'])", "sort: a number and text have no order"),
        ("sort(rows)", "sort: an object have no order"),
        ("sum(['a'])", "sum: text among the items"),
        ("join([none])", "join: null among the items"),
        ("map(n, item)", "map: argument 1 must be a list, not a number"),
        ("lower(n)", "lower: argument 1 must be text, not a number"),
        ("split('a', '')", "must not be empty"),
        ("replace('a', '', 'b')", "must not be empty"),
        ("number('abc')", "number: 'abc' is not a number"),
        ("parse_json('{')", "parse_json: this is not JSON"),
        ("parse_date('tomorrow')", "'tomorrow' is not a date in the form of ISO 8601"),
        ("parse_date('1.2.', '%d.%m.')", "the format of a date has %Y or %y"),
        ("format_date(0, '%H', 'Mars/North')", "there is no time zone 'Mars/North'"),
        ("format_date(0, '%H', '../../etc/passwd')", "there is no time zone"),
        ("format_date(0, '%H', 'Europe')", "there is no time zone 'Europe'"),
        ("format_date(0, '%H', '+99:99')", "there is no time zone"),
        ("matches('a', '" + "a" * 201 + "')", "a pattern has at most 200 characters"),
        ("parse_date('2026', '%Y %Q')", "a format has no %Q"),
        ("format_date(0, '%q')", "a format has no %q"),
        ("format_date(1e300)", "out of the range of dates"),
        ("round(1.5, 99)", "the number of digits is 0 to 15"),
        ("first([1], -1)", "the number of items is 0 or more"),
    ],
)  # fmt: skip
def test_an_expression_without_a_value_says_why(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "map(many, map(many, map(many, 1)))",
        "map(many, many)",
        "map(many, big)",
        "join(map(many, big))",
        "replace(big, 'a', big)",
        "[" + ", ".join(["big"] * 100) + "]",
        "parse_json('[' + replace(big, 'a', '1,') + '1]')",
        "map(map(many, many), item)",
        "{a: big, b: big, c: big, d: big, e: big}",
        "any(many, any(many, any(many, false)))",
        "map(many, sort(many, -item))",
    ],
)
def test_work_and_size_are_bounded(text: str) -> None:
    many, big = list(range(3000)), "a" * 1_000_000
    with pytest.raises(ExpressionError, match=r"it takes too many steps|it makes more than"):
        value(text, many=many, big=big)


def carried(text: str, x: Any) -> None:
    for _ in range(1000):
        x = value(text, x=x)


@pytest.mark.parametrize(
    ("text", "start"),
    [("[x]", 1), ("x + x", ["a"]), ("x + x", "a"), ("{a: x}", 1), ("[x, x]", 1), ("x * x", 3)],
)
def test_what_is_carried_from_round_to_round_does_not_grow_without_end(text: str, start: Any) -> None:
    with pytest.raises(ExpressionError):
        carried(text, start)


class Stranger:
    """Not JSON: its attributes and methods are nobody's business."""

    secret = "s"

    def __eq__(self, other: object) -> bool:
        raise AssertionError("called")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    "text",
    ["x.secret", "x == 1", "x + 1", "x in [1]", "1 in x", "len(x)", "x < 1", "sort([x])", "to_json(x)",
     "unique([x])", "text(x)", "[x] == [1]", "x.__class__", "map(x, item)", "x['secret']",
     "''.join", "(1).real"],
)  # fmt: skip
def test_nothing_is_seen_of_what_is_not_json(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text, x=Stranger())


def test_now_is_the_time_at_which_the_run_began() -> None:
    token = began.set(1794909600.0)
    try:
        assert value("format_date(now(), '%Y')") == "2026"
        assert parse("1 + now()").uses_now
    finally:
        began.reset(token)
    assert not parse("now + 1").uses_now


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "an expression is missing (at column 1)", None),
        ("   ", "an expression is missing (at column 1)", None),
        ("ok = false", "'=' is not understood (at column 4)", "write == to compare"),
        ("ok === false", "'===' is not understood (at column 4)", "write =="),
        ("ok && x", "'&&' is not understood (at column 4)", "write `and`"),
        ("ok || x", "'||' is not understood (at column 4)", "write `or`"),
        ("!ok", "'!' is not understood (at column 1)", "write `not`"),
        ("a ? b : c", "'?' is not understood (at column 3)",
         "write if(condition, one, other), or ?? for a default"),
        ("name | lower", "'|' is not understood (at column 6)", "functions are called: lower(name)"),
        ("${ok", "'}' is missing for '${' (at column 5)", None),
        ("2nd + 1", "a number is not followed by letters (at column 1)",
         "a name that begins with a digit is written in backticks"),
        ("len()", "len is given 0 arguments (at column 1)", "write len(text|list|object|null)"),
        ("split(a, b, c)", "split is given 3 arguments (at column 1)", "write split(text, [text])"),
        ("{1: 2}", "a key is a name or text in quotes (at column 2)", None),
        ("{a 2}", "':' is missing for 'a' (at column 4)", None),
        ("ok ==", "a name or a value is missing (at column 6)", None),
        ("(ok", "')' is missing for '(' (at column 4)", None),
        ("ok)", "')' is not expected here (at column 3)", "join conditions with `and` or `or`"),
        ("a b", "'b' is not expected here (at column 3)",
         "text stands in quotes; conditions are joined with `and` or `or`"),
        ("a < b < c", "one comparison at a time (at column 7)", "join comparisons with `and` or `or`"),
        ("lne(items) == 0", "there is no function 'lne' (at column 1)", "did you mean 'len'?"),
        ("zzz() == 0", "there is no function 'zzz' (at column 1)", f"there are {', '.join(FUNCTIONS)}"),
        ("items[0.5]", "brackets hold a whole number or a name (at column 7)", None),
        ("items[0", "']' is missing for '[' (at column 8)", None),
        ("a.", "a name is missing (at column 3)", None),
        ("a.'b'", "a name is missing after the dot (at column 3)", None),
        ("a == 'x", "a quote is not closed (at column 6)", None),
        ("a == '\\q'", "the text in quotes is not valid JSON (at column 6)", None),
        ("a not b", "'b' is not expected here (at column 7)", None),
        ("and", "'and' is not expected here (at column 1)", None),
        ("[1, 2", "',' is missing for '[' (at column 6)", None),
        ("(" * 60 + "a" + ")" * 60, "nested too deeply (at column 26)", None),
        ("a" * (MAX_LENGTH + 1), f"longer than {MAX_LENGTH} characters (at column {MAX_LENGTH + 1})", None),
        ("__import__('os')", "there is no function '__import__' (at column 1)",
         f"there are {', '.join(FUNCTIONS)}"),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_be_read_says_where(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (str(caught.value), caught.value.hint) == (message, hint)


_WORDS = st.sampled_from(
    ["a", "b.c", "not", "and", "or", "in", "(", ")", "[", "]", "==", "<", "1", "-2.5", "'x'", '"y"', ",", ".",
     "null", "true", "value", "$", "é", "\\", "\x00", "=", "+", "-", "*", "/", "%", "??", "{", "}", ":", "=>",
     "item", "`q q`", "${", "999999999999999999999", "1e300", "[0]", "['a']",
     *(f"{name}(" for name in FUNCTIONS)]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "c", "value"]), inner),
)


def _terms(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts that are expressions, so that more than the parser is looked at."""
    calls: list[st.SearchStrategy[str]] = []
    for function in FUNCTIONS.values():
        for count in range(function.at_least, len(function.takes) + 1):
            arguments = st.lists(inner, min_size=count, max_size=count).map(", ".join)
            calls.append(arguments.map(lambda given, name=function.name: f"{name}({given})"))
    signs = st.sampled_from(
        ["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "not in", "and", "or", "??"]
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, signs, inner),
        st.builds("{}[{}]".format, st.sampled_from(["a", "b", "(c ?? [])"]), inner),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.builds("{{k: {}, 'l': {}}}".format, inner, inner),
        st.builds("map({}, x => [x, {}])".format, inner, inner),
        st.one_of(calls),
    )


_LEAVES = st.sampled_from(
    ["a", "b.c", "value", "item", "item.a", "none ?? 1", "'x'", "' a b '", "'2026-11-17'", "'{\"a\": [1]}'",
     "'%Y'", "1", "-2.5", "0", "1e300", "null", "true", "[]", "{}", "[3, 1, 2]", "['b', 'a']",
     "9000000000000000000"]
)  # fmt: skip
EXPRESSIONS = st.recursive(_LEAVES, _terms, max_leaves=8)


def _outcome(make: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", make()
    except ExpressionError as error:
        return "error", str(error)


@given(
    st.one_of(st.text(), st.lists(_WORDS).map(" ".join), st.lists(_WORDS).map("".join), EXPRESSIONS), _JSON
)
@examples(600)
def test_no_text_and_no_value_raise_anything_else(text: str, output: Any) -> None:
    parsed = _outcome(lambda: parse(text))
    if parsed[0] == "error":
        return
    expression: Expression = parsed[1]
    kind, found = _outcome(lambda: expression.holds(output))
    assert kind == "error" or found in (True, False)
    store = {"a": output, "b": {"c": output}, "value": output}
    first = _outcome(lambda: expression.value(SharedLookup(store)))
    parse.cache_clear()
    second = _outcome(lambda: parse(text).value(SharedLookup(store)))
    if not expression.uses_now:  # outside a run it is the clock's
        assert repr(first) == repr(second)


@given(EXPRESSIONS, _JSON)
@examples(300)
def test_a_value_that_is_made_is_json(text: str, given_value: Any) -> None:
    try:
        found = parse(text).value(SharedLookup({"a": 1, "b": {"c": [1]}, "value": "x"}))
    except ExpressionError:
        return
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(
    st.text()
    | st.lists(st.sampled_from(["${", "}", "$${", "a", "'", '"', "`", "{", " ?? ", "len(a)"])).map("".join)
)
def test_no_template_raises_anything_else(text: str) -> None:
    def rendered() -> Any:
        return render(text, SharedLookup({"a": [1, 2]}))

    assert repr(_outcome(rendered)) == repr(_outcome(rendered))


def test_the_reference_lists_every_function_as_it_is() -> None:
    page = (ROOT / "docs/reference/flows-files.md").read_text("utf-8")
    table = page.split("| function | gives | |\n", 1)[1].split("\n\n", 1)[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.splitlines()[1:]]
    wanted = [
        (f"`{function.signature.replace('|', ' or ')}`", function.gives, function.says)
        for function in FUNCTIONS.values()
    ]
    assert rows == wanted


@given(st.text("ab.[\n", max_size=12), st.text("ab.*?[", max_size=8))
def test_a_pattern_matches_what_a_regular_expression_of_the_same_meaning_does(
    text: str, pattern: str
) -> None:
    meaning = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    expected = re.fullmatch(meaning, text, re.DOTALL) is not None
    assert globs.fits(text, pattern, WorkBudget()) == expected


@pytest.mark.parametrize("pattern", ["*a" * 99 + "*b", "*" + "a?" * 95 + "b*", "*" * 200, "?" * 200])
def test_no_pattern_takes_more_than_its_share_of_steps(pattern: str) -> None:
    budget = WorkBudget()
    with contextlib.suppress(ExpressionError):
        globs.fits("a" * 1_000_000, pattern, budget)
    # At most a hundred comparisons each.
    assert budget.steps > -1_000_000
