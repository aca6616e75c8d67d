"""`spindle agent`: a model and the tools from the shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.test_terminal import Terminal
from servers import warm
from servers.running import PATIENCE
from spindle.testing import Failure, Gate, ModelServer, ToolCall, Turn

TOOLS = """
from spindle import tool

@tool
def add(a: int, b: int) -> int:
    return a + b

@tool(destructive=True)
def delete(name: str) -> str:
    return f"deleted {name}"
"""

MODEL = ("--model", "openai-chat:gpt-scripted")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def work(workspace: Any) -> Any:
    workspace.write("tools/work.py", TOOLS)
    workspace.write("spindle.toml", "")
    return workspace


ADD = Turn("let me see", [ToolCall("add", {"a": 1, "b": 2})])
DELETE = Turn(calls=[ToolCall("delete", {"name": "x"})])


def test_the_answer_is_on_stdout_and_what_happens_on_stderr(
    work: Any, spindle: Any, server: ModelServer
) -> None:
    server.feed(ADD, "It is 3.")
    done = spindle("agent", "add them", *MODEL, "--instructions", "be brief")
    assert (done.code, done.out) == (0, "It is 3.\n")
    assert done.err.splitlines() == ['→ add {"a":1,"b":2}', "← add: 3"]
    assert "be brief" in server.requests[0].instructions


def test_as_json_and_as_a_stream_of_it(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(ADD, "It is 3.", ADD, "It is 3.")
    done = spindle("agent", "add them", *MODEL, "--json")
    assert done.json["text"] == "It is 3."
    assert done.json["ended_by"] == "answer"
    assert done.json["usage"]["requests"] == 2
    streamed = spindle("agent", "add them", *MODEL, "--stream")
    lines = [json.loads(line) for line in streamed.out.splitlines()]
    assert [line["kind"] for line in lines if line["kind"] not in ("text", "thought")] == [
        "start", "tool_call", "tool_result", "end",
    ]  # fmt: skip
    said = [line["text"] for line in lines if line["kind"] == "text" and line["step"] == 2]
    assert len(said) > 1
    assert "".join(said) == "It is 3."


def test_settings_are_taken_from_the_file_and_the_environment(
    work: Any, spindle: Any, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = '[agent]\nmodel = "openai-chat:gpt-scripted"\ninstructions = "say please"\n'
    work.write("spindle.toml", settings + "[agent.limits]\nsteps = 1\n")
    server.feed(ADD)
    done = spindle("agent", "add them")
    assert (done.code, done.out) == (1, "let me see\n")
    assert "the limit of steps was reached" in done.err
    assert "say please" in server.requests[0].instructions
    server.feed("went on")
    run = done.err.split("--continue ")[1].split()[0]
    assert spindle("agent", "--continue", run, "go on").out == "went on\n"
    assert [item.text for item in server.requests[1].tool_answers] == ["3"]
    monkeypatch.setenv("SPINDLE_AGENT__MODEL", "anthropic:claude-scripted")
    server.feed("by another")
    assert spindle("agent", "hello").out == "by another\n"
    assert server.requests[-1].api == "anthropic"


def test_mistakes_are_one_clear_message(
    work: Any, spindle: Any, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = spindle("agent", "go")
    assert none.code == 2
    assert none.err.startswith("spindle: no model is chosen\n  hint: say `--model provider:name`")
    unknown = spindle("agent", "go", "--model", "opnai:gpt-5")
    assert "did you mean 'openai:gpt-5'?" in unknown.err
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    keyless = spindle("agent", "go", "--model", "openai:gpt-5")
    assert keyless.code == 2
    assert "the environment variable OPENAI_API_KEY is not set" in keyless.err
    work.write("spindle.toml", "[agent]\nmodle = 1\n")
    misspelt = spindle("agent", "go", *MODEL)
    assert "agent.modle: not a setting; did you mean `model`?" in misspelt.err
    work.write("spindle.toml", "agent = 1\n")
    assert "`agent` must be a table: [agent]" in spindle("agent", "go", *MODEL).err


def test_an_error_of_the_provider_has_an_exit_code(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(Failure(401, "wrong key"), Turn("never", stop="refusal"))
    refused = spindle("agent", "go", *MODEL)
    assert refused.code == 5
    assert "wrong key" in refused.err
    assert "check the provider's key" in refused.err
    assert spindle("agent", "go", *MODEL).code == 13


def test_a_pause_is_told_and_resumed(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(DELETE, "gone")
    paused = spindle("agent", "clean", *MODEL)
    assert paused.code == 75
    assert "spindle: paused: delete is called only with approval" in paused.err
    (pause,) = spindle("pauses", "--json").json
    done = spindle("resume", pause["token"], "--refuse", "not that one")
    assert (done.code, done.out) == (0, "gone\n")
    assert "not approved: not that one" in done.err
    server.feed(DELETE, "gone")
    approved = spindle("agent", "clean", *MODEL, "--yes")
    assert (approved.code, approved.out) == (0, "gone\n")
    server.feed(DELETE)
    as_json = spindle("agent", "clean", *MODEL, "--json")
    assert as_json.json["paused"]["pauses"][0]["kind"] == "approval"


def test_on_a_terminal_the_text_comes_as_it_is_said_and_people_are_asked(
    work: Any, server: ModelServer
) -> None:
    gate = Gate()
    server.feed(DELETE, Turn("It is gone now.", midway=gate))
    terminal = Terminal("agent", "clean", *MODEL)
    terminal.read_until("approve? [y/N]")
    terminal.write("y\n")
    gate.wait_reached()
    terminal.read_until("It")
    assert "gone now" not in terminal.seen
    gate.open()
    seen = terminal.read_all()
    assert "← delete: deleted x" in seen
    assert seen.count("It is gone now.") == 1
    assert terminal.process.returncode == 0


def test_a_run_is_traced(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(ADD, "It is 3.")
    spindle("agent", "add them", *MODEL)
    traced = spindle("trace")
    assert traced.code == 0
    assert [line.split(None, 1) for line in traced.out.splitlines()[1:]] == [
        ["agent:", "agent"], ["status:", "done"], ["task:", "add them"], ["1", "let me see"],
        ["1", '→ add {"a":1,"b":2}'], ["1", "← add: 3"], ["2", "It is 3."],
    ]  # fmt: skip
    assert [event["kind"] for event in spindle("trace", "--json").json["agent_events"]][-1] == "end"
    assert "(agent)" in spindle("runs").out


def test_ctrl_c_pauses_the_run(work: Any, spindle: Any, server: ModelServer) -> None:
    gate = Gate()
    server.feed(ADD, Turn("never heard", after=gate))
    process = subprocess.Popen(
        [sys.executable, "-m", "spindle", "agent", "add them", *MODEL],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        gate.wait_reached(PATIENCE * 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE * 2)
    finally:
        process.kill()
        process.wait()
        gate.open()
    assert (process.returncode, out) == (75, "")
    run = err.split("to continue: spindle resume ")[1].split()[0]
    server.feed("It is 3.")
    done = spindle("resume", run)
    assert (done.code, done.out) == (0, "It is 3.\n")
    assert len(server.requests) == 3


def test_the_task_may_come_on_stdin(work: Any, server: ModelServer, tmp_path: Path) -> None:
    server.feed("read")
    done = subprocess.run(
        [warm.SPINDLE, "agent", "-", *MODEL],
        input="from a pipe\n", capture_output=True, text=True, timeout=PATIENCE * 2, check=True,
    )  # fmt: skip
    assert done.stdout == "read\n"
    assert server.requests[0].prompt == "from a pipe"


def test_a_task_is_submitted_and_a_worker_works_on_it(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(Turn("the sum is 3"))
    done = spindle("agent", "add them", *MODEL, "--detach", "--dedup", "sum")
    run = done.out.strip()
    assert spindle("agent", "add them", *MODEL, "--detach", "--dedup", "sum").out.strip() == run
    assert server.requests == []
    spindle("worker", "--until-empty")
    (found,) = json.loads(spindle("runs", "--json").out)
    assert (found["id"], found["kind"], found["status"]) == (run, "agent", "done")
    assert len(server.requests) == 1


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d494441"
    "54789c6360000000020001e221bc330000000049454e44ae426082"
)


def test_a_thread_goes_on_in_the_next_command(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed("Hello Ann.", "You are Ann.", "I do not know.")
    assert spindle("agent", "I am Ann.", *MODEL, "--thread", "desk").out == "Hello Ann.\n"
    assert spindle("agent", "Who am I?", *MODEL, "--thread", "desk").out == "You are Ann.\n"
    assert spindle("agent", "Who am I?", *MODEL, "--thread", "other").code == 0
    first, second, other = (json.dumps(request.messages) for request in server.requests)
    assert "Who am I?" not in first
    assert "I am Ann." in second
    assert "Hello Ann." in second
    assert "I am Ann." not in other


def test_files_are_given_with_the_task(work: Any, spindle: Any, server: ModelServer) -> None:
    (work.root / "dot.png").write_bytes(PIXEL)
    (work.root / "list.csv").write_text("name\nann\n")
    server.feed("A dot and a name.")
    done = spindle("agent", "Look.", *MODEL, "--file", "dot.png", "-f", "list.csv")
    assert (done.code, done.out) == (0, "A dot and a name.\n")
    sent = json.dumps(server.requests[0].messages)
    assert "data:image/png;base64,iVBOR" in sent
    assert "name\\nann" in sent


def test_a_file_that_is_not_there_and_files_of_a_continued_run_are_mistakes(
    work: Any, spindle: Any, server: ModelServer
) -> None:
    done = spindle("agent", "Look.", *MODEL, "--file", "none.png")
    assert done.code != 0
    assert "none.png" in done.err
    done = spindle("agent", "Look.", *MODEL, "--continue", "x", "--thread", "desk")
    assert done.code == 2
    assert "give neither --thread nor --file" in done.err
    assert server.requests == []
