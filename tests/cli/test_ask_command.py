"""`spindle ask`: words to a flow from the shell, with a scripted model over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cli.test_terminal import Terminal
from spindle.testing import ModelServer, Turn

TOOLS = '''
from spindle import tool

@tool(read_only=True)
def read_note(file: str) -> str:
    """Read a note from its file."""
    return f"the text of {file}"

@tool
def send(text: str, channel: str = "notes") -> str:
    """Send a message to a channel."""
    return f"{channel}: {text}"

@tool(destructive=True)
def delete(file: str) -> str:
    """Delete a file."""
    return f"deleted {file}"
'''

FLOW: dict[str, Any] = {
    "name": "send_note",
    "description": "Read a note and send it to a channel.",
    "inputs": {"file": {"type": "string", "description": "of the note", "default": "plan.txt"}},
    "nodes": [
        {"id": "read", "tool": "read_note", "params": {"file": "${file}"}},
        {"id": "tell", "tool": "send", "params": {"text": "${read}"}},
    ],
    "edges": [{"from": "read", "to": "tell"}],
}
MISSPELT = {**FLOW, "nodes": [FLOW["nodes"][0], {"id": "tell", "tool": "sent"}]}
WORDS = "send the note plan.txt to the channel"
SENT = "notes: the text of plan.txt"
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
    return workspace


def test_a_flow_is_repaired_shown_saved_run_and_found_again(
    work: Any, program: Any, server: ModelServer
) -> None:
    server.feed(json.dumps(MISSPELT, indent=1), json.dumps(FLOW))
    done = program("ask", WORDS, *MODEL, "--yes", "--save", "tell", "--draw", "flow.svg")
    assert (done.code, done.out) == (0, f"{SENT}\n"), done.err
    assert "note: the model wrote this flow" in done.err
    assert "tell  send" in done.err
    assert "✓ read" in done.err
    assert "saved tell in flows/tell.json" in done.err
    assert "there is no tool 'sent' (did you mean 'send'?)" in server.requests[1].prompt
    assert (work.root / "flow.svg").read_text().startswith("<svg")
    saved = json.loads((work.root / "flows" / "tell.json").read_text())
    assert saved["name"] == "tell"
    assert all("fingerprint" in node for node in saved["nodes"])

    server.feed('{"file": "shop.txt"}')
    again = program("ask", "send the note shop.txt to the channel", *MODEL, "--yes")
    assert (again.code, again.out) == (0, "notes: the text of shop.txt\n"), again.err
    assert "the saved flow tell fits" in again.err
    assert 'with file = "shop.txt"' in again.err
    without = program("ask", WORDS, "--yes", "-q", "--input", "file=a.txt")
    assert (without.code, without.out, without.err) == (0, "notes: the text of a.txt\n", "")
    assert len(server.requests) == 3
    server.feed(json.dumps(FLOW))
    new = program("ask", WORDS, *MODEL, "--yes", "--new")
    assert "the model wrote this flow" in new.err


def test_without_a_terminal_it_is_only_shown(work: Any, program: Any, server: ModelServer) -> None:
    server.feed(json.dumps(FLOW), json.dumps(FLOW))
    shown = program("ask", WORDS, *MODEL)
    assert shown.code == 75
    assert "send_note" in shown.out
    assert "Nodes:" in shown.out
    assert (
        "spindle: nothing was run\n  to continue: repeat the command with --yes, or with --save NAME"
        in shown.err
    )
    saved = program("ask", WORDS, *MODEL, "--save", "tell")
    assert saved.code == 0
    assert "  to run it: spindle run tell" in saved.err
    assert program("run", "-q", "tell").out == f"{SENT}\n"
    found = program("ask", WORDS)
    assert found.code == 75
    assert "  to run it: spindle run tell" in found.err


def test_as_json(work: Any, program: Any, server: ModelServer) -> None:
    server.feed(json.dumps(FLOW), json.dumps(FLOW), "no", "no", "no", "no")
    drafted = program("ask", WORDS, *MODEL, "--json")
    assert drafted.code == 75
    assert [node["id"] for node in drafted.json["flow"]["nodes"]] == ["read", "tell"]
    assert drafted.json["picture"].startswith("flowchart TD")
    assert (drafted.json["from_saved"], drafted.json["result"]) == (None, None)
    ran = program("ask", WORDS, *MODEL, "--json", "--yes", "--save", "tell")
    assert ran.code == 0
    assert ran.json["result"]["content"][0]["text"] == SENT
    assert ran.json["saved_as"] == "tell"
    assert ran.json["usage"]["requests"] == 1
    trace = program("trace", ran.json["run_id"], "--json")
    assert trace.code == 0
    failed = program("ask", "something else entirely", *MODEL, "--json")
    assert failed.code == 13
    assert failed.json["error"]["category"] == "model"
    assert "did not answer with JSON, 4 times in a row" in failed.json["error"]["message"]


def test_mistakes_are_one_clear_message(
    work: Any, spindle: Any, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = spindle("ask", WORDS)
    assert none.code == 2
    assert none.err.startswith("spindle: no model is chosen\n  hint: say `--model provider:name`")
    bad_name = spindle("ask", WORDS, *MODEL, "--save", "a b")
    assert (bad_name.code, server.requests) == (2, [])
    assert "'a b' cannot be the name of a flow" in bad_name.err
    taken = spindle("ask", WORDS, *MODEL, "--save", "send")
    assert "there is already a tool 'send'" in taken.err
    needs = {**FLOW, "inputs": {"file": {"type": "string"}}}
    server.feed(json.dumps(needs), "{}")
    missing = spindle("ask", WORDS, *MODEL, "--yes")
    assert missing.code == 4
    assert "send_note needs the input 'file'\n  hint: give --input file=VALUE" in missing.err
    server.feed(json.dumps(needs))
    unknown = spindle("ask", WORDS, *MODEL, "--yes", "--input", "fle=x")
    assert unknown.code == 4
    assert "did you mean 'file'?" in unknown.err
    server.feed(json.dumps(needs))
    assert "--input file: a value is missing" in spindle("ask", WORDS, *MODEL, "--input", "file").err
    server.feed(Turn("never", stop="refusal"))
    assert spindle("ask", WORDS, *MODEL).code == 13
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    keyless = spindle("ask", WORDS, "--model", "openai:gpt-5")
    assert keyless.code == 2
    assert "the environment variable OPENAI_API_KEY is not set" in keyless.err


def test_what_may_destroy_is_said(work: Any, spindle: Any, server: ModelServer) -> None:
    server.feed(json.dumps({"nodes": [{"id": "a", "tool": "delete", "params": {"file": "x"}}]}))
    assert "note: delete may destroy something" in spindle("ask", "delete x", *MODEL).err


def test_at_a_terminal_it_is_accepted_and_saved(work: Any, server: ModelServer) -> None:
    server.feed(
        json.dumps({**FLOW, "inputs": {"file": {"type": "string"}, "copies": {"type": "integer"}}}), "{}"
    )
    terminal = Terminal("ask", "send my note", *MODEL)
    terminal.read_until("run it? [y]es, [n]o, [e]dit the words: ")
    terminal.write("y\n")
    terminal.read_until("file: ")
    terminal.write("b.txt\n")
    terminal.read_until("copies: ")
    terminal.write("many\n")
    terminal.read_until("integer")
    terminal.write("2\n")
    terminal.read_until("save it as (Enter to skip): ")
    assert "notes: the text of b.txt" in terminal.seen
    terminal.write("send\n")
    terminal.read_until("there is already a tool 'send'")
    terminal.write("tell\n")
    terminal.read_all()
    assert terminal.process.returncode == 0
    assert (work.root / "flows" / "tell.json").is_file()


def test_at_a_terminal_the_words_are_changed_or_a_saved_flow_is_not_wanted(
    work: Any, server: ModelServer
) -> None:
    greeting = [{"id": "tell", "tool": "send", "params": {"text": "hi"}}]
    work.write("flows/send_note.json", json.dumps({"description": FLOW["description"], "nodes": greeting}))
    # It is asked if the saved flow fits, and answers once with values for inputs that the flow does not have.
    server.feed('{"file": "x"}', "{}", json.dumps(FLOW), json.dumps({**FLOW, "name": "other"}))
    terminal = Terminal("ask", WORDS, *MODEL)
    terminal.read_until("[d]raft a new one: ")
    assert "with file" not in terminal.seen
    assert "the saved flow send_note fits" in terminal.seen
    terminal.write("d\n")
    terminal.read_until("the model wrote this flow")
    terminal.read_until("[e]dit the words: ")
    terminal.write("e\n")
    terminal.read_until("words: ")
    terminal.write("read it aloud\n")
    terminal.read_until("other")
    terminal.read_until("[e]dit the words: ")
    terminal.write("n\n")
    seen = terminal.read_all()
    assert "nothing was run" in seen
    assert terminal.process.returncode == 0
    assert [request.prompt for request in server.requests][-2:] == [WORDS, "read it aloud"]
    assert len(server.requests) == 4


# --- a saved flow that does something else


@pytest.fixture
def saved(work: Any) -> Any:
    work.write("flows/send_note.json", json.dumps(FLOW))
    return work


@pytest.mark.parametrize(
    "words",
    [
        "never send the note to the channel",
        "delete the note plan.txt and send it to the channel",
        "send the note to the channel without reading it",
    ],
)
def test_a_flow_that_does_something_else_is_not_run(saved: Any, spindle: Any, words: str) -> None:
    done = spindle("ask", words, "--yes")
    assert done.code != 0
    assert done.out == ""
    assert "the saved flow send_note is not used" in done.err


def test_a_flow_that_fits_in_part_is_refused_with_yes(saved: Any, spindle: Any) -> None:
    done = spindle("ask", "send the note other.txt to the channel ops", "--yes")
    assert (done.code, done.out) == (12, "")
    assert "fits in part: it is not known what becomes of 'other.txt', 'ops'" in done.err
    assert "spindle run send_note --file=…" in done.err


def test_a_value_with_one_meaning_is_bound(saved: Any, spindle: Any) -> None:
    done = spindle("ask", "send the note other.txt to the channel", "--yes", "-q")
    assert (done.code, done.out) == (0, "notes: the text of other.txt\n")


def test_a_model_judges_whether_a_flow_fits(saved: Any, spindle: Any, server: ModelServer) -> None:
    other = {**FLOW, "name": "send_twice", "inputs": {}, "nodes": [
        {"id": "read", "tool": "read_note", "params": {"file": "other.txt"}},
        {"id": "tell", "tool": "send", "params": {"text": "${read}", "channel": "ops"}},
    ]}  # fmt: skip
    server.feed('{"other_flow": "it has one channel"}', json.dumps(other))
    done = spindle("ask", "send the note other.txt to the channel ops", *MODEL, "--yes", "-q")
    assert (done.code, done.out) == (0, "ops: the text of other.txt\n")
    assert "the saved flow send_note is not used: it has one channel" in done.err
