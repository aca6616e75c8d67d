"""Models and agents as nodes of flows, with a scripted model over real HTTP."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, Paused, SpindleError
from spindle.errors import ConfigurationError, ModelError
from spindle.flows import AgentNode, Flow, ModelNode, ToolNode
from spindle.flows.build import definition_of
from spindle.flows.text.document import from_document
from spindle.flows.text.writing import to_document
from spindle.testing import Gate, ModelServer, ToolCall, Turn, Usage

MODEL = "openai-chat:any"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SPINDLE_AGENT__MODEL", MODEL)
        yield found


def document(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    ids = [node["id"] for node in nodes]
    edges = [{"from": a, "to": b} for a, b in itertools.pairwise(ids)]
    return {"version": 1, "nodes": list(nodes), "edges": edges, **more}


async def result_of(opened: OpenFlows, given: dict[str, Any], **inputs: Any) -> Any:
    async with opened() as app:
        outcome = await app.run_flow(from_document(given), inputs)
        assert isinstance(outcome, Finished)
        return outcome.result.value


async def test_a_model_answers_a_prompt_made_of_templates(opened: OpenFlows, server: ModelServer) -> None:
    server.feed("Short.")
    ask = {"id": "gist", "model": {"prompt": "Shorten: ${text}", "system": "For ${who}."}}
    shout = {"id": "shout", "tool": "upper", "params": {"text": "${gist}"}}
    assert await result_of(opened, document(ask, shout), text="a long one", who="Ann") == "SHORT."
    (request,) = server.requests
    assert request.prompt == "Shorten: a long one"
    assert request.instructions == "For Ann."
    assert request.tools == []


async def test_an_answer_that_does_not_fit_its_schema_is_repaired_once(
    opened: OpenFlows, server: ModelServer
) -> None:
    wrong, right = ToolCall("final_answer", {"n": "many"}), ToolCall("final_answer", {"n": 3})
    server.feed(Turn(calls=[wrong]), Turn(calls=[right]))
    count = {"id": "count", "model": {"prompt": "How many?", "schema": NUMBER}}
    add = {"id": "add", "tool": "add", "params": {"a": "${count.n}"}}
    assert await result_of(opened, document(count, add)) == 4
    assert "n" in server.requests[1].tool_answers[0].text

    server.feed(Turn(calls=[wrong]), Turn(calls=[wrong]))
    with pytest.raises(ModelError, match="2 times in a row"):
        await result_of(opened, document(count))


async def test_a_model_that_fails_takes_the_edge_of_its_error(opened: OpenFlows, server: ModelServer) -> None:
    server.feed("", "")
    ask = {"id": "gist", "model": "Say something."}
    after = {"id": "after", "tool": "upper", "params": {"text": "${gist.error.category}"}}
    given = document(ask, after)
    given["edges"] = [{"from": "gist", "action": "error", "to": "after"}]
    assert await result_of(opened, given) == "MODEL"


async def test_what_models_use_is_recorded_and_can_be_read(opened: OpenFlows, server: ModelServer) -> None:
    server.feed(Turn("one", usage=Usage(10, 5)), Turn("two", usage=Usage(20, 6)))
    each = {"id": "each", "model": "Say ${item}", "batch": {"over": ["1", "2"], "concurrency": 1}}
    keep = {"id": "keep", "tool": "same", "params": {"value": "${each.usage.input_tokens}"}}
    async with opened() as app:
        outcome = await app.run_flow(from_document(document(each, keep)))
        assert isinstance(outcome, Finished)
        assert outcome.result.value == {"value": 30}
        _, _, events = await app.flows.trace(outcome.run_id)
    assert events[0].output == ["one", "two"]
    assert events[0].usage is not None
    assert (events[0].usage["requests"], events[0].usage["output_tokens"]) == (2, 11)


async def test_a_limit_ends_it_as_a_failure_not_as_half_an_answer(
    opened: OpenFlows, server: ModelServer
) -> None:
    server.feed(Turn(calls=[ToolCall("upper", {"text": "a"})]))
    work = {"id": "work", "agent": {"task": "Shout.", "tools": ["*upper"], "limits": {"steps": 1}}}
    with pytest.raises(ModelError, match="the agent reached the limit `steps`"):
        await result_of(opened, document(work))


async def test_an_agent_works_with_the_tools_that_the_node_names(
    opened: OpenFlows, server: ModelServer
) -> None:
    server.feed(Turn(calls=[ToolCall("upper", {"text": "a"})]), "It is A.")
    work = {"id": "work", "agent": {"task": "Shout ${word}.", "tools": ["*upper"]}}
    assert await result_of(opened, document(work), word="a") == "It is A."
    assert server.requests[0].tool_names == ["upper", "ask_user"]


async def test_a_pause_of_an_agent_pauses_the_flow_and_goes_on_there(
    opened: OpenFlows, server: ModelServer
) -> None:
    server.feed(Turn(calls=[ToolCall("upper", {"text": "a"})]), "It is A.")
    first = {"id": "first", "tool": "upper", "params": {"text": "${word}"}}
    task = {"task": "Shout ${first}.", "tools": ["*upper"], "approve": ["*upper"]}
    given = document(first, {"id": "work", "agent": task})
    async with opened() as app:
        paused = await app.run_flow(from_document(given), {"word": "a"})
        assert isinstance(paused, Paused)
        (pause,) = paused.pauses
        assert (pause.kind, pause.details["arguments"]) == ("approval", {"text": "a"})
    async with opened() as app:  # as another process would
        done = await app.resume(pause.token, {"approved": True})
        assert isinstance(done, Finished)
        assert done.result.value == "It is A."
        _, _, events = await app.flows.trace(done.run_id)
    assert [event.node for event in events] == ["first", "work"]
    assert len(server.requests) == 2  # the first answer was not paid for twice
    assert server.requests[1].tool_answers[0].text == "A"


async def test_a_flow_with_a_model_is_a_tool_like_any_other(
    opened: OpenFlows, server: ModelServer, tmp_path: Any
) -> None:
    server.feed("Short.")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "summarize-text.yaml").write_text(
        "inputs: {text: {type: string}}\nnodes:\n- {id: gist, model: 'Summarize: ${text}'}\n"
    )
    async with opened() as app:
        await app.sync()
        assert (await app.call("summarize-text", text="long")).text == "Short."
        server.feed("Shorter.")
        done = await app.run_flow("upper --text=loud >> summarize-text >> upper")
        assert isinstance(done, Finished)
        assert done.result.value == "SHORTER."
        assert server.requests[1].prompt == "Summarize: LOUD"


async def test_a_line_summarizes_with_the_model_of_the_settings_alone(
    opened: OpenFlows, server: ModelServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`summarize-text` needs one line of settings: that of the model."""
    monkeypatch.delenv("SPINDLE_AGENT__MODEL")
    async with opened() as app:
        with pytest.raises(ConfigurationError, match="no model is chosen"):
            await app.run_flow("upper --text=loud >> summarize-text >> upper")
        assert await app.history() == []
    with (tmp_path / "spindle.toml").open("a") as settings:
        settings.write('\n[agent]\nmodel = "openai:any"\n')
    server.feed("Short.", "Shorter.")
    async with opened() as app:
        done = await app.run_flow("upper --text=loud >> summarize-text >> upper")
        assert isinstance(done, Finished)
        assert done.result.value == "SHORT."
        assert server.requests[0].prompt == "LOUD"
        assert "Summarize what you are given" in server.requests[0].instructions
        _, _, events = await app.flows.trace(done.run_id)
        assert [event.node for event in events][1:3] == ["summarize-text/summary", "summarize-text"]
        alone = await app.run_flow("summarize-text", {"stdin": "long"})
        assert isinstance(alone, Finished)
        assert alone.result.value == "Shorter."
        # It is no tool: nobody who is served the catalog asks the owner's model.
        assert not [tool for tool in await app.tools() if "summarize" in tool.name]


