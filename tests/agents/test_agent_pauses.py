"""Agents that wait for people, and go on elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai.models import Model

import spindle
from spindle import Agent, AgentEvent, AgentResult, Paused
from spindle.app import Spindle
from spindle.errors import ConfigurationError, InvalidArgumentsError
from spindle.testing import Gate, ModelServer, ToolCall, Turn, workspace

TOOLS = """
from pathlib import Path
from spindle import Context, tool

EFFECTS = Path(__file__).parent.parent / "effects"


@tool
def effect(name: str) -> str:
    with EFFECTS.open("a") as file:
        file.write(name + "\\n")
    return f"did {name}"


@tool(destructive=True)
def delete(name: str) -> str:
    return effect(f"deleted {name}")


@tool
def asks(context: Context) -> str:
    return "it is " + context.ask("Which colour?")
"""

Opened = Callable[[], AbstractAsyncContextManager[Spindle]]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""


@pytest.fixture
def opened(tmp_path: Path, store: str) -> Opened:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text(store)

    @asynccontextmanager
    async def open_it() -> AsyncIterator[Spindle]:
        async with spindle.open(tmp_path) as app:
            yield app

    return open_it


def effects(root: Path) -> list[str]:
    file = root / "effects"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def agent(app: Spindle, model: Model, **options: object) -> Agent:
    return Agent(app, model, **options)  # type: ignore[arg-type]


CALLS = Turn(
    "on it",
    [
        ToolCall("effect", {"name": "one"}),
        ToolCall("delete", {"name": "two"}),
        ToolCall("delete", {"name": "three"}),
    ],
)


async def test_calls_that_need_approval_pause_and_finished_siblings_are_not_repeated(
    server: ModelServer, model: Model, opened: Opened, tmp_path: Path
) -> None:
    server.feed(CALLS)
    heard: list[AgentEvent] = []
    async with opened() as app:
        paused = await agent(app, model).run("clean up", on_event=heard.append)
        assert isinstance(paused, Paused)
    assert effects(tmp_path) == ["one"]
    assert [event.kind for event in heard] == [
        "start",
        "text",
        "tool_call",
        "tool_call",
        "tool_call",
        "tool_result",
    ]
    shown = {pause.details["arguments"]["name"]: pause.token for pause in paused.pauses}
    assert shown.keys() == {"two", "three"}
    async with opened() as app:
        # Somebody else's process; it makes an agent of the same name, so that the model is known.
        there = agent(app, model)
        with pytest.raises(InvalidArgumentsError):
            await there.resume(shown["two"], {"approved": True, "arguments": {"nam": "x"}})
        still = await there.resume(shown["two"], {"approved": True, "arguments": {"name": "zwei"}})
        assert isinstance(still, Paused)
    assert len(server.requests) == 1
    server.feed("all done")
    async with opened() as app:
        heard.clear()
        done = await agent(app, model).resume(shown["three"], refused="keep that one", on_event=heard.append)
    assert isinstance(done, AgentResult)
    assert (done.output, done.steps) == ("all done", 2)
    assert effects(tmp_path) == ["deleted zwei", "one"]
    told = [item.text for item in server.requests[1].tool_answers]
    assert told[0] == "did one"
    assert 'with other arguments: {"name":"zwei"}' in told[1]
    assert "did deleted zwei" in told[1]
    assert "not approved: keep that one" in told[2]
    assert [event.kind for event in heard] == ["tool_result", "text", "end"]


async def test_the_model_asks_the_user(server: ModelServer, model: Model, opened: Opened) -> None:
    question = ToolCall("ask_user", {"question": "Which size?", "options": ["small", "large"]})
    server.feed(Turn(calls=[question, ToolCall("effect", {"name": "one"})]), Turn(calls=[question]), "fine")
    async with opened() as app:
        paused = await agent(app, model).run("go")
        assert isinstance(paused, Paused)
        (pause,) = paused.pauses
        assert (pause.kind, pause.message) == ("input", "Which size?")
        assert await app.pauses() == [pause]
    async with opened() as app:
        there = agent(app, model)
        with pytest.raises(InvalidArgumentsError):
            await there.resume(pause.token, "medium")
        again = await there.resume(pause.token, "large")
        assert isinstance(again, Paused)
        done = await there.resume(again.pauses[0].token, refused="enough questions")
    assert isinstance(done, AgentResult)
    first, second = server.requests[1].tool_answers, server.requests[2].tool_answers
    assert [item.text for item in first] == ["large", "did one"]
    assert second[-1].text == "the user would not answer: enough questions"


async def test_a_question_of_a_tool_pauses_the_agent(
    server: ModelServer, model: Model, opened: Opened
) -> None:
    server.feed(Turn(calls=[ToolCall("asks", {})]), "thanks")
    async with opened() as app:
        events = [event async for event in agent(app, model).stream("go")]
        assert events[-1].kind == "pause"
        assert events[-1].pauses is not None
        (pause,) = events[-1].pauses
        assert pause["message"] == "Which colour?"
    async with opened() as app:
        later = [event async for event in agent(app, model).stream_resume(pause["token"], "blue")]
    assert [event.kind for event in later] == ["tool_result", "text", "end"]
    assert later[0].text == "it is blue"


async def test_an_answer_of_a_type_outlives_a_pause(
    server: ModelServer, model: Model, opened: Opened
) -> None:
    wrong = Turn(calls=[ToolCall("final_answer", {"answer": "many"})])
    server.feed(wrong, CALLS)
    async with opened() as app:
        paused = await agent(app, model, approve=["effect"]).run("count", output_type=list[int])
        assert isinstance(paused, Paused)
    server.feed(Turn(calls=[ToolCall("final_answer", {"answer": [1, 2]})]))
    async with opened() as app:
        there = agent(app, model)
        done = await there.resume(paused.pauses[0].token, True, output_type=list[int])
    assert isinstance(done, AgentResult)
    assert done.output == [1, 2]
    assert [call["outcome"] for call in done.calls] == ["ok", "ok", "ok"]


async def test_an_object_as_model_must_be_known_where_a_run_goes_on(
    server: ModelServer, model: Model, opened: Opened
) -> None:
    server.feed(CALLS)
    async with opened() as app:
        paused = await agent(app, model, name="cleaner").run("go")
        assert isinstance(paused, Paused)
    async with opened() as app:
        with pytest.raises(ConfigurationError, match="agent 'cleaner', whose model is an object") as unknown:
            await app.resume(paused.pauses[0].token, True)
        assert "name='cleaner'" in (unknown.value.hint or "")


async def test_a_suspended_run_finishes_its_calls_and_goes_on_by_its_id(
    server: ModelServer, model: Model, opened: Opened, tmp_path: Path
) -> None:
    gate = Gate()
    server.feed(Turn(calls=[ToolCall("effect", {"name": "one"})]), Turn("never heard", after=gate))
    async with opened() as app:
        there = agent(app, model)
        heard: list[AgentEvent] = []
        running = asyncio.create_task(there.run("go", on_event=heard.append))
        await gate.reached()
        assert there.suspend(heard[0].run_id)
        paused = await running
        assert isinstance(paused, Paused)
        assert paused.pauses == ()
        assert not there.suspend(paused.run_id)
        (stored,) = await app.store.runs(limit=5)
        assert stored.status == "paused"
    gate.open()
    server.feed("done")
    async with opened() as app:
        done = await agent(app, model).resume(paused.run_id)
    assert isinstance(done, AgentResult)
    assert done.output == "done"
    assert effects(tmp_path) == ["one"]
    assert len(server.requests) == 3


async def test_calls_in_flight_end_before_a_suspended_run_rests(server: ModelServer, model: Model) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    made: list[str] = []

    async def slow(name: str) -> str:
        begun.set()
        await go_on.wait()
        made.append(name)
        return f"did {name}"

    server.feed(Turn(calls=[ToolCall("slow", {"name": "one"}), ToolCall("slow", {"name": "two"})]), "done")
    async with workspace([slow]) as app:
        there = Agent(app, model)
        heard: list[AgentEvent] = []
        running = asyncio.create_task(there.run("go", on_event=heard.append))
        await begun.wait()
        assert there.suspend(heard[0].run_id)
        go_on.set()
        paused = await running
        assert isinstance(paused, Paused)
        assert sorted(made) == ["one", "two"]
        done = await there.resume(paused.run_id)
        assert isinstance(done, AgentResult)
    assert sorted(made) == ["one", "two"]
    assert [item.text for item in server.requests[1].tool_answers] == ["did one", "did two"]
