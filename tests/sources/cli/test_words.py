"""From arguments to words: every form, and no way for a value to become an option."""

from __future__ import annotations

import getopt
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from spindle.errors import InvalidArgumentsError
from spindle.sources.cli.config import CliConfig, CliParameter, Command
from spindle.sources.cli.words import stdin_of, words


def built(arguments: dict[str, Any], **settings: Any) -> list[str]:
    return words(Command.model_validate(settings), arguments)


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ({"flag": "--path"}, "a b", ["--path=a b"]),
        ({"flag": "--path"}, "", ["--path="]),
        ({"flag": "--path"}, "--force", ["--path=--force"]),
        ({"flag": "--path", "separate": True}, "a", ["--path", "a"]),
        ({"flag": "-n", "type": "integer"}, 5, ["-n", "5"]),
        ({"flag": "-n", "type": "integer"}, -5, ["-n-5"]),
        ({"flag": "-name"}, "a", ["-name", "a"]),
        ({"flag": "--loud", "type": "boolean"}, True, ["--loud"]),
        ({"flag": "--loud", "type": "boolean"}, False, []),
        ({"flag": "--loud", "off": "--no-loud", "type": "boolean"}, False, ["--no-loud"]),
        ({"off": "--no-loud", "type": "boolean"}, False, ["--no-loud"]),
        ({"off": "--no-loud", "type": "boolean"}, True, []),
        ({"flag": "-v", "repeat": True}, ["a", "-b"], ["-v", "a", "-v-b"]),
        ({"flag": "--tag", "type": "array"}, ["a", "b"], ["--tag=a", "--tag=b"]),
        ({"flag": "--tag", "join": ","}, ["a", "-b"], ["--tag=a,-b"]),
        ({"flag": "--tag", "join": ","}, [], []),
        ({"flag": "--data", "type": "object"}, {"a": [1, None]}, ['--data={"a":[1,null]}']),
        ({"type": "number"}, 1.5, ["--", "1.5"]),
        ({"type": "boolean"}, True, ["--", "true"]),
        ({"type": "array"}, ["a", "-b"], ["--", "a", "-b"]),
        ({"flag": "--arg", "words": 2}, ["a", "b c"], ["--arg", "a", "b c"]),
        ({"flag": "-a", "words": 2, "repeat": True}, [["b", "c"], ["d", 1]],
         ["-a", "b", "c", "-a", "d", "1"]),
        ({"flag": "--path"}, None, []),
        ("string", "x", ["--", "x"]),
    ],
)  # fmt: skip
def test_every_form_of_a_parameter_becomes_its_words(parameter: Any, value: Any, expected: list[str]) -> None:
    assert built({"it": value}, parameters={"it": parameter}) == expected


def test_words_places_options_and_values_come_in_the_order_that_programs_expect() -> None:
    settings = {
        "args": ["log", "{count}", "--format={form}", "HEAD~{back}", "{rev}"],
        "parameters": {
            "last": "string",
            "first": {"position": 1},
            "quiet": {"type": "boolean", "flag": "-q"},
            "count": {"type": "integer", "flag": "-n"},
            "form": "string", "back": "integer", "rev": "string",
        },
    }  # fmt: skip
    every = {
        "last": "z", "first": "a", "quiet": True, "count": 3, "form": "-x", "back": 2, "rev": "main",
    }  # fmt: skip
    assert built(every, **settings) == [
        "log", "-n", "3", "--format=-x", "HEAD~2", "main", "-q", "--", "a", "z",
    ]  # fmt: skip
    assert built({}, **settings) == ["log"]


def test_a_default_is_passed_on_unless_the_caller_says_otherwise() -> None:
    settings = {"parameters": {"n": {"type": "integer", "flag": "--n", "default": 10}}}
    assert built({}, **settings) == ["--n=10"]
    assert built({"n": 1}, **settings) == ["--n=1"]


def test_options_go_before_a_separator_that_is_written_in_the_args() -> None:
    settings = {
        "args": ["grep", "--", "{pattern}"],
        "parameters": {"pattern": "string", "path": "string", "all": {"type": "boolean", "flag": "-a"}},
    }
    found = built({"pattern": "-e", "path": "-p", "all": True}, **settings)
    assert found == ["grep", "-a", "--", "-e", "-p"]


