"""Agents that remember beyond a run, and tasks with files."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai.models import Model

import spindle
from adapters.samples import PIXEL
from spindle import Agent, AgentResult, Principal
from spindle.agents.attachments import MOST, Attachment
from spindle.app import Spindle
from spindle.errors import ConfigurationError, ModelError
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn, workspace

ANN, BEN = Principal("ann"), Principal("ben")


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Spindle]:
    url = f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""
    (tmp_path / "spindle.toml").write_text(url)
    async with spindle.open(tmp_path) as found:
        yield found


async def test_a_thread_goes_on_from_run_to_run_for_each_principal(
    app: Spindle, server: ModelServer, model: Model
) -> None:
    server.feed("Hello Ann.", "You are Ann.", "Who are you?", "I do not know.")
    agent = Agent(app, model)
    await agent.run("I am Ann.", principal=ANN, thread="desk")
    done = await agent.run("Who am I?", principal=ANN, thread="desk")
    assert isinstance(done, AgentResult)
    assert done.output == "You are Ann."
    assert "I am Ann." in str(server.requests[1].messages)
    await agent.run("Who am I?", principal=BEN, thread="desk")
    assert "Ann" not in str(server.requests[2].messages), "what one user said is not shown to others"
    memory = app.agents.memory
    assert await memory.threads(ANN) == ["desk"]
    assert await memory.forget_thread(ANN, "desk")
    await agent.run("Who am I?", principal=ANN, thread="desk")
    assert "I am Ann" not in str(server.requests[3].messages)


async def test_facts_are_kept_found_and_deleted_by_the_agents_own_choice(
    app: Spindle, server: ModelServer, any_model: Model
) -> None:
    def recalled(request: ModelRequest) -> Turn:
        (answer,) = request.tool_answers
        id, _, text = answer.text.partition(": ")
        assert text == "Ann likes the harbours."
        return Turn(calls=[ToolCall("forget", {"id": id})])

    server.feed(
        Turn(
            calls=[
                ToolCall("remember", {"fact": "Ann likes the harbours."}),
                ToolCall("remember", {"fact": "The budget is 40."}),
            ]
        ),
        "kept", Turn(calls=[ToolCall("recall", {"query": "which harbour?"})]), recalled, "forgotten",
        Turn(calls=[ToolCall("recall", {})]), "nothing",
    )  # fmt: skip
    agent = Agent(app, any_model, memory=True)
    for _ in range(2):
        await agent.run("go", principal=ANN)
    await agent.run("go", principal=BEN)
    assert "nothing was kept" in server.requests[-1].tool_answers[0].text
    assert [fact.text for fact in await app.agents.memory.facts(ANN)] == ["The budget is 40."]
    assert "The budget" not in str(await app.store.secrets("memory")), "it is encrypted"


async def test_memory_is_off_unless_it_is_wanted(server: ModelServer, model: Model) -> None:
    server.feed(Turn(calls=[ToolCall("remember", {"fact": "x"})]), "done")
    async with workspace() as app:
        await Agent(app, model).run("go")
        assert await app.agents.memory.facts(Principal("local")) == []
    assert "remember" not in server.requests[0].tool_names
    assert "there is no tool 'remember'" in server.requests[1].tool_answers[0].text


async def test_a_fact_survives_a_new_key(app: Spindle, server: ModelServer, model: Model) -> None:
    memory = app.agents.memory
    await memory.remember(ANN, "a fact", "one")
    await app.auth.rotate()
    assert [fact.text for fact in await memory.facts(ANN)] == ["a fact"]


async def test_files_reach_the_model(server: ModelServer, any_model: Model, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(base64.b64decode(PIXEL))
    (tmp_path / "list.csv").write_text("a,b\n1,2\n")
    pdf = Attachment(b"%PDF-1.4 tiny", "application/pdf", "tiny.pdf")
    server.feed("seen", "still seen")
    async with workspace() as app:
        agent = Agent(app, any_model)
        done = await agent.run("Look.", files=[tmp_path / "dot.png", tmp_path / "list.csv", pdf])
        assert isinstance(done, AgentResult)
        await agent.continue_run(done.run_id, "And now?")
    for request in server.requests:
        sent = str(request.messages)
        assert PIXEL[:40] in sent
        assert "The file list.csv:" in sent
        assert base64.b64encode(pdf.data).decode() in sent


async def test_audio_reaches_a_model_that_hears(server: ModelServer, model: Model) -> None:
    server.feed("heard")
    async with workspace() as app:
        await Agent(app, model).run("Listen.", files=[Attachment(b"RIFFdata", "audio/wav", "a.wav")])
    assert "input_audio" in str(server.requests[0].messages)


async def test_what_is_wrong_with_files_is_said(server: ModelServer, model: Model, tmp_path: Path) -> None:
    async with workspace() as app:
        agent = Agent(app, model)
        with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
            await agent.run("go", files=[tmp_path / "none.png"])
        with pytest.raises(ConfigurationError, match="bytes together"):
            await agent.run("go", files=[Attachment(b"x" * (MOST + 1), "image/png")])
        (tmp_path / "odd").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigurationError, match="not known what kind of file 'odd' is"):
            await agent.run("go", files=[tmp_path / "odd"])
        with pytest.raises(ConfigurationError, match="a thread has its own"):
            await agent.run("go", thread="a", history=[object()])  # type: ignore[list-item]
        with pytest.raises(ModelError):
            await agent.run("go", files=[Attachment(b"x", "video/mp4", "a.mp4")])
    assert server.requests == []


async def test_a_picture_that_a_tool_returned_is_seen(server: ModelServer, any_model: Model) -> None:
    def draw() -> spindle.Result:
        return spindle.Result((spindle.Block("image", data=PIXEL, mime_type="image/png"),))

    server.feed(Turn(calls=[ToolCall("draw")]), "a dot")
    async with workspace([draw]) as app:
        await Agent(app, any_model).run("draw")
    assert PIXEL in str(server.requests[1].messages)
