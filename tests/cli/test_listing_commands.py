"""`sources`, `tools`, `search`, `show`, `history`, and their other names."""

from __future__ import annotations

import pytest

GREET = '''
from spindle import tool

@tool(tags=["polite"], read_only=True)
def greet(name: str) -> str:
    """Greet somebody. At length."""
    return f"Hello, {name}!"
'''


@pytest.fixture
def filled(workspace, spindle):
    workspace.write("tools/greet.py", GREET)
    workspace.add_server()
    assert spindle("sync").code == 0
    return workspace


def test_tools_in_a_pipe_are_tab_separated(filled, spindle):
    lines = spindle("tools").out.splitlines()
    assert lines[0] == "greet\tpython\tGreet somebody"
    assert lines[2] == "mini.echo\tmcp\tGive the arguments back"
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--kind", "python"], ["greet"]),
        (["--tag", "polite"], ["greet"]),
        (["--source", "mini", "--filter", "*.e*"], ["mini.echo"]),
        (["--filter", "ech"], ["mini.echo"]),
        (["--filter", "mini.[ef]*"], ["mini.echo", "mini.fail"]),
        (["--filter", "python"], ["greet"]),
        (["--filter", "mcp", "--source", "tools"], []),
        (["--filter", "mcp", "--kind", "python"], []),
    ],
)
@pytest.mark.parametrize("command", [["tools"], ["tools", "list"], ["registry", "list"]])
def test_tools_can_be_filtered(filled, spindle, command, words, names):
    assert [tool["name"] for tool in spindle(*command, *words, "--json").json] == names


def test_a_filter_that_names_a_kind_finds_those_of_it_and_those_of_that_name(filled, spindle):
    filled.write("tools/more.py", "from spindle import tool\n@tool\ndef about_mcp() -> str:\n    return ''\n")
    names = [tool["name"] for tool in spindle("registry", "list", "--filter", "mcp", "--json").json]
    assert names == [
        "about_mcp",
        *(f"mini.{name}" for name in ("data", "echo", "fail", "hang", "paint", "picture")),
    ]


def test_tools_list_is_tools_and_takes_a_source(filled, spindle):
    assert spindle("tools", "list").out == spindle("tools").out
    assert spindle("tools", "list", "mini").out == spindle("tools", "mini").out
    assert "spindle tools list [OPTIONS] [SOURCE]" in spindle("tools", "list", "--help").out
    assert "spindle tools connect" in spindle("tools", "connect", "--help").out


def test_filters_that_let_nothing_through_say_so(filled, spindle):
    done = spindle("tools", "--filter", "xyz*")
    assert (done.code, done.out, done.err) == (0, "", "note: no tool passes the filters\n")
    assert spindle("tools", "--filter", "xyz*", "--json").json == []


def test_a_wrong_source_or_kind_is_a_mistake(filled, spindle):
    assert spindle("tools", "--source", "mani").err.startswith(
        "spindle: there is no source 'mani'\n  hint: did you mean 'mini'?"
    )
    assert spindle("tools", "--kind", "pithon").err.startswith(
        "spindle: there is no kind of source 'pithon'\n  hint: did you mean python?"
    )


def test_sources_that_were_never_asked_are_noted(workspace, spindle):
    workspace.add_server()
    done = spindle("tools")
    assert done.code == 0
    assert done.err.splitlines()[-1] == (
        "note: mini was not synced since added or changed; run `spindle sync`"
    )


def test_a_workspace_without_sources_says_how_to_get_one(workspace, spindle):
    assert "`spindle add --presets`" in spindle("tools").err
    assert "`spindle add --presets`" in spindle("sources").err


def test_search_finds_by_words(filled, spindle):
    assert spindle("search", "greet", "somebody").out.startswith("greet\tpython\t")
    assert len(spindle("search", "tool", "--limit", "2", "--json").json) == 2


def test_a_search_without_hits_says_so(filled, spindle):
    done = spindle("search", "zebra")
    assert (done.code, done.out, done.err) == (0, "", "note: no tool matches 'zebra'\n")


def test_show_has_everything_about_a_tool(filled, spindle):
    out = spindle("show", "echo").out
    for part in (
        "mini.echo\n",
        "--text   string    required   What to say.",
        "source:      mini (mcp)",
        "server:      mini 1\n",
        "remote name: echo",
        "hints:       only reads",
        "fingerprint: ",
    ):
        assert part in out