async def test_a_tool_of_the_same_name_is_taken_before_a_known_step(
    opened: OpenFlows, server: ModelServer, tmp_path: Any
) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "summarize-text.yaml").write_text(
        "inputs: {text: {type: string}}\nnodes:\n- {id: own, transform: {gist: '${first(text, 2)}'}}\n"
    )
    async with opened() as app:
        await app.sync()
        done = await app.run_flow("upper --text=loud >> summarize-text")
        assert isinstance(done, Finished)
        assert done.result.value == {"gist": "LO"}
    assert server.requests == []


async def test_a_model_that_is_not_there_is_said_before_anything_runs(
    opened: OpenFlows, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPINDLE_AGENT__MODEL")
    first = {"id": "first", "tool": "upper", "params": {"text": "a"}}
    for asked in ({"prompt": "x"}, {"prompt": "x", "model": "nobody:any"}):
        async with opened() as app:
            with pytest.raises(ConfigurationError, match="node 'gist'"):
                await app.run_flow(from_document(document(first, {"id": "gist", "model": asked})))
            assert await app.history() == []
    del server


async def test_a_time_limit_ends_the_wait_for_a_model(opened: OpenFlows, server: ModelServer) -> None:
    server.feed(Turn("too late", after=Gate()))
    given = document({"id": "gist", "model": "Hello", "timeout": 0.2})
    with pytest.raises(SpindleError, match="did not finish within"):
        await result_of(opened, given)


async def test_nodes_of_python_are_the_same_as_those_of_files() -> None:
    gist = ModelNode("Say ${x}", id="gist", schema=NUMBER, limits={"cost": 0.1})
    work = AgentNode("Do ${gist}", ["a.*"], id="work", approve=["a.b"], ask_user=False, timeout=3)
    gist >> work >> ToolNode("upper", params={"text": "${work}"})
    definition = definition_of(Flow(gist))
    assert from_document(to_document(definition)) == definition
