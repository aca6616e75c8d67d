"""`spindle run`: flows from the shell."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from cli.test_terminal import Terminal, plain
from servers import warm

TOOLS = """
from spindle import Context, tool

@tool
def upper(text: str) -> str:
    "Make it loud."
    return text.upper()

@tool
def split(text: str, by: str = " ") -> list[str]:
    "Take it apart."
    return text.split(by)

@tool
def count(words: list[str], extra: int = 0) -> int:
    "How many there are."
    with open("counted", "a") as file:
        file.write("x")
    return len(words) + extra

@tool
def add(a: int, b: int) -> int:
    return a + b

@tool
def point() -> dict[str, int]:
    return {"x": 1, "y": 2}

@tool
def boom(text: str) -> str:
    raise ValueError("it broke")

@tool
def colour(context: Context) -> str:
    return context.ask("Which colour?", str)

@tool(destructive=True)
def delete(text: str) -> str:
    return f"deleted {text}"
"""

SHOUT = """
version: 1
name: shout
description: Say it loud, and count the words.
inputs:
  text: {type: string, description: what to say}
  times: {type: integer, default: 1}
params:
  by: " "
nodes:
- {id: loud, tool: upper}
- {id: parts, tool: split, params: {text: "${loud}"}}
- {id: n, tool: count, params: {words: "${parts}", extra: "${times}"}}
edges:
- {from: loud, to: parts}
- {from: parts, to: n}
outputs:
  loud: ${loud}
  n: {value: "${n}", type: integer}