def test_show_as_json_has_the_promised_keys(filled, spindle):
    shown = spindle("show", "greet", "--json").json
    assert shown["name"] == "greet"
    assert shown["remote_name"] == "greet"
    assert shown["source"] == "tools"
    assert shown["input_schema"]["required"] == ["name"]
    assert {"description", "output_schema", "fingerprint", "place"} <= set(shown)
    assert (shown["server"], spindle("show", "echo", "--json").json["server"]) == (None, "mini 1")
    assert [item["server"] for item in spindle("sources", "--json").json] == ["mini 1", None]


def test_show_prints_a_node_as_the_docstring_that_describes_it(filled, spindle):
    from spindle.flows.node_docstring import of_docstring

    done = spindle("show", "echo", "--as-node", "--docstring")
    assert done.out.splitlines()[:6] == [
        "Give the arguments back. They are not changed.",
        "",
        "Interface:",
        '- Reads: shared["text"]: string - What to say.',
        '- Reads: shared["tags"]: array - (optional)',
        '- Reads: shared["loud"]: boolean - (optional)',
    ]
    assert "\n- Params: count: integer - (default: 1)\n" in done.out
    assert '\n- Actions: "default", "rate_limited", "auth_failed", ' in done.out
    assert "Source: mini/echo (mini 1), fingerprint " in done.out
    read = of_docstring("echo", done.out)
    assert [(key.name, key.type, key.required) for key in read.reads][:2] == [
        ("text", "string", True), ("tags", "array", False),
    ]  # fmt: skip
    assert [(key.name, key.schema["default"]) for key in read.params] == [("count", 1)]
    assert spindle("show", "echo", "--docstring").code == 2


def test_a_mistyped_tool_gets_a_suggestion(filled, spindle):
    done = spindle("show", "gret")
    assert done.code == 3
    assert done.err == "spindle: there is no tool 'gret'\n  hint: did you mean 'greet'?\n"


@pytest.mark.parametrize("command", [["sources"], ["mcp", "list"]])
def test_sources_are_listed_with_their_state(filled, spindle, command):
    assert spindle(*command).out.splitlines() == [
        "mini\tmcp\t6\t0\tjust now\tok",
        "tools\tpython\t1\t0\tjust now\tok",
    ]


def test_sources_that_failed_or_are_off_are_listed_too(filled, spindle):
    filled.add_server(name="off", enabled=False)
    filled.write(
        "spindle.toml", (filled.root / "spindle.toml").read_text() + "[sources.gone]\ncommand = 'no-such'\n"
    )
    spindle("sync", "gone")
    states = {item["name"]: item for item in spindle("sources", "--json").json}
    assert states["gone"]["state"] == "failed"
    assert "'no-such' was not found" in states["gone"]["error"]
    assert states["off"]["state"] == "disabled"
    assert states["mini"]["file"] == str(filled.root / "spindle.toml")


def test_history_lists_calls_the_newest_first(filled, spindle):
    spindle("call", "greet", "--name=a")
    spindle("call", "mini.fail")
    records = spindle("history", "--json").json
    assert [(record["tool"], record["outcome"]) for record in records] == [
        ("mini.fail", "tool"),
        ("greet", "ok"),
    ]
    assert [line.split("\t")[3:5] for line in spindle("history").out.splitlines()] == [
        ["tool", "mini.fail"],
        ["ok", "greet"],
    ]
    assert len(spindle("history", "--tool", "greet").out.splitlines()) == 1
    assert len(spindle("history", "--outcome", "tool").out.splitlines()) == 1
    assert len(spindle("history", "--limit", "1").out.splitlines()) == 1


def test_one_call_is_shown_whole(filled, spindle):
    spindle("call", "greet", "--name=Ann")
    key = spindle("history", "--json").json[0]["key"]
    out = spindle("history", key[:8]).out
    assert f"call:      {key}\n" in out
    assert '"name": "Ann"' in out
    assert spindle("history", key, "--json").json["arguments"] == {"name": "Ann"}


def test_an_unknown_call_is_not_found(filled, spindle):
    done = spindle("history", "zzz")
    assert (done.code, done.err) == (
        3,
        "spindle: there is no call 'zzz'\n  hint: `spindle history` lists them\n",
    )


def test_the_history_of_a_new_workspace_is_empty(workspace, spindle):
    assert spindle("history").err == "note: there are no calls yet\n"
    assert spindle("history", "--json").json == []
