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


DOUBT = """
import os
import signal
import time
from pathlib import Path

from spindle import Context, tool

@tool
def charge(amount: int, token: str) -> str:
    with (Path(__file__).parent / "charges").open("a") as file:
        file.write("x")
    if not Path(__file__).with_name("calm").exists():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    return f"charged {amount}"

@tool
async def pay(context: Context) -> str:
    return (await context.call("charge", amount=5, token="tiger")).text
"""


@pytest.fixture
def doubtful(workspace: Any, spindle: Any) -> Any:
    """A workspace whose last run was stopped while it charged."""
    workspace.write("tools/till.py", DOUBT)
    assert spindle("call", "pay").code == 130
    workspace.write("tools/calm", "")
    return workspace


def charges(work: Any) -> int:
    return len((work.root / "tools" / "charges").read_text())


def test_a_call_in_doubt_is_described_and_can_be_confirmed(doubtful: Any, spindle: Any) -> None:
    done = spindle("resume", "last")
    token = token_of(spindle)
    assert done.code == 75
    first, named, arguments, begun, way = done.err.splitlines()
    assert first == (
        "spindle: paused: charge was begun and may have been done, but how it ended is not known: "
        "do it again?"
    )
    assert (named, arguments) == ("  tool: charge", '  arguments: {"amount": 5, "token": "•••"}')
    assert begun.startswith("  begun: ")
    assert ", process " in begun
    assert way == (
        f"  to continue: spindle resume {token} --approve to call it again, --done if it was done, "
        "or --refuse REASON"
    )
    nothing = spindle("resume", token)
    assert (nothing.code, "use --approve, --done or --refuse REASON" in nothing.err) == (2, True)
    went_on = spindle("resume", token, "--done")
    assert (went_on.code, "as a person has confirmed" in went_on.out) == (0, True)
    assert charges(doubtful) == 1
    assert "charge confirmed as done by the owner" in spindle("trace", "last").out
    assert spindle("trace", "last", "--json").json["approvals"][0]["done"] is True


@pytest.mark.parametrize(
    ("words", "code", "out", "count"),
    [
        (("--approve",), 0, "charged 5\n", 2),
        (("--answer", '{"done": true, "result": "charged before"}'), 0, "charged before\n", 1),
        (("--refuse", "never"), 1, "", 1),
    ],
)
def test_a_call_in_doubt_is_made_again_or_confirmed_with_its_result_or_fails(
    doubtful: Any, spindle: Any, words: tuple[str, ...], code: int, out: str, count: int
) -> None:
    spindle("resume", "last")
    done = spindle("resume", token_of(spindle), *words)
    assert (done.code, done.out) == (code, out)
    assert charges(doubtful) == count


@pytest.mark.parametrize(("said", "shown", "count"), [("y", "charged 5", 2), ("done", "confirmed", 1)])
def test_at_a_terminal_a_call_in_doubt_is_asked_about(
    doubtful: Any, spindle: Any, said: str, shown: str, count: int
) -> None:
    later = Terminal("resume", "last")
    later.read_until("Enter decides later: ")
    later.write("\n")
    assert "to continue: spindle resume" in later.read_all()
    terminal = Terminal("resume", token_of(spindle))
    terminal.read_until("Enter decides later: ")
    terminal.write(f"{said}\n")
    assert shown in terminal.read_all()
    assert charges(doubtful) == count


def test_done_is_no_answer_where_nothing_is_in_doubt(work: Any, spindle: Any) -> None:
    spindle("call", "delete", "--name=x")
    done = spindle("resume", token_of(spindle), "--done")
    assert (done.code, "nothing is in doubt here" in done.err) == (2, True)


GIVES_UP = """
import asyncio
import contextlib
from pathlib import Path

from spindle import Context, tool

CHARGED = Path(__file__).with_name("charged")

@tool
async def charge(amount: int) -> str:
    with CHARGED.open("a") as file:
        file.write("x")
    raise asyncio.CancelledError

@tool
async def pay(context: Context) -> str:
    with contextlib.suppress(asyncio.CancelledError):
        await context.call("charge", amount=5)
    return (await context.call("delete", name="x")).text
"""


def test_yes_to_everything_does_not_decide_about_what_may_have_been_done(work: Any, spindle: Any) -> None:
    """It was said before anybody knew that something might happen twice."""
    work.write("tools/till.py", GIVES_UP)
    done = spindle("call", "pay", "--yes")
    assert done.code == 75
    assert "charge was begun and may have been done" in done.err
    assert (work.root / "tools" / "charged").read_text() == "x"
    (pause,) = spindle("pauses", "--json").json
    assert (pause["tool"], "in_doubt" in pause["details"]) == ("charge", True)
