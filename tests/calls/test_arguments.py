"""Arguments against the schemas that sources gave: every problem named, nothing coerced or fetched."""

from __future__ import annotations

import datetime
import enum
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from made_source import OpenDesk, spec

from spindle.calls.validate import MAX_AT_ONCE, LargeArgumentsError, Validation
from spindle.domain.call import Result
from spindle.domain.tool import Tool
from spindle.errors import InvalidArgumentsError, ServerError
from spindle.schemas.compiled import MAX_PROBLEMS, CompiledSchema, schema_problem


def tool(schema: dict[str, Any], output: dict[str, Any] | None = None) -> Tool:
    definition = spec("do", schema, output_schema=output)
    return Tool("made.do", "made", "made", definition, definition.fingerprint)


def problems(schema: dict[str, Any], arguments: dict[Any, Any]) -> dict[str, str]:
    """Path to problem; empty when the arguments fit."""
    try:
        Validation().check_arguments(tool(schema), arguments)
    except InvalidArgumentsError as error:
        return {item["path"]: item["problem"] for item in error.details}
    return {}


def test_every_problem_is_listed_with_its_path() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "who": {"type": "object", "properties": {"name": {"type": "string"}}},
            "list": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
        "required": ["must"],
        "additionalProperties": False,
    }
    found = problems(schema, {"n": "1", "who": {"name": 2}, "list": ["a", "c"], "more": 1})
    assert set(found) == {"n", "who.name", "list[1]", "arguments"}
    assert found["n"] == '"1" is not of type "integer"'
    with pytest.raises(InvalidArgumentsError) as caught:
        Validation().check_arguments(tool(schema), {"n": "1", "more": 1})
    message = str(caught.value)
    assert '"must" is a required property' in message
    assert "more" in message
    assert 'n: "1" is not of type "integer"' in message
    assert (caught.value.tool, caught.value.source) == ("made.do", "made")


@pytest.mark.parametrize("value", ["1", 1.5, True, None, [1]])
def test_nothing_is_coerced(value: Any) -> None:
    assert problems({"properties": {"n": {"type": "integer"}}}, {"n": value})


def test_a_long_list_of_problems_ends() -> None:
    schema = {"additionalProperties": {"type": "integer"}}
    found = problems(schema, {f"a{n}": "x" for n in range(MAX_PROBLEMS * 2)})
    assert len(found) == MAX_PROBLEMS


def test_a_mistyped_name_gets_a_suggestion() -> None:
    schema = {"properties": {"path": {}}, "required": ["path"]}
    with pytest.raises(InvalidArgumentsError) as caught:
        Validation().check_arguments(tool(schema), {"pahts": 1})
    assert caught.value.hint == "did you mean 'path' instead of 'pahts'?"
    with pytest.raises(InvalidArgumentsError) as caught:
        Validation().check_arguments(tool(schema), {})
    assert caught.value.hint_for("shell") == "`spindle call made.do --help` shows its parameters"


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("dialect", "keyword", "fits"),
    [
        # In draft 7 `items` may be a list, one for each place; since 2020-12 that is `prefixItems`.
        (DRAFT_7, "items", False),
        (DRAFT_7, "prefixItems", True),
        (DRAFT_2020, "prefixItems", False),
        (None, "prefixItems", False),
    ],
)
def test_a_schema_is_read_in_its_own_draft(dialect: str | None, keyword: str, fits: bool) -> None:
    schema: dict[str, Any] = {"properties": {"pair": {keyword: [{"type": "string"}, {"type": "integer"}]}}}
    if dialect:
        schema["$schema"] = dialect
    assert (problems(schema, {"pair": ["a", "b"]}) == {}) is fits


def test_a_dialect_that_nobody_knows_is_read_as_the_newest() -> None:
    schema = {"$schema": "https://example.com/own", "properties": {"n": {"type": "integer"}}}
    assert schema_problem(schema) is None
    assert problems(schema, {"n": 1}) == {}
    assert set(problems(schema, {"n": "x"})) == {"n"}


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_definitions_are_followed_also_into_themselves(place: str) -> None:
    schema = {
        "properties": {"tree": {"$ref": f"#/{place}/node"}},
        place: {
            "node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": f"#/{place}/node"}}},
            }
        },
    }
    assert problems(schema, {"tree": {"children": [{"children": []}]}}) == {}
    found = problems(schema, {"tree": {"children": [{"children": 1}]}})
    assert set(found) == {"tree.children[0].children"}


FORMATS = {
    "date-time": ("2026-11-17T03:00:00Z", "2026-11-17 at three"),
    "email": ("ann@example.com", "ann"),
    "uuid": ("550e8400-e29b-41d4-a716-446655440000", "550e8400"),
    "uri": ("https://example.com/a?b#c", "example"),
    "ipv4": ("127.0.0.1", "127.0.0.256"),
    "ipv6": ("::1", "::1::"),
}