def test_another_word_may_end_the_options() -> None:
    settings = {"separator": "--end-of-options", "parameters": {"rev": "string"}}
    assert built({"rev": "--all"}, **settings) == ["--end-of-options", "--all"]


@pytest.mark.parametrize(
    "settings",
    [
        {"separator": False, "parameters": {"it": "string"}},
        {"args": ["{it}"], "parameters": {"it": "string"}},
        {"args": ["{it}:x"], "parameters": {"it": "string"}},
        {"parameters": {"it": {"flag": "--it", "separate": True}}},
        {"parameters": {"it": {"flag": "-name"}}},
    ],
)
def test_where_nothing_protects_a_value_a_leading_dash_is_refused(settings: Any) -> None:
    assert "x" in "".join(built({"it": "x"}, **settings))
    with pytest.raises(InvalidArgumentsError, match="begins with a dash") as caught:
        built({"it": "--output=/etc/passwd"}, **settings)
    assert not caught.value.sent


def test_zero_bytes_and_the_text_between_joined_values_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="zero byte"):
        built({"it": "a\0b"}, parameters={"it": {"flag": "--it"}})
    with pytest.raises(InvalidArgumentsError, match="zero byte"):
        built({"it": ["a", "\0"]}, parameters={"it": {"repeat": True}})
    with pytest.raises(InvalidArgumentsError, match="separates values"):
        built({"it": ["a,b"]}, parameters={"it": {"flag": "--it", "join": ","}})


def test_an_option_whose_glued_value_is_empty_does_not_take_the_next_word() -> None:
    settings = {"args": ["-G{it}"], "parameters": {"it": "string", "path": "string"}}
    assert built({"it": "x", "path": "--evil"}, **settings) == ["-Gx", "--", "--evil"]
    with pytest.raises(InvalidArgumentsError, match="must not be empty after -G"):
        built({"it": "", "path": "--evil"}, **settings)


def test_what_goes_to_stdin_is_text_as_it_is_or_json() -> None:
    text = Command.model_validate({"stdin": "it", "parameters": {"it": "string"}})
    assert stdin_of(text, {"it": "a\0\n"}) == b"a\0\n"
    assert words(text, {"it": "a\0\n"}) == []
    assert stdin_of(text, {}) is None
    data = Command.model_validate({"stdin": "it", "parameters": {"it": "object"}})
    assert stdin_of(data, {"it": {"a": 1}}) == b'{"a":1}'


