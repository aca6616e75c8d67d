"""What is kept of a run: gone on from, forked, shown again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelRequest as Message
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models import Model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import spindle
from spindle import Agent, AgentResult, Principal
from spindle.adapters.state_store import StateStoreOf
from spindle.agents.events import sse
from spindle.errors import ConfigurationError, ModelError, NotFoundError, PermissionDeniedError
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn, workspace


def add(a: int, b: int) -> int:
    return a + b


def long() -> str:
    return "x" * 300 + "the end"


THREE = (
    Turn("first", [ToolCall("add", {"a": 1, "b": 1})]),
    Turn("second", [ToolCall("add", {"a": 2, "b": 2})]),
    "third",
)


async def test_a_run_is_gone_on_from_with_a_new_message(server: ModelServer, any_model: Model) -> None:
    server.feed(*THREE, "fourth")
    async with workspace([add]) as app:
        agent = Agent(app, any_model)
        done = await agent.run("count")
        assert isinstance(done, AgentResult)
        more = await agent.continue_run(done.run_id, "and then?")
        assert isinstance(more, AgentResult)
        assert more.output == "fourth"
        assert more.run_id != done.run_id
    assert server.requests[3].prompt == "and then?"
    assert [item.text for item in server.requests[3].tool_answers] == ["2", "4"]
    assert len(server.requests[3].messages) > len(server.requests[2].messages)


async def test_a_run_is_forked_from_a_step(server: ModelServer, any_model: Model) -> None:
    server.feed(*THREE, "another way", "the same way")
    async with workspace([add]) as app:
        agent = Agent(app, any_model)
        done = await agent.run("count")
        assert isinstance(done, AgentResult)
        await agent.fork(done.run_id, 1, "stop there")
        assert [item.text for item in server.requests[3].tool_answers] == ["2"]
        assert server.requests[3].prompt == "stop there"
        await agent.fork(done.run_id, 2)
        assert [item.text for item in server.requests[4].tool_answers] == ["2", "4"]
        with pytest.raises(ConfigurationError, match="ended with an answer"):
            await agent.fork(done.run_id, 3)
        with pytest.raises(NotFoundError, match="has no step 4") as unknown:
            await agent.fork(done.run_id, 4)
        assert unknown.value.hint == "it has steps 1 to 3"
        with pytest.raises(NotFoundError, match="there is no run"):
            await agent.continue_run("nothing", "go")
        with pytest.raises(PermissionDeniedError, match="does not belong to 'ben'"):
            await agent.continue_run(done.run_id, "go", principal=Principal("ben"))


async def test_a_run_that_failed_can_be_gone_on_from(server: ModelServer, any_model: Model) -> None:
    server.feed(Turn("one", [ToolCall("add", {"a": 1, "b": 1})]), Turn("no", stop="refusal"), "well then")
    async with workspace([add]) as app:
        agent = Agent(app, any_model)
        with pytest.raises(ModelError):
            await agent.run("count")
        (run,) = await app.store.runs(limit=1)
        assert run.status == "failed"
        done = await agent.continue_run(run.id, "be so kind")
        assert isinstance(done, AgentResult)
        assert done.output == "well then"


async def test_a_result_of_an_earlier_run_is_still_read_on(server: ModelServer, any_model: Model) -> None:
    def read_on(request: ModelRequest) -> Turn:
        reference = request.tool_answers[0].text.split('reference="')[1].split('"')[0]
        return Turn(calls=[ToolCall("read_more", {"reference": reference, "start": 300})])

    server.feed(Turn(calls=[ToolCall("long", {})]), "seen", read_on, "read")
    async with workspace([long]) as app:
        agent = Agent(app, any_model, limits={"result": 50})
        done = await agent.run("look")
        assert isinstance(done, AgentResult)
        await agent.continue_run(done.run_id, "and the end?")
    assert server.requests[3].tool_answers[-1].text == "the end"


async def test_a_run_is_shown_again_without_a_model(server: ModelServer, model: Model) -> None:
    server.feed(*THREE)
    async with workspace([add]) as app:
        agent = Agent(app, model)
        heard = [event async for event in agent.stream("count")]
        again = await agent.replay(heard[0].run_id)
        kept = await StateStoreOf(app.store, app.agents.sealer).load_history(heard[0].run_id)
    assert len(server.requests) == 3
    assert [event.kind for event in again] == [
        "start", "text", "tool_call", "tool_result", "text", "tool_call", "tool_result", "text", "end",
    ]  # fmt: skip
    assert again[-1] == heard[-1]
    assert "".join(event.text or "" for event in heard if event.kind == "text") == "firstsecondthird"
    assert [event.kind for event in kept] == ["start", "turn", "result", "turn", "result", "turn", "end"]
    assert kept[2].payload["text"] == "2"
    assert kept[2].trace_id == heard[0].run_id


async def test_what_a_flow_notes_is_not_taken_for_the_agents(server: ModelServer, model: Model) -> None:
    flow = (
        '{"version": 1, "name": "twice", "nodes": [{"id": "one", "tool": "add", "params": {"a": 1, "b": 1}}]}'
    )
    server.feed(Turn("well", [ToolCall("twice", {})]), "done", "and more")
    async with workspace([add], files={"flows/twice.json": flow}) as app:
        agent = Agent(app, model)
        done = await agent.run("go")
        assert isinstance(done, AgentResult)
        assert done.calls == [{"tool": "twice", "step": 1, "outcome": "ok"}]
        kinds = [event.kind for event in await agent.replay(done.run_id)]
        assert kinds == ["start", "text", "tool_call", "tool_result", "text", "end"]
        await agent.continue_run(done.run_id, "more")
        _, _, nodes = await app.flows.trace(done.run_id)
    assert [node.node for node in nodes] == ["one"]


async def test_messages_from_elsewhere_come_before(server: ModelServer, model: Model) -> None:
    server.feed("ah", "oh")
    async with workspace() as app:
        agent = Agent(app, model)
        done = await agent.run("and now?", history=[Message([UserPromptPart("my name is Ann")])])
        assert isinstance(done, AgentResult)
        before = await agent.history(done.run_id)
        await agent.run("once more", history=before)
    assert "my name is Ann" in str(server.requests[0].messages)
    assert "ah" in str(server.requests[1].messages)


def test_events_are_sent_by_a_web_application(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened(web: Starlette) -> AsyncIterator[None]:
        async with workspace() as app:
            web.state.agent = Agent(app, "openai-chat:gpt-scripted")
            yield

    async def ask(request: Request) -> StreamingResponse:
        events = sse(request.app.state.agent.stream("greet"))
        return StreamingResponse(events, media_type="text/event-stream")

    with ModelServer("hello there") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        with TestClient(Starlette(routes=[Route("/ask", ask)], lifespan=opened)) as client:
            body = client.get("/ask").text
    events = [block.split("\n") for block in body.strip().split("\n\n")]
    assert [lines[0] for lines in events] == ["event: start", "event: text", "event: text", "event: end"]
    assert all(lines[1].startswith('data: {"kind":') for lines in events)


async def test_a_run_that_called_a_flow_is_read_like_any_other(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    """A flow keeps notes on the same record."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "spindle.toml").write_text("")
    (tmp_path / "flows" / "loud.yaml").write_text(
        "version: 1\ninputs: {text: {type: string}}\nnodes: [{id: shout, tool: shout}]\n"
    )

    def shout(text: str) -> str:
        return text.upper()

    server.feed(Turn(calls=[ToolCall("loud", {"text": "hi"})]), "HI.", "Again.")
    async with spindle.open(tmp_path, tools=[shout]) as app:
        agent = Agent(app, model)
        done = await agent.run("Say hi.")
        events = await agent.replay(done.run_id)
        assert [event.kind for event in events] == ["start", "tool_call", "tool_result", "text", "end"]
        more = await agent.continue_run(done.run_id, "More.")
        assert isinstance(more, AgentResult)
        assert more.output == "Again."