"""


@pytest.fixture
def flows(workspace: Any) -> Any:
    workspace.write("tools/words.py", TOOLS)
    workspace.write("spindle.toml", '[sources.tools]\napprove = ["delete"]\n')
    workspace.write("flows/shout.yaml", SHOUT)
    return workspace


def lines(text: str) -> list[str]:
    """What stderr says, without times."""
    import re

    return [re.sub(r"\s+[0-9]+\.[0-9]+ s", "", line) for line in text.splitlines()]


# --- one line of tools


def test_a_file_with_another_ending_is_told_which_are_read(flows: Any, spindle: Any) -> None:
    flows.write("quite_different.toml", "version = 1")
    done = spindle("run", "quite_different.toml")
    assert done.code == 3
    assert "hint: a flow's file ends in .json, .yaml, .yml" in done.err


def test_what_is_piped_in_goes_through_three_tools(flows: Any, program: Any) -> None:
    done = program("run", "upper >> split >> count", stdin="one two three\n")
    assert (done.code, done.out) == (0, "3\n")
    assert lines(done.err) == ["✓ upper", "✓ split", "✓ count"]


def test_text_of_several_lines_keeps_all_but_the_last_newline(flows: Any, program: Any) -> None:
    done = program("run", "-q", "upper", "--json", stdin="a\nb\n\n")
    assert done.json["content"] == [{"type": "text", "text": "A\nB\n"}]
    assert done.err == ""


def test_what_is_piped_in_is_typed_as_the_tool_wants_it(flows: Any, program: Any) -> None:
    assert program("run", "-q", "add --b=2", stdin="40\n").out == "42\n"
    wrong = program("run", "add --b=2", stdin="forty\n")
    assert (wrong.code, wrong.out) == (4, "")
    assert wrong.err == "spindle: stdin must be an integer, not 'forty'\n"


def test_nothing_piped_in_is_one_message_and_no_hang(flows: Any, program: Any) -> None:
    done = program("run", "upper >> split")
    assert (done.code, done.out) == (4, "")
    assert done.err.splitlines() == [
        "spindle: `text` of node 'upper' takes piped input, and nothing was piped in",
        "  hint: pipe something into `spindle run`, or set it with a flag",
    ]


def test_what_is_piped_in_may_have_a_default(flows: Any, program: Any) -> None:
    pipe = """upper --text='${stdin ?? "nobody"}' >> split --text='${prev} ${stdin ?? "x"}'"""
    assert program("run", "-q", pipe, "--output", "upper").out == "NOBODY\n"
    assert program("run", "-q", pipe, "--output", "upper", stdin="ann").out == "ANN\n"
    needed = program("run", """split --text='${stdin}' >> upper --text='${stdin ?? "x"}'""")
    assert (needed.code, "nothing was" in needed.err) == (4, True)


def test_an_idle_pipe_does_not_stop_a_flow_that_needs_nothing_from_it(flows: Any) -> None:
    idle = subprocess.Popen(
        [warm.SPINDLE, "run", "-q", "upper --text=x"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert idle.stdout is not None
    assert idle.stdout.read() == "X\n"
    idle.communicate(timeout=300)


def test_one_tool_with_its_flags_is_a_flow(flows: Any, spindle: Any) -> None:
    done = spindle("run", "split", "--text", "a-b", "--by=-", "--json")
    assert (done.code, done.json["structured"]) == (0, ["a", "b"])
    wrong = spindle("run", "split", "--txt=x")
    assert wrong.code == 4
    assert "did you mean --text?" in wrong.err


def test_options_stand_before_or_after_the_flow(flows: Any, spindle: Any) -> None:
    assert spindle("run", "--output", "upper", "upper --text=a >> split").out == "A\n"
    assert spindle("run", "upper --text=a >> split", "--output", "upper", "-q").out == "A\n"
    wrong = spindle("run", "upper --text=a", "--outptu=x")
    assert (wrong.code, wrong.err.splitlines()[1]) == (4, "  hint: did you mean --output?")
    late = spindle("run", "upper --text=a", "-w", "x")
    assert (late.code, late.err.splitlines()[0]) == (2, "spindle: -w belongs before the flow")


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (["uper --text=x"], 12, "1:1: there is no tool 'uper'", "did you mean 'upper'?"),
        (["upper --text=x >> splt"], 12, "1:19: there is no tool 'splt'", "did you mean 'split'?"),
        (["upper --txt=x"], 12, "1:7: upper has no parameter --txt", "did you mean --text?"),
        (["add"], 12, "1:1: add needs `a` and `b`, and nothing provides them",
         "such as --a='${stdin}' --b=VALUE"),
        (["add --a=x --b=1"], 12, "1:5: --a must be an integer, not 'x'", None),
        (["upper --text=x >>"], 12, "1:16: there is no tool after this `>>`", None),
        (["shuot"], 3, "there is neither a flow nor a tool 'shuot'", "did you mean 'shout'?"),
        (["none.json"], 12, "none.json: cannot be read: No such file or directory", None),
        (["shout"], 4, "shout needs the input 'text'", "give --text=VALUE, or pipe it in"),
        (["shout", "--text=x", "--times=many"], 4, "--times must be an integer, not 'many'", None),
        (["shout", "--txet=x"], 4,
         "shout has neither an input nor a parameter 'txet'", "did you mean --text?"),
        (["shout", "loud"], 4, "'loud' is neither a flag nor a JSON object", "perhaps --text=loud"),
        (["shout", "--text=x", "--param", "bye=1"], 4,
         "shout has neither an input nor a parameter 'bye'", "did you mean --by?"),
        (["shout", "--text=x", "--param", "by"], 2, "--param by: a value is missing", "--param by=VALUE"),
        (["shout", "--only=n", "--from=n"], 2, "--only and --from do not go together", "give one of them"),
        (["shout", "--from", "m"], 12, "the flow has no node 'm'", "its nodes are loud, parts, n"),
        (["shout", "--from", "n", "--run", "zz"], 3, "there is no run 'zz'", "`spindle runs` lists them"),
        (["shout", "--text=x", "--run", "zz"], 2, "--run is for --from and --only", "add --from NODE"),
        (["upper", "--text=x", ">>", "split"], 2, "unexpected `>>` outside of the pipe",
         'put the whole pipe in quotes: "a --x=1 >> b"'),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_and_a_way_out(
    flows: Any, spindle: Any, words: list[str], code: int, message: str, hint: str | None
) -> None:
    done = spindle("run", *words)
    assert done.err.splitlines() == [f"spindle: {message}", *([f"  hint: {hint}"] if hint else [])]
    assert (done.code, done.out) == (code, "")


def test_a_broken_file_is_told_with_its_line(flows: Any, spindle: Any) -> None:
    flows.write("flows/bad.json", '{"version": 1,\n "nodes": [\n  {"id": "a", "tol": "upper"}]}')
    done = spindle("run", "bad")
    assert done.code == 12
    assert done.err.startswith("spindle: flows/bad.json:3: ")


def test_a_tool_that_fails_fails_the_flow_with_its_error(flows: Any, spindle: Any) -> None:
    done = spindle("run", "boom --text=x >> upper")
    assert done.code == 1
    assert lines(done.err)[:2] == ["✗ boom  tool", "spindle: ValueError: it broke"]
    assert 'File "tools/words.py", line 31, in boom' in done.err
    (run,) = spindle("runs", "--json").json
    assert (run["status"], run["error"]["message"]) == ("failed", "ValueError: it broke")


# --- saved flows


def test_a_saved_flow_takes_its_inputs_as_flags_or_json(flows: Any, spindle: Any) -> None:
    assert spindle("run", "-q", "shout", "--text=a b").out == '{\n  "loud": "A B",\n  "n": 3\n}\n'
    given = spindle("run", "-q", "shout", '{"text": "a b"}', "--times=5", "--json")
    assert given.json["structured"] == {"loud": "A B", "n": 7}
    assert spindle("run", "-q", "flows/shout.yaml", "--text=a b", "--output=n").out == "3\n"


def test_what_is_piped_in_is_the_one_input_that_is_missing(flows: Any, program: Any) -> None:
    assert program("run", "-q", "shout", "--output", "loud", stdin="hey\n").out == "HEY\n"


def test_a_flag_that_names_a_parameter_of_a_node_overrides_it(flows: Any, spindle: Any) -> None:
    def n(*words: str) -> str:
        return spindle("run", "-q", "shout", "--text=a-b-c d", "--output=n", *words).out.strip()

    assert n() == "3"
    assert n("--by=-") == "4"
    assert n("--extra=10") == "12"
    assert n("--param", "by=-", "--param", "n.extra=0") == "3"
    assert n("--param", "words=['a']".replace("'", '"')) == "2"


def test_help_of_a_flow_shows_what_it_takes(flows: Any, spindle: Any) -> None:
    done = spindle("run", "shout", "--help")
    assert done.code == 0
    assert "--text   string   required   what to say" in done.out
    assert "--by     string    default" in done.out
    assert spindle("run", "shout", "--help", "--json").json["inputs"]["text"]["type"] == "string"


def test_a_key_of_the_shared_store_can_be_printed(flows: Any, spindle: Any) -> None:
    assert spindle("run", "-q", "shout", "--text=a b", "--output=parts[1]").out == "B\n"
    assert spindle("run", "-q", "point", "--output", "y").out == "2\n"
    unknown = spindle("run", "-q", "shout", "--text=a b", "--output=prats")
    assert unknown.code == 3
    assert unknown.err.splitlines() == [
        "spindle: the run is done, and left nothing under 'prats'",
        "  hint: did you mean 'parts'?",
    ]


def test_a_dry_run_shows_what_would_be_called_and_calls_nothing(flows: Any, spindle: Any) -> None:
    done = spindle("run", "shout", "--text=a", "--by=-", "--dry-run")
    assert (done.code, done.err) == (0, "note: nothing was called\n")
    assert done.out == (
        "loud   upper\n"
        '         text = "a"\n'
        "parts  split\n"
        "         text = ${loud}\n"
        '         by = "-"\n'
        "n      count\n"
        "         words = ${parts}\n"
        "         extra = 1\n"
    )
    planned = spindle("run", "shout", "--dry-run", "--json").json
    assert planned["nodes"][0] == {
        "node": "loud", "tool": "upper", "arguments": {}, "missing": ["text"], "next": {"default": "parts"},
    }  # fmt: skip
    assert not (flows.root / "counted").exists()
    assert spindle("runs", "--json").json == []


def test_a_run_goes_on_from_a_node_with_what_the_last_one_left(flows: Any, spindle: Any) -> None:
    spindle("run", "-q", "shout", "--text=a b")
    first = spindle("runs", "--json").json[0]["id"]
    spindle("run", "-q", "shout", "--text=a b c d")
    again = spindle("run", "shout", "--from", "n", "--json")
    assert again.json["structured"] == {"loud": "A B C D", "n": 5}
    assert lines(again.err)[1:] == ["✓ n"]
    older = spindle("run", "-q", "shout", "--from", "parts", "--run", first[:9], "--output", "n")
    assert older.out == "3\n"
    only = spindle("run", "shout", "--only", "parts", "--by=x", "--run", first)
    assert json.loads(only.out) == ["A B"]
    assert lines(only.err) == ["✓ parts"]


def test_from_works_for_a_line_of_tools_too(flows: Any, spindle: Any) -> None:
    spindle("run", "-q", "upper --text='a b' >> split >> count")
    (first,) = [run["id"] for run in spindle("runs", "--json").json]
    done = spindle("run", "upper --text='a b' >> split >> count --extra=5", "--from=count")
    assert (done.out, lines(done.err)) == ("7\n", [f"note: using the data of run {first[:12]}", "✓ count"])


def test_a_flow_that_waits_for_a_person_is_told_like_a_call(flows: Any, spindle: Any) -> None:
    done = spindle("run", "upper --text=x >> delete")
    (pause,) = spindle("pauses", "--json").json
    assert (done.code, done.out) == (75, "")
    assert lines(done.err) == [
        "✓ upper",
        "spindle: paused: delete is called only with approval",
        "  tool: delete",
        '  arguments: {"text": "X"}',
        f"  to continue: spindle resume {pause['token']} --approve, or --refuse REASON",
    ]
    went_on = spindle("resume", pause["token"], "--approve")
    assert (went_on.code, went_on.out) == (0, "deleted X\n")
    assert lines(went_on.err) == ["note: 1 node done before", "✓ delete"]
    assert spindle("run", "-y", "upper --text=x >> delete").out == "deleted X\n"


def test_a_run_that_takes_too_long_is_stopped_and_can_go_on(flows: Any, spindle: Any) -> None:
    flows.write("tools/slow.py", (
        "import asyncio, os\nfrom spindle import tool\n\n"
        "@tool(idempotent=True)\nasync def slow(text: str) -> str:\n"
        "    if not os.path.exists('go'):\n        await asyncio.Event().wait()\n    return text\n"
    ))  # fmt: skip
    done = spindle("run", "upper --text=x >> slow", "--timeout", "1")
    assert done.code == 6
    assert "did not finish within 1 s" in done.err
    (flows.root / "go").touch()
    assert spindle("resume", "last").out == "X\n"


# --- at a terminal


def test_the_nodes_are_shown_while_they_run(flows: Any) -> None:
    seen = Terminal("run", "upper --text='a b' >> split >> count").read_all()
    assert "\r\x1b[K⠋ upper 0.0 s" in seen
    assert "\x1b[32m✓\x1b[0m upper" in seen
    shown = [line.rpartition("\r")[2] for line in plain(seen).rstrip("\n").split("\n")]
    assert lines("\n".join(shown)) == ["✓ upper", "✓ split", "✓ count", "2"]


def test_a_question_is_asked_at_the_terminal(flows: Any) -> None:
    terminal = Terminal("run", "colour >> upper")
    terminal.read_until("answer: ")
    terminal.write("red\n")
    assert plain(terminal.read_all()).splitlines()[-1] == "RED"


# --- afterwards


def test_runs_are_listed_and_filtered(flows: Any, spindle: Any) -> None:
    assert spindle("runs").err == "note: there are no runs yet\n"
    spindle("run", "-q", "shout", "--text=a")
    spindle("run", "-q", "boom --text=x")
    spindle("call", "delete", "--text=x")
    found = [(run["name"], run["kind"], run["status"]) for run in spindle("runs", "--json").json]
    assert found == [("delete", "call", "paused"), ("boom", "flow", "failed"), ("shout", "flow", "done")]
    assert [line.split("\t")[3:5] for line in spindle("runs", "--flow=shout").out.splitlines()] == [
        ["done", "shout"]
    ]
    assert len(spindle("runs", "--status=failed").out.splitlines()) == 1
    assert len(spindle("runs", "--limit=1").out.splitlines()) == 1
    assert spindle("runs", "--flow=none").err == "note: no run matches\n"


def test_a_trace_shows_what_went_in_and_came_out(flows: Any, spindle: Any) -> None:
    spindle("run", "-q", "shout", "--text=a b")
    traced = spindle("trace")
    assert traced.code == 0
    assert "flow:     shout" in traced.out
    assert 'inputs:   {"text": "a b"}' in traced.out
    assert '    out   ["A", "B"]' in traced.out
    whole = spindle("trace", "last", "--json").json
    assert [(node["node"], node["output"], node["attempts"]) for node in whole["nodes"]] == [
        ("loud", "A B", 1), ("parts", ["A", "B"], 1), ("n", 3, 1),
    ]  # fmt: skip
    assert [event["kind"] for event in whole["events"]] == ["started", "ended"]


def test_long_values_are_shortened_in_a_trace_unless_all_is_wanted(flows: Any, spindle: Any) -> None:
    spindle("run", "-q", "upper", f"--text={'long ' * 100}")
    short, full = spindle("trace").out, spindle("trace", "--full").out
    assert max(map(len, short.splitlines())) < 200
    assert "LONG " * 100 in full


def test_a_trace_tells_what_a_run_waits_for(flows: Any, spindle: Any) -> None:
    spindle("run", "delete --text=x")
    traced = spindle("trace")
    assert "paused for a person" in traced.out
    assert "waits for approval: delete is called only with approval" in traced.out
    assert spindle("trace", "--json").json["pauses"][0]["kind"] == "approval"


def test_an_unknown_run_is_told(flows: Any, spindle: Any) -> None:
    assert spindle("trace").err.splitlines()[0] == "spindle: there are no runs yet"
    assert spindle("trace", "abc").code == 3


def test_a_tool_is_shown_as_a_node(flows: Any, spindle: Any) -> None:
    shown = spindle("show", "split", "--as-node").out
    assert shown.startswith("split: Take it apart.\n\nReads:\n    text (string)\n")
    node = spindle("show", "split", "--as-node", "--json").json
    assert [key["name"] for key in node["writes"]] == ["split"]
    assert (node["source"], node["pure"]) == ("tools", False)


BROKEN = """
nodes:
- {id: one, tool: count, params: {words: [a]}}
- {id: two, tool: no_such_tool}
edges: [{from: one, to: two}]
"""


def test_a_broken_file_is_refused_before_it_runs(flows: Any, spindle: Any) -> None:
    flows.write("broken.yaml", BROKEN)
    for words in (["run", "broken.yaml"], ["run", "--dry-run", "broken.yaml"]):
        done = spindle(*words)
        assert (done.code, done.out) == (12, "")
        assert "broken.yaml:4: two: there is no tool 'no_such_tool'" in done.err
    assert not (flows.root / "counted").exists()