@pytest.mark.parametrize("dialect", [None, DRAFT_7, DRAFT_2020])
@pytest.mark.parametrize("form", sorted(FORMATS))
async def test_a_format_that_is_certain_is_noted_refused_or_ignored_as_the_settings_say(
    desk: OpenDesk, dialect: str | None, form: str
) -> None:
    right, wrong = FORMATS[form]
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "format": form}}}
    if dialect:
        schema["$schema"] = dialect
    for setting in ("note", True, False):
        async with desk(spec("do", schema), check_formats=setting) as d:
            await d.call("made.do", a=right)
            assert ((await d.last()).error, d.notes) == (None, [])
            if setting is True:
                with pytest.raises(InvalidArgumentsError, match=f'is not a "{form}"') as caught:
                    await d.call("made.do", a=wrong)
                assert caught.value.details[0]["path"] == "a"
                continue
            for _ in range(2):
                assert (await d.call("made.do", a=wrong)).text == "done"
            record = await d.last()
            assert record.outcome == "ok"
            # Once for a tool, and in the record of each call.
            assert len(d.notes) == (setting == "note"), d.notes
            assert (f'a: "{wrong}" is not a "{form}"' in str(record.error)) == (setting == "note")


@pytest.mark.parametrize("form", ["date", "time", "hostname", "regex", "iri", "uri-reference", "made-up"])
async def test_other_formats_are_left_to_the_source(desk: OpenDesk, form: str) -> None:
    also = {"type": "string", "format": "email"}
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": form}, "b": also}}
    async with desk(spec("do", schema), check_formats=True) as d:
        assert (await d.call("made.do", a="[ not of that form", b="ann@example.com")).text == "done"


async def test_a_format_in_a_branch_does_not_change_which_branch_fits(desk: OpenDesk) -> None:
    either = {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "string", "maxLength": 5}]}
    async with desk(spec("do", {"properties": {"a": either}}), check_formats=True) as d:
        await d.call("made.do", a="short")
        with pytest.raises(InvalidArgumentsError):
            await d.call("made.do", a="neither of them")


@pytest.mark.parametrize("setting", ["note", True, False])
async def test_the_formats_of_results_are_checked_the_same_way(desk: OpenDesk, setting: Any) -> None:
    async def answer(_tool: Tool, _call: Any) -> Result:
        return Result(structured={"at": "soon"}, has_structured=True)

    promised = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    async with desk(spec("do", output_schema=promised), answer=answer, check_formats=setting) as d:
        if setting is True:
            with pytest.raises(ServerError, match='at: "soon" is not a "date-time"'):
                await d.call("made.do")
            return
        assert (await d.call("made.do")).structured == {"at": "soon"}
        assert len(d.notes) == (setting == "note")
        assert ("date-time" in str((await d.last()).error)) == (setting == "note")


class _Counting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.hits.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"type": "object"}')

    def log_message(self, *_args: Any) -> None: ...


