"""Flows out of words, by a scripted model over real HTTP, with tools of Python and of a real MCP server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.running import program
from spindle.domain.tool import ToolSpec
from spindle.drafting.finding import saved_for
from spindle.drafting.fitting import fit
from spindle.drafting.prompt import json_in
from spindle.errors import ConfigurationError, InvalidArgumentsError, ModelError, NotFoundError
from spindle.flows.definition import FlowDefinition, NodeDefinition
from spindle.flows.text.files import write
from spindle.runs.outcomes import Finished
from spindle.testing import Failure, ModelServer, ToolCall, Turn

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

@tool(read_only=True)
def count(words: list[str]) -> int:
    """Count words."""
    return len(words)
'''

FLOW: dict[str, Any] = {
    "version": 1,
    "name": "send_note",
    "description": "Read a note and send it to a channel.",
    "inputs": {
        "file": {"type": "string", "description": "of the note", "default": "plan.txt"},
        "channel": {"type": "string", "default": "dev"},
    },
    "nodes": [
        {"id": "read", "tool": "read_note", "params": {"file": "${file}"}},
        {"id": "tell", "tool": "send", "params": {"text": "${read}", "channel": "${channel}"}},
    ],
    "edges": [{"from": "read", "to": "tell"}],
    "outputs": {"sent": "${tell}"},
}
WORDS = "read the note plan.txt and send it to the channel dev"


def changed(**changes: Any) -> dict[str, Any]:
    return {**FLOW, **changes}


def node(index: int, **changes: Any) -> list[dict[str, Any]]:
    return [{**item, **changes} if index == at else item for at, item in enumerate(FLOW["nodes"])]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    (root / "tools").mkdir(parents=True)
    (root / "flows").mkdir()
    (root / "spindle.toml").write_text("")
    (root / "tools" / "notes.py").write_text(TOOLS)
    return root


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.mark.parametrize("model", ["openai-chat:any", "openai:any", "anthropic:any"])
async def test_a_flow_is_written_checked_and_can_be_run(
    workspace: Path, server: ModelServer, model: str
) -> None:
    server.feed(json.dumps(FLOW, indent=2))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(WORDS, model=model)
        assert draft.definition.name == "send_note"
        assert (draft.from_saved, draft.problems, draft.missing) == (None, (), ())
        assert set(draft.tools) == {"read_note", "send", "count"}
        assert draft.usage.requests == 1
        done = await app.run_flow(draft.definition, draft.inputs)
        assert isinstance(done, Finished)
        assert done.result.structured == {"sent": "dev: the text of plan.txt"}
    (request,) = server.requests
    assert request.prompt == WORDS
    assert "send: Send a message to a channel.\n\nReads:\n    text (string)" in request.instructions
    assert "urn:spindle:flow:1" in request.instructions
    assert request.tool_names == []


async def test_problems_go_back_to_the_model_as_they_are_with_their_lines(
    workspace: Path, server: ModelServer
) -> None:
    misspelt = changed(nodes=[{**FLOW["nodes"][0], "params": {}}, {**FLOW["nodes"][1], "tool": "sennd"}])
    del misspelt["inputs"]
    server.feed(json.dumps(misspelt, indent=2), json.dumps(FLOW))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(WORDS, model="openai-chat:any")
    assert draft.definition.node("tell").tool == "send"  # type: ignore[union-attr]
    assert draft.usage.requests == 2
    told = server.requests[1].prompt
    lines = json.dumps(misspelt, indent=2).splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "sennd" in text)
    assert f"- error: line {line}: tell: there is no tool 'sennd' (did you mean 'send'?)" in told
    assert "`file` is missing" in told
    assert "Tools that may be meant:\n\nsend: Send a message" in told


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("I would rather talk about it.", "There is no JSON object in your answer"),
        (Turn(), "Your answer was empty"),
        (Turn('{"nodes": [', stop="length"), "cut off at the limit of tokens"),
        ('{"nodes": [,]}', "this is not JSON"),
        ('{"nodes": []}', "error: line 1: "),
        ('{"nodes": [{"id": "a", "tol": "send"}]}', "has no key 'tol'"),
        ("[1, 2]", "There is no JSON object"),
        ('{"nodes": "x", "nodes": "y"}', "appears a second time"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "The flow does not work"),
        (Turn(calls=[ToolCall("send", {"text": "x"})]), "Your answer was empty"),
    ],
)
async def test_an_answer_that_is_no_flow_is_repaired(
    workspace: Path, server: ModelServer, first: Any, told: str
) -> None:
    server.feed(first, f"Here it is:\n```json\n{json.dumps(FLOW, indent=2)}\n```\nAnything else?")
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(WORDS, model="openai-chat:any")
    assert draft.definition.name == "send_note"
    assert told in server.requests[1].prompt


async def test_a_model_that_never_gets_it_right_ends_in_one_error(
    workspace: Path, server: ModelServer
) -> None:
    wrong = json.dumps(changed(nodes=node(1, tool="teleport")))
    server.feed(*[wrong] * 9)
    async with spindle.open(workspace) as app:
        with pytest.raises(
            ModelError, match=r"wrote no flow that works .*'teleport'.*, 4 times in a row"
        ) as bad:
            await app.draft_flow(WORDS, model="openai-chat:any")
        assert any("teleport" in problem["message"] for problem in bad.value.details)
        assert len(server.requests) == 4
        with pytest.raises(ModelError, match="2 times in a row"):
            await app.draft_flow(WORDS, model="openai-chat:any", limits={"repairs": 1})
        with pytest.raises(ModelError, match="the limit of steps was reached"):
            await app.draft_flow(WORDS, model="openai-chat:any", limits={"steps": 1})
        with pytest.raises(ModelError, match="the limit of tokens was reached"):
            await app.draft_flow(WORDS, model="openai-chat:any", limits={"tokens": 1})


async def test_refusals_and_errors_of_the_provider_are_told(workspace: Path, server: ModelServer) -> None:
    server.feed(
        Turn("I will not", stop="refusal"),
        Turn(stop="content_filter"),
        Failure(401, "wrong key"),
        '{"impossible": "nothing here paints"}',
    )
    async with spindle.open(workspace) as app:
        with pytest.raises(ModelError, match="the model refused: I will not"):
            await app.draft_flow(WORDS, model="openai-chat:any")
        with pytest.raises(ModelError, match="filter stopped"):
            await app.draft_flow(WORDS, model="openai-chat:any")
        with pytest.raises(spindle.SpindleError, match="wrong key"):
            await app.draft_flow(WORDS, model="openai-chat:any")
        with pytest.raises(ModelError, match="the tools cannot do this: nothing here paints"):
            await app.draft_flow("paint the fence", model="openai-chat:any")


async def test_without_words_tools_or_a_model_nobody_is_asked(
    workspace: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spindle.open(workspace) as app:
        with pytest.raises(InvalidArgumentsError, match="the request is empty"):
            await app.draft_flow("  ", model="openai-chat:any")
        with pytest.raises(ConfigurationError, match="no model is chosen"):
            await app.draft_flow(WORDS)
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.delenv("OPENAI_BASE_URL")
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
            await app.draft_flow(WORDS, model="openai:gpt-5")
    (workspace / "tools" / "notes.py").unlink()
    async with spindle.open(workspace) as app:
        with pytest.raises(NotFoundError, match="no tool matches"):
            await app.draft_flow(WORDS, model="anthropic:any")
    assert server.requests == []


async def test_only_the_tools_of_the_settings_are_used(workspace: Path, server: ModelServer) -> None:
    (workspace / "spindle.toml").write_text(
        '[agent]\nmodel = "openai-chat:any"\ntools = ["read_*"]\ninstructions = "be kind"\n'
    )
    only = changed(nodes=FLOW["nodes"][:1], edges=[], outputs={"text": "${read}"})
    server.feed(json.dumps(FLOW), json.dumps(only))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(WORDS)
    assert draft.tools == ("read_note",)
    assert "there is no tool 'send'" in server.requests[1].prompt
    assert "Send a message" not in server.requests[1].instructions
    assert "be kind" in server.requests[0].instructions


async def test_of_many_tools_those_are_shown_that_each_part_of_the_words_is_about(
    workspace: Path, server: ModelServer
) -> None:
    many = "".join(
        f'@tool\ndef note_{index}(x: str):\n    """Read a note from its file {index}."""\n    return x\n'
        for index in range(30)
    )
    (workspace / "tools" / "notes.py").write_text(TOOLS + many)
    server.feed(json.dumps(FLOW))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(
            "read a note from its file, then send a message", model="openai-chat:any", limits={"tools": 6}
        )
    assert len(draft.tools) == 6
    assert "send" in draft.tools
    assert len([name for name in draft.tools if "note" in name]) >= 3


@pytest.mark.npm
async def test_tools_of_an_mcp_server_are_joined_with_those_of_python(
    workspace: Path, server: ModelServer
) -> None:
    command = json.dumps([program("mcp-server-filesystem"), str(workspace)])
    (workspace / "spindle.toml").write_text(f"[sources.fs]\ncommand = {command}\n")
    (workspace / "plan.txt").write_text("paint the fence")
    joined = {
        "nodes": [
            {"id": "read", "tool": "fs.read_text_file", "params": {"path": "${path}"}},
            {"id": "tell", "tool": "send", "params": {"text": "to do: ${read.content}"}},
        ],
        "inputs": {"path": {"type": "string", "default": str(workspace / "plan.txt")}},
        "edges": [{"from": "read", "to": "tell"}],
    }
    server.feed(json.dumps(joined))
    async with spindle.open(workspace) as app:  # its server is asked for tools because of the words
        draft = await app.draft_flow("read the file plan.txt, then send it", model="openai-chat:any")
        assert "fs.read_text_file" in draft.tools
        assert draft.definition.description == "read the file plan.txt, then send it"
        done = await app.run_flow(draft.definition, draft.inputs)
        assert isinstance(done, Finished)
        assert done.result.text == "notes: to do: paint the fence"
    assert "fs.read_text_file: Read the complete contents" in server.requests[0].instructions


# --- saved flows


def save(workspace: Path, document: dict[str, Any]) -> None:
    (workspace / "flows" / f"{document['name']}.json").write_text(json.dumps(document))


async def test_a_saved_flow_that_fits_is_taken_and_its_inputs_are_in_the_words(
    workspace: Path, server: ModelServer
) -> None:
    save(workspace, FLOW)
    server.feed('{"file": 7}', '{"file": "shop.txt"}')
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow("send the note shop.txt to its channel", model="openai-chat:any")
        assert draft.from_saved == "flows/send_note.json"
        assert draft.inputs == {"file": "shop.txt"}
        done = await app.run_flow(draft.definition, draft.inputs)
        assert isinstance(done, Finished)
        assert done.result.structured == {"sent": "dev: the text of shop.txt"}
    assert "Take the values for the inputs" in server.requests[0].instructions
    assert "file: " in server.requests[1].prompt
    assert "string" in server.requests[1].prompt


def test_the_blocking_form_does_the_same(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(json.dumps(FLOW)) as model, spindle.open(workspace) as app:
        for name, value in model.environment().items():
            monkeypatch.setenv(name, value)
        draft = app.draft_flow(WORDS, model="openai-chat:any")
        done = app.run_flow(draft.definition, draft.inputs)
        assert isinstance(done, Finished)
        assert done.result.structured == {"sent": "dev: the text of plan.txt"}


async def test_a_saved_flow_needs_no_model(workspace: Path, server: ModelServer) -> None:
    save(workspace, changed(inputs={"file": {"type": "string"}, "channel": {"type": "string"}}))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(WORDS)
        assert draft.missing == ("file", "channel")
        draft = await app.draft_flow(WORDS, inputs={"file": "a", "channel": "b"}, model="openai-chat:any")
        assert draft.missing == ()
        with pytest.raises(InvalidArgumentsError, match="no input 'fil'") as mistyped:
            await app.draft_flow(WORDS, inputs={"fil": "a"})
        assert mistyped.value.hint == "did you mean 'file'?"
    assert server.requests == []


async def test_a_saved_flow_that_does_less_or_is_not_wanted_is_passed_over(
    workspace: Path, server: ModelServer
) -> None:
    save(workspace, changed(name="read_it", description="Read a note."))
    server.feed(json.dumps(FLOW))
    async with spindle.open(workspace) as app:
        draft = await app.draft_flow(
            "read a note, count its words and send the number to a channel", model="openai-chat:any"
        )
        assert draft.from_saved is None
        save(workspace, FLOW)
        server.feed(json.dumps(FLOW))
        assert (await app.draft_flow(WORDS, model="openai-chat:any", reuse=False)).from_saved is None


async def test_a_saved_flow_that_no_longer_works_is_told_of(workspace: Path, server: ModelServer) -> None:
    save(workspace, changed(nodes=node(1, tool="gone")))
    server.feed(json.dumps(FLOW))
    notes: list[str] = []
    async with spindle.open(workspace, note=notes.append) as app:
        draft = await app.draft_flow(WORDS, model="openai-chat:any")
    assert draft.from_saved is None
    (note,) = [note for note in notes if "no longer works" in note]
    assert "send_note" in note
    assert "there is no tool 'gone'" in note


def test_a_flow_is_saved_such_that_the_same_words_find_it() -> None:
    flow = FlowDefinition((NodeDefinition("a", "send"),), name="x", description="Does something.")
    saved = saved_for("tell the team what is left to do", flow)
    assert saved.description == "Does something.\n\nFor: tell the team what is left to do"
    assert saved_for("tell the team what is left to do", saved) == saved
    assert "For: " in write(saved)


def test_how_far_words_fit_a_tool() -> None:
    spec = ToolSpec("send_note", "Read a note and send it to a channel.", {"type": "object"})
    tool = spindle.Tool("send_note", "flows", "flows", spec, spec.fingerprint)
    assert fit("send_note", tool) == 1.0
    assert fit("please send the notes 'my plan.txt' and shop.txt", tool) == 1.0
    assert fit("send", tool) == 1.0
    assert fit("send the invoices of last month by mail", tool) == 0.0
    assert fit("", tool) == 0.0
    assert fit("42", tool) == 0.0


def test_json_is_found_in_prose() -> None:
    assert json_in('{"a": {"b": 1}}') == '{"a": {"b": 1}}'
    assert json_in('Sure! {"a": 1} Done.') == '{"a": 1}'
    assert json_in('```\n{"a": "}"}\n```') == '{"a": "}"}'
    assert json_in('```py\nx\n```\n```json\n{"a": 1}\n```') == '{"a": 1}'
