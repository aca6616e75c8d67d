"""Words of `spindle call`: `name=value`, `name:=json`, options after the tool, and choices as they are."""

from __future__ import annotations

import json

import pytest

from servers.shell import ECHO
from spindle.cli.arguments import parse
from spindle.cli.call import call
from spindle.errors import InvalidArgumentsError

MODES = {
    "name": "mode",
    "description": "Set the mode.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": ["Fast", "slow & low"]},
            "level": {"anyOf": [{"enum": [1, 2.5, True]}, {"type": "null"}]},
            "days": {"type": "array", "items": {"enum": ["mo", "tu"]}},
            "zone": {"oneOf": [{"const": "UTC", "title": "World"}, {"const": "CET"}]},
            "city": {"type": "string", "enum": [f"city-{number}" for number in range(30)]},
            "text": {"type": "string", "default": "x" * 40},
            "timeout": {"type": "integer"},
        },
        "required": ["mode"],
    },
}


@pytest.fixture
def server(workspace):
    workspace.add_server()
    return workspace


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=hi"], {"text": "hi"}),
        (["text=a=b", "count=3"], {"text": "a=b", "count": 3}),
        (['text:="hi"', "count:=3"], {"text": "hi", "count": 3}),
        (["text=http://x/:=y"], {"text": "http://x/:=y"}),
        (["text=", "loud=true"], {"text": "", "loud": True}),
        (["tags=a", "tags=b", "--text", "x"], {"text": "x", "tags": ["a", "b"]}),
        (['tags:=["a", "b"]', "--text=x"], {"text": "x", "tags": ["a", "b"]}),
        (["--", "text=--help"], {"text": "--help"}),
        (["text=123"], {"text": "123"}),
    ],
)
def test_arguments_can_be_pairs(words, arguments):
    assert parse("mini.echo", ECHO["inputSchema"], words, call).arguments == arguments


def test_pairs_reach_the_server_beside_json(server, spindle):
    done = spindle("call", "echo", '{"text": "from JSON", "count": 1}', "count=2", "--loud")
    assert (done.code, json.loads(done.out)) == (0, {"text": "from JSON", "count": 2, "loud": True})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["txt=hi"], "mini.echo has no parameter --txt"),
        (["text=hi", "count=many"], "--count must be an integer, not 'many'"),
        (["text:=hi"], "text is not valid JSON: "),
        (["text:=1", "text=2"], "text was given twice"),
        (["text:=1", "text:=2"], "text was given twice"),
        (["=x"], "'=x' is neither a flag nor a JSON object"),
        (["hello"], "'hello' is neither a flag nor a JSON object"),
    ],
)
def test_a_wrong_pair_is_a_mistake(words, message):
    with pytest.raises(InvalidArgumentsError) as caught:
        parse("mini.echo", ECHO["inputSchema"], words, call)
    assert caught.value.message.startswith(message)


def test_options_may_follow_the_tool(server, spindle):
    done = spindle("call", "fail", "--timeout", "5", "--no-cache", "-y", "--json")
    assert (done.code, done.json["is_error"]) == (1, True)
    late = spindle("call", "fail", "--timeout")
    assert (late.code, late.err.splitlines()[0]) == (2, "spindle: --timeout needs a value")
    wrong = spindle("call", "fail", "--timeout=-1")
    assert wrong.code == 2


@pytest.mark.parametrize("word", ["-w", "--from"])
def test_the_workspace_is_named_before_the_tool(server, spindle, word):
    done = spindle("call", "fail", word, "x")
    assert (done.code, done.err.splitlines()[0]) == (2, f"spindle: {word} belongs before the tool")


def test_a_parameter_of_the_tool_wins_over_an_option(workspace, spindle):
    workspace.add_server(MODES)
    assert spindle("call", "mode", "mode=Fast", "--timeout=5").json == {"mode": "Fast", "timeout": 5}


def test_choices_are_shown_as_they_are(workspace, spindle):
    workspace.add_server(MODES)
    usage, *_, mode, level, days, zone, city, text, _ = spindle("call", "mode", "--help").out.splitlines()
    assert usage == "spindle call mini.mode --mode=Fast|slow & low [--…]"
    assert mode.startswith("--mode     Fast|slow & low")
    assert "1|2.5|true" in level
    assert "(mo|tu)[]" in days
    assert "UTC|CET" in zone
    assert city.split()[1:3] == ["string", "optional"]
    assert city.endswith("city-28, city-29")
    assert text.endswith('Default: "' + "x" * 40 + '"')


def test_tools_of_one_source_are_listed_by_its_name(server, spindle):
    server.write("tools/own.py", "from spindle import tool\n\n@tool\ndef own() -> str:\n    return ''\n")
    spindle("sync")
    assert [line.split("\t")[0] for line in spindle("tools", "tools").out.splitlines()] == ["own"]
    assert len(spindle("tools", "mini").out.splitlines()) == 6
    unknown = spindle("tools", "mani")
    assert (unknown.code, unknown.err.splitlines()[1]) == (3, "  hint: did you mean 'mini'?")
    both = spindle("tools", "mini", "--source", "tools")
    assert (both.code, both.err.splitlines()[0]) == (2, "spindle: mini and --source tools are two sources")


def test_two_documents_at_once_are_a_mistake(server, spindle):
    done = spindle("export", "--openapi", "--utcp")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("spindle: --openapi and --utcp do not go together\n")
    drawn = spindle("flow", "draw", "mini.echo", "--svg", "--mermaid")
    assert (drawn.code, drawn.out) == (2, "")