@pytest.fixture
def counting_server() -> Iterator[tuple[str, list[str]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Counting)
    server.hits = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.hits  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
async def test_an_address_in_a_schema_is_never_fetched(
    desk: OpenDesk, counting_server: tuple[str, list[str]], keyword: str
) -> None:
    base, hits = counting_server
    inner: dict[str, Any] = {keyword: f"{base}/schema.json", "type": "object"}
    schema = inner if keyword in ("$schema", "$id") else {"properties": {"a": inner}}
    async with desk(spec("do", {"type": "object", **schema})) as d:
        assert (await d.call("made.do", a={})).text == "done"
        faults = (await d.app.show("made.do")).faults
    assert hits == []
    # Where the address is needed to understand the schema, that part of it is not used.
    assert len(faults) == (keyword != "$id"), faults


def test_a_schema_that_is_none_is_an_error_that_says_whose() -> None:
    broken = {"properties": {"a": {"type": "no such type"}}}
    with pytest.raises(ServerError, match=r"the input schema of .* is not valid") as caught:
        Validation().check_arguments(tool(broken), {})
    assert "exclude" in str(caught.value.hint)
    assert schema_problem(broken) is not None
    assert schema_problem({"type": "object"}) is None


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    schema = {"properties": {"a": {"pattern": "^(?=(a+)+$)b"}}}
    assert set(problems(schema, {"a": "a" * 200 + "c"})) == {"a"}


# --- what is not JSON


class Colour(enum.Enum):
    RED = "red"


NOT_JSON: list[tuple[Any, str]] = [
    ({1, 2}, "a"),
    (b"bytes", "a"),
    (datetime.datetime(2026, 1, 1), "a"),
    (object(), "a"),
    (math.nan, "a"),
    ([1, math.inf], "a[1]"),
    ({"b": [{"c": 1j}]}, "a.b[0].c"),
    ({1: "one"}, "a"),
    ("\ud800", "a"),
    ((1, (2, {3})), "a[1][1]"),
]


@pytest.mark.parametrize(("value", "path"), NOT_JSON)
def test_what_json_cannot_say_is_refused_with_its_path(value: Any, path: str) -> None:
    assert list(problems({}, {"a": value, "fine": None})) == [path]
    assert list(problems({}, {"a": value})) == [path]


def test_arguments_must_be_named_by_text() -> None:
    assert problems({}, {1: "x"}) == {"arguments": "1 is not text, as a name must be"}


def test_arguments_nested_without_end_are_refused() -> None:
    value: dict[str, Any] = {}
    inner = value
    for _ in range(1000):
        inner["a"] = {}
        inner = inner["a"]
    (problem,) = problems({}, value).values()
    assert problem == "nested more than 200 levels deep"


@pytest.mark.parametrize(
    "value", [2**70, -(2**70), "ä\u2028 𝄞", (1, 2), None, Colour.RED, [None], 1.5, "null"]
)
def test_all_that_json_can_say_is_let_through(value: Any) -> None:
    assert problems({}, {"a": value}) == {}


async def test_a_number_of_any_size_is_sent_and_recorded(desk: OpenDesk) -> None:
    async with desk(spec()) as d:
        await d.call("made.do", n=2**70)
        assert d.source.calls[0].arguments == {"n": 2**70}
        assert (await d.last()).outcome == "ok"
        assert d.notes == []


# --- what is compiled


def test_schemas_are_compiled_once_and_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.calls.validate.MAX_COMPILED", 2)
    validation = Validation()
    for limit in (1, 2, 3, 1):
        schema = {"properties": {"n": {"maximum": limit}}}
        with pytest.raises(InvalidArgumentsError):
            validation.check_arguments(tool(schema), {"n": 10})
        validation.check_arguments(tool(schema), {"n": limit})
    assert len(validation._compiled) == 2


def test_two_tools_of_one_definition_are_named_each_by_its_own_name() -> None:
    definition = spec("do", {"required": ["a"]})
    validation = Validation()
    for name in ("one.do", "two.do"):
        with pytest.raises(InvalidArgumentsError, match=name):
            validation.check_arguments(Tool(name, name[:3], "made", definition, definition.fingerprint), {})


def test_a_large_value_is_not_quoted_once_for_every_branch_of_a_union() -> None:
    union = {"anyOf": [{"const": number} for number in range(2000)]}
    schema = CompiledSchema({"type": "object", "additionalProperties": union})
    large = {"value": {f"p{number}": "x" for number in range(2000)}}
    assert schema.problems(large, "arguments") == [
        {
            "path": "arguments",
            "problem": "does not fit the schema, and is too large to say where: try with less",
        }
    ]
    assert schema.problems({"value": {"a": 1}}, "arguments")[0]["path"] == "value"


MANY = [{"n": number} for number in range(MAX_AT_ONCE)]


@pytest.fixture
def checked_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each schema that something was checked against, True if that was in the event loop's thread."""
    found: list[bool] = []
    accepts = CompiledSchema.accepts

    def noting(self: CompiledSchema, value: Any) -> bool:
        found.append(threading.current_thread() is threading.main_thread())
        return accepts(self, value)

    monkeypatch.setattr(CompiledSchema, "accepts", noting)
    return found


def test_large_arguments_are_not_looked_through_in_a_turn_of_the_event_loop() -> None:
    validation, anything = Validation(), tool({"type": "object"})
    assert validation.check_arguments(anything, {"list": MANY[:10]}, aside=False) is None
    with pytest.raises(LargeArgumentsError):
        validation.check_arguments(anything, {"list": MANY}, aside=False)
    assert validation.check_arguments(anything, {"list": MANY}) is None


async def test_large_arguments_are_checked_and_masked_as_small_ones_are(
    desk: OpenDesk, checked_in: list[bool]
) -> None:
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array"}, "password": {"type": "string"}, "n": {"type": "integer"}},
    }
    async with desk(spec("do", schema)) as d:
        assert (await d.call("made.do", list=MANY, password="hunter22")).text == "done"
        record = await d.last()
        assert record.arguments == {"list": MANY, "password": "•••"}
        with pytest.raises(InvalidArgumentsError, match="is not of type") as caught:
            await d.call("made.do", list=MANY, password="hunter22", n="hunter22")
        assert "hunter22" not in str(caught.value)
        assert (await d.call("made.do", list=MANY[:10])).text == "done"
    assert checked_in == [False, False, True]


async def test_a_large_result_is_checked_beside_the_event_loop(
    desk: OpenDesk, checked_in: list[bool]
) -> None:
    promised = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object"}}}}
    async with desk(spec("do", {"type": "object"}, output_schema=promised)) as d:
        for given in ([], MANY, [*MANY, 5]):
            d.source.answer = returning(Result(structured={"list": given}, has_structured=True))
            if given[-1:] == [5]:
                with pytest.raises(ServerError, match="does not fit its output schema"):
                    await d.call("made.do")
            else:
                await d.call("made.do")
    # Arguments once, since those of the others are seen at a glance to fit, and the result each time.
    assert checked_in == [True, True, False, False]


def returning(result: Result) -> Any:
    async def answer(_tool: Tool, _call: Any) -> Result:
        return result

    return answer