def test_braces_that_are_not_places_are_text() -> None:
    args = ["{{.Names}}", "{print $1}", '{"a": 1}', "{}"]
    assert built({}, args=args) == args


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"args": ["{pth}"], "parameters": {"path": "string"}}, "did you mean 'path'"),
        ({"args": ["{print}"]}, "put a space into the braces"),
        ({"args": ["-{x}"], "parameters": {"x": "string"}}, "would let a value choose the option"),
        ({"args": ["--{x}"], "parameters": {"x": "string"}}, "would let a value choose the option"),
        ({"args": ["--no{x}=1"], "parameters": {"x": "string"}}, "would let a value choose the option"),
        ({"stdin": "x"}, "'x' is not a parameter"),
        ({"args": ["{x}"], "stdin": "x", "parameters": {"x": "string"}}, "goes to stdin"),
        ({"args": ["{x}"], "parameters": {"x": {"position": 1}}}, "leave out its `position`"),
        ({"parameters": {"x": {"flag": "path"}}}, "begins with a dash"),
        ({"parameters": {"x": {"flag": "--"}}}, "begins with a dash"),
        ({"parameters": {"x": {"flag": "-x", "position": 1}}}, "either `flag` or `position`"),
        ({"parameters": {"x": {"off": "--no-x"}}}, "goes with type = 'boolean'"),
        ({"parameters": {"x": {"repeat": True, "join": ","}}}, "either `repeat`"),
        ({"parameters": {"x": {"words": 2}}}, "`words` goes with a `flag`"),
        ({"parameters": {"x": {"flag": "-x", "words": 2, "join": ","}}}, "`words` goes with a `flag`"),
        ({"parameters": {"x": {"pattrn": "a"}}}, "did you mean `pattern`"),
        ({"parameters": {"x": "text"}}, "type"),
    ],
)
def test_a_description_that_cannot_work_is_refused_with_the_reason(settings: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Command.model_validate(settings)
    assert problem in str(caught.value)


@pytest.mark.parametrize("program", ["", [], 'echo "'])
def test_a_source_without_a_program_is_refused(program: Any) -> None:
    with pytest.raises(ValidationError, match="program"):
        CliConfig.model_validate({"program": program, "commands": {"x": {}}})


def test_a_program_may_be_one_string() -> None:
    config = CliConfig.model_validate({"program": "python -m 'json.tool'", "commands": {"x": {}}})
    assert config.program == ("python", "-m", "json.tool")


def test_several_words_of_a_flag_are_an_array_of_so_many() -> None:
    parameter = CliParameter.model_validate({"flag": "--arg", "words": 2, "description": "Sets a name"})
    pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    assert parameter.as_schema() == {**pair, "description": "Sets a name"}
    repeated = CliParameter.model_validate({"flag": "--arg", "words": 2, "repeat": True})
    assert repeated.as_schema() == {"type": "array", "items": pair}


@pytest.mark.parametrize("value", [["a", "--force"], ["-x", "b"]])
def test_none_of_the_words_of_a_flag_may_begin_with_a_dash(value: list[str]) -> None:
    with pytest.raises(InvalidArgumentsError, match="begins with a dash"):
        built({"it": value}, parameters={"it": {"flag": "--arg", "words": 2}})


def test_a_zero_byte_is_found_however_deep_it_is() -> None:
    with pytest.raises(InvalidArgumentsError, match="zero byte"):
        built({"it": [["a", "b\0"]]}, parameters={"it": {"flag": "--arg", "words": 2, "repeat": True}})


def test_repeat_makes_an_array_of_what_is_described() -> None:
    parameter = CliParameter.model_validate(
        {"type": "integer", "minimum": 1, "description": "Ports.", "repeat": True, "flag": "-p"}
    )
    assert parameter.as_schema() == {
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "description": "Ports.",
    }


HOSTILE = st.one_of(
    st.text(),
    st.text(alphabet="-=ef ", max_size=6),
    st.sampled_from(["--evil", "-e", "--", "-", "--evil=1", "-fe", "--flag", "--flag=x", "-e1", "--no"]),
)
EVERYTHING = Command.model_validate(
    {
        "args": ["{placed}", "--inner={inner}", "-G{glued}"],
        "parameters": {
            "placed": "string", "inner": "string", "glued": "string",
            "long": {"flag": "--long"}, "short": {"flag": "-f"},
            "many": {"flag": "--many", "repeat": True}, "joined": {"flag": "--joined", "join": ":"},
            "positional": "string", "rest": {"type": "array"},
        },
    }
)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("inner", "glued", "long", "short", "positional"), HOSTILE),
            **{name: st.lists(HOSTILE, max_size=3) for name in ("many", "joined", "rest")},
        },
    )
)
@example({"short": "-e", "positional": "--evil", "many": ["--", "-e"]})
def test_no_value_ever_becomes_an_option(arguments: dict[str, Any]) -> None:
    try:
        line = words(EVERYTHING, arguments)
    except InvalidArgumentsError:
        return
    # A program that has an option which no argument may reach: -e, --evil.
    options, standing = getopt.gnu_getopt(line, "ef:G:", ["evil", "inner=", "long=", "joined=", "many="])
    assert not {"-e", "--evil"} & {name for name, _ in options}
    expected = [
        *[("--inner", arguments[name]) for name in ("inner",) if name in arguments],
        *[("-G", arguments[name]) for name in ("glued",) if name in arguments],
        *[("--long", arguments[name]) for name in ("long",) if name in arguments],
        *[("-f", arguments[name]) for name in ("short",) if name in arguments],
        *[("--many", value) for value in arguments.get("many", [])],
        *[("--joined", ":".join(arguments["joined"])) for name in ("joined",) if arguments.get(name)],
    ]
    assert options == expected
    first = [arguments["positional"]] if "positional" in arguments else []
    assert standing == [*first, *arguments.get("rest", [])]


@given(HOSTILE)
def test_a_value_that_has_a_place_of_its_own_is_itself_or_refused(value: str) -> None:
    try:
        line = words(EVERYTHING, {"placed": value})
    except InvalidArgumentsError:
        assert value.startswith("-") or "\0" in value
    else:
        assert line == [value]
        assert not value.startswith("-")
