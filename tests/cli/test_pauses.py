"""Pauses at the command line: told, listed, answered."""

from __future__ import annotations

from typing import Any

import pytest

from cli.test_terminal import Terminal

TOOLS = """
from typing import Literal

from spindle import Context, tool

@tool
def delete(name: str) -> str:
    return f"deleted {name}"

@tool
def paint(context: Context) -> str:
    return "painted in " + context.ask("Which colour?", Literal["red", "blue"])

@tool
def count(context: Context) -> int:
    return context.ask("How many?", int) + 1

@tool
def fill(context: Context) -> str:
    schema = {"type": "object", "properties": {"street": {"type": "string"}}}
    return context.ask("The address?", schema)["street"]
"""


@pytest.fixture
def work(workspace: Any) -> Any:
    workspace.write("tools/work.py", TOOLS)
    workspace.write("spindle.toml", '[sources.tools]\napprove = ["delete"]\n')
    return workspace


def token_of(spindle: Any) -> str:
    (pause,) = spindle("pauses", "--json").json
    return pause["token"]


def test_a_call_that_waits_says_what_for_and_how_to_go_on(work: Any, spindle: Any) -> None:
    done = spindle("call", "delete", "--name=x")
    token = token_of(spindle)
    assert done.code == 75
    assert done.out == ""
    assert done.err.splitlines() == [
        "spindle: paused: delete is called only with approval",
        "  tool: delete",
        '  arguments: {"name": "x"}',
        f"  to continue: spindle resume {token} --approve, or --refuse REASON",
    ]
    went_on = spindle("resume", token, "--approve")
    assert (went_on.code, went_on.out) == (0, "deleted x\n")
    again = spindle("resume", token, "--approve")
    assert again.code == 10
    assert "was answered before" in again.err
    assert "its run is done" in again.err


def test_json_tells_a_program_the_same(work: Any, spindle: Any) -> None:
    done = spindle("--json", "call", "delete", "--name=x")
    assert done.code == 75
    (pause,) = done.json["paused"]["pauses"]
    assert pause["details"] == {"tool": "delete", "arguments": {"name": "x"}}
    assert spindle("resume", pause["token"], "--approve", "--json").json["content"][0]["text"] == "deleted x"


def test_yes_approves(work: Any, spindle: Any) -> None:
    done = spindle("call", "--yes", "delete", "--name=x")
    assert (done.code, done.out) == (0, "deleted x\n")


def test_a_refusal_ends_the_run_with_its_reason(work: Any, spindle: Any) -> None:
    spindle("call", "delete", "--name=x")
    done = spindle("resume", token_of(spindle), "--refuse", "too dear")
    assert done.code == 5
    assert "not approved: too dear" in done.err


def test_arguments_can_be_changed_by_who_approves(work: Any, spindle: Any) -> None:
    spindle("call", "delete", "--name=x")
    answer = '{"approved": true, "arguments": {"name": "y"}}'
    assert spindle("resume", token_of(spindle), "--answer", answer).out == "deleted y\n"


def test_an_answer_is_typed_by_what_is_asked(work: Any, spindle: Any) -> None:
    spindle("call", "count")
    token = token_of(spindle)
    wrong = spindle("resume", token, "many")
    assert wrong.code == 4
    assert "the answer must be an integer, not 'many'" in wrong.err
    assert spindle("resume", token, "41").out == "42\n"


def test_a_choice_that_is_not_offered_is_refused_and_can_be_corrected(work: Any, spindle: Any) -> None:
    paused = spindle("call", "paint")
    assert '  answer: "red" or "blue"' in paused.err
    token = token_of(spindle)
    assert spindle("resume", token, "green").code == 4
    assert spindle("resume", token, "blue").out == "painted in blue\n"


def test_an_object_is_answered_as_json(work: Any, spindle: Any) -> None:
    paused = spindle("call", "fill")
    assert "--answer JSON" in paused.err
    token = token_of(spindle)
    broken = spindle("resume", token, "--answer", "{street")
    assert broken.code == 4
    assert "not valid JSON" in broken.err
    assert spindle("resume", token, "--answer", '{"street": "Main St"}').out == "Main St\n"


@pytest.mark.parametrize(
    ("tool", "words", "message"),
    [
        (("delete", "--name=x"), (), "somebody must decide"),
        (("delete", "--name=x"), ("yes",), "a request for approval is not answered with a word"),
        (("paint",), ("--approve",), "waits for an answer, not for approval"),
        (("paint",), (), "an answer is needed: Which colour?"),
        (("paint",), ("red", "--refuse", "no"), "ANSWER and --refuse cannot both be the answer"),
    ],
)
def test_a_misunderstanding_is_cleared_up_and_costs_nothing(
    work: Any, spindle: Any, tool: tuple[str, ...], words: tuple[str, ...], message: str
) -> None:
    spindle("call", *tool)
    token = token_of(spindle)
    done = spindle("resume", token, *words)
    assert done.code == 2
    assert message in done.err
    assert token_of(spindle) == token


def test_a_run_can_be_named_instead_of_its_only_pause(work: Any, spindle: Any) -> None:
    spindle("call", "paint")
    (pause,) = spindle("pauses", "--json").json
    assert spindle("resume", pause["run_id"][:12], "red").out == "painted in red\n"
    assert spindle("resume", pause["run_id"]).out == "painted in red\n"


def test_nothing_waiting_and_an_unknown_token(work: Any, spindle: Any) -> None:
    assert "nothing waits for a person" in spindle("pauses").err
    done = spindle("resume", "nonsense")
    assert done.code == 3
    assert "there is no pause and no run 'nonsense'" in done.err


def test_the_listing_shows_what_is_wanted(work: Any, spindle: Any) -> None:
    spindle("call", "paint")
    (line,) = spindle("pauses").out.splitlines()
    token, _, kind, tool, who, what = line.split("\t")
    assert (len(token), kind, tool, who, what) == (32, "input", "paint", "local", "Which colour?")


def test_at_a_terminal_approval_is_asked_right_away(work: Any) -> None:
    terminal = Terminal("call", "delete", "--name=x")
    terminal.read_until("approve? [y/N] ")
    terminal.write("y\n")
    assert "deleted x" in terminal.read_all()
    assert terminal.process.returncode == 0


def test_at_a_terminal_a_question_is_asked_until_it_is_answered(work: Any) -> None:
    terminal = Terminal("call", "count")
    terminal.read_until("answer: ")
    terminal.write("many\n")
    terminal.read_until("must be an integer")
    terminal.write("41\n")
    assert "42" in terminal.read_all()


def test_at_a_terminal_one_may_answer_later(work: Any, spindle: Any) -> None:
    terminal = Terminal("call", "paint")
    terminal.read_until("\nanswer: ")
    terminal.write("\x04")
    assert "to continue: spindle resume" in terminal.read_all()
    assert terminal.process.returncode == 75
    assert token_of(spindle)
