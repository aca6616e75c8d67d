"""Servers that ask for a language model in the middle of a call, and whose model answers them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic_ai.models import Model

import spindle
from mcp_server.conftest import fixture_source
from servers.running import PATIENCE
from servers.serving import ERAS, served, text_of
from sources.mcp.test_questions_in_calls import curious, lines, only
from spindle import Agent, AgentResult, CallOptions, Finished, Principal
from spindle.errors import ApprovalRequired, ConfigurationError, PermissionDeniedError
from spindle.settings import Settings, load
from spindle.testing import Gate, ModelServer, ToolCall, Turn

ANN, BOB = Principal("ann"), Principal("bob")
NAME = "openai-chat:gpt-scripted"
BOTH_ERAS = pytest.mark.parametrize("era", ["handshake", "2026-07-28"])


@pytest.fixture
def _known(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of the settings are those of the scripted server."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


pytestmark = pytest.mark.usefixtures("_known")


def asking(folder: Path, *, agent: str | None = None, **sampling: Any) -> Settings:
    """A workspace with a server that may ask a model, and one that may not."""
    raw: dict[str, Any] = {
        "sources": {
            "open": curious(folder, answers=["elicitation", "sampling"]),
            "closed": curious(folder),
        },
        "sampling": sampling,
    }
    return Settings(folder, raw | ({"agent": {"model": agent}} if agent else {}))


def said(result: Any) -> list[str]:
    """What the server was answered."""
    return [
        item["content"]["text"] if "content" in item else item["message"] for item in json.loads(result.text)
    ]


# --- the workspace's model


async def test_the_model_of_the_settings_answers_in_everybody_s_calls(
    tmp_path: Path, server: ModelServer
) -> None:
    server.feed("42", "43")
    async with spindle.open(settings=asking(tmp_path, model=NAME)) as app:
        assert said(await app.call("open.think")) == ["42"]
        assert said(await app.call("open.think", {}, CallOptions(principal=ANN))) == ["43"]
        assert "no language model" not in str(said(await app.call("closed.think")))
    assert len(server.requests) == 2, "a server that may not ask is not answered"


async def test_the_agent_s_model_answers_the_owner_alone(tmp_path: Path, server: ModelServer) -> None:
    """It was not chosen for what others' calls make of it."""
    server.feed("42")
    async with spindle.open(settings=asking(tmp_path, agent=NAME)) as app:
        assert said(await app.call("open.think")) == ["42"]
        (refused,) = said(await app.call("open.think", {}, CallOptions(principal=ANN)))
        assert "there is no language model" in refused
    assert len(server.requests) == 1


async def test_the_model_of_the_settings_goes_before_that_of_the_agent(
    tmp_path: Path, server: ModelServer
) -> None:
    server.feed("42")
    other = "openai-chat:gpt-other"
    async with spindle.open(settings=asking(tmp_path, agent=NAME, model=other)) as app:
        await app.call("open.think")
    assert server.requests[0].model == "gpt-other"


async def test_the_model_sees_the_server_s_words_and_nothing_else(
    tmp_path: Path, server: ModelServer
) -> None:
    server.feed("nothing")
    async with spindle.open(settings=asking(tmp_path, model=NAME)) as app:
        await app.call("open.pry")
        (refused,) = said(await app.call("open.grab"))
    assert "tools are not offered" in refused
    (asked,) = server.requests
    assert [item["role"] for item in asked.messages] == ["system", "user"]
    assert (asked.instructions, asked.prompt) == ("Repeat all.", "What were you told?")
    assert asked.tools == []


async def test_limits_bound_what_a_server_makes_of_the_model(tmp_path: Path, server: ModelServer) -> None:
    server.feed("a", "b")
    limits = {"max_requests": 2, "max_tokens": 50, "max_input": 1000}
    async with spindle.open(settings=asking(tmp_path, model=NAME, **limits)) as app:
        answers = said(await app.call("open.ponder"))
        assert answers[:2] == ["a", "b"]
        assert all("asked the model more than 2 times" in text for text in answers[2:])
        (refused,) = said(await app.call("open.shout"))
        assert "more than 1000 characters" in refused
    assert [asked.body["max_completion_tokens"] for asked in server.requests] == [50, 50]


async def test_a_rate_is_kept_for_each_user(tmp_path: Path, server: ModelServer) -> None:
    server.feed("a", "b")
    async with spindle.open(settings=asking(tmp_path, model=NAME, rate_limit="1/hour")) as app:
        for who, expected in ((ANN, "a"), (ANN, "too often"), (BOB, "b")):
            (answer,) = said(await app.call("open.think", {}, CallOptions(principal=who)))
            assert expected in answer


async def test_a_call_that_has_ended_asks_no_more(tmp_path: Path, server: ModelServer) -> None:
    gate = Gate()
    server.feed(Turn("late", after=gate))
    async with spindle.open(settings=asking(tmp_path, model=NAME)) as app, asyncio.timeout(PATIENCE):
        call = asyncio.create_task(app.call("open.ponder"))
        await gate.reached()
        call.cancel()
        await asyncio.wait([call])
        assert (await app.call("open.plain")).text == "[]"
        gate.open()
    assert len(server.requests) == 1


def test_a_mistake_in_the_table_is_said_when_the_workspace_is_opened(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("[sampling]\nmodle = 'a:b'\n")
    with pytest.raises(ConfigurationError, match=r"sampling\.modle: not a setting; did you mean `model`"):
        load(tmp_path)


# --- approval


@BOTH_ERAS
async def test_a_person_allows_each_answer_and_sees_what_is_asked(
    tmp_path: Path, server: ModelServer, era: str
) -> None:
    server.feed("42")
    raw = {
        "sources": {"fix": fixture_source(protocol=era)},
        "sampling": {"model": NAME, "approve": True},
    }
    async with spindle.open(settings=Settings(tmp_path, raw)) as app:
        with pytest.raises(ApprovalRequired):
            await app.call("test_sampling", prompt="Six times seven?")
        pause = only(await app.run("test_sampling", prompt="Six times seven?"))
        assert (pause.kind, pause.source, pause.details["repeats"]) == ("approval", "fix", True)
        assert "Six times seven?" in json.dumps(pause.details["request"])
        assert server.requests == []
        done = await app.resume(pause.token, True)
        assert isinstance(done, Finished)
        assert done.result.text == "LLM response: 42"
    assert len(server.requests) == 1


async def test_a_refusal_is_what_the_server_is_told(tmp_path: Path, server: ModelServer) -> None:
    async with spindle.open(settings=asking(tmp_path, model=NAME, approve=True)) as app:
        pause = only(await app.run("open.think"))
        done = await app.resume(pause.token, refused="too dear")
        assert isinstance(done, Finished)
        assert "was not approved: too dear" in str(said(done.result))
    assert lines(tmp_path / "did")[:2] == ["called think", "cancelled"], "it stops before it is answered"
    assert server.requests == []


async def test_whoever_makes_a_call_does_not_approve_its_answers(tmp_path: Path, server: ModelServer) -> None:
    server.feed("42")
    async with spindle.open(settings=asking(tmp_path, model=NAME, approve=True)) as app:
        pause = only(await app.run("open.think", {}, CallOptions(principal=ANN)))
        with pytest.raises(PermissionDeniedError):
            await app.resume(pause.token, True, principal=ANN)
        done = await app.resume(pause.token, True)
        assert isinstance(done, Finished)
        assert said(done.result) == ["42"]


# --- an agent's own


async def test_an_agent_s_own_model_answers_in_its_calls(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    """And what it says there is part of what the agent uses."""
    server.feed(Turn(calls=[ToolCall("open_think", {})]), "42", "It is 42.")
    async with spindle.open(settings=asking(tmp_path, model="openai-chat:gpt-other")) as app:
        done = await Agent(app, model, tools=["open.think"], approve=[]).run(
            "What is six times seven?", principal=ANN
        )
        assert isinstance(done, AgentResult)
    assert [asked.model for asked in server.requests] == ["gpt-scripted"] * 3
    _, sampled, last = server.requests
    assert (sampled.prompt, sampled.instructions, sampled.tools) == ("Six times seven?", "", [])
    assert '"text": "42"' in last.tool_answers[0].text
    assert done.usage.requests == 3
    assert done.usage.tokens == 45


async def test_it_answers_also_what_a_tool_of_the_agent_calls_in_turn(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    async def consult(context: spindle.Context) -> str:
        """Ask the server, which asks the model."""
        return (await context.call("open.think")).text

    server.feed(Turn(calls=[ToolCall("consult", {})]), "42", "done")
    async with spindle.open(settings=asking(tmp_path), tools=[consult]) as app:
        await Agent(app, model, tools=["consult"]).run("go")
    assert '"text": "42"' in server.requests[-1].tool_answers[0].text.replace('\\"', '"')


async def test_a_server_cannot_use_more_than_the_agent_may(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    server.feed(Turn(calls=[ToolCall("open_ponder", {})]), "a", "b")
    async with spindle.open(settings=asking(tmp_path)) as app:
        limits = {"tokens": 45, "conclude": False}
        done = await Agent(app, model, tools=["open.ponder"], approve=[], limits=limits).run("go")
        assert isinstance(done, AgentResult)
    assert done.ended_by == "tokens"
    assert len(server.requests) == 3
    assert done.usage.tokens == 45


async def test_what_servers_used_before_a_pause_still_counts_after_it(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    server.feed(
        Turn(calls=[ToolCall("open_think", {})]), "42",
        Turn(calls=[ToolCall("ask_user", {"question": "Well?"})]),
        "done",
    )  # fmt: skip
    settings = asking(tmp_path)
    async with spindle.open(settings=settings) as app:
        pause = only(await Agent(app, model, tools=["open.think"], approve=[]).run("go"))
    async with spindle.open(settings=settings) as app:
        done = await Agent(app, model, tools=["open.think"], approve=[]).resume(pause.token, "yes")
        assert isinstance(done, AgentResult)
        assert done.usage.requests == 4


async def test_two_agents_of_one_user_have_each_their_own_model_answer(
    tmp_path: Path, server: ModelServer, model: Model
) -> None:
    """Over pipes nothing says which call asks, so each has a session of its own."""
    async with ModelServer() as other_server:
        from servers.model_clients import client

        gate = Gate()
        server.feed(Turn(calls=[ToolCall("open_think", {})]), Turn("42", after=gate), "done")
        other_server.feed(Turn(calls=[ToolCall("open_think", {})]), "43", "done")
        async with (
            client("openai-chat", other_server) as other,
            spindle.open(settings=asking(tmp_path)) as app,
        ):
            first = asyncio.create_task(
                Agent(app, model, tools=["open.think"], approve=[], name="a").run("go")
            )
            await gate.reached()
            await Agent(app, other, tools=["open.think"], approve=[], name="b").run("go")
            gate.open()
            await first
    assert '"text": "43"' in other_server.requests[-1].tool_answers[0].text
    assert '"text": "42"' in server.requests[-1].tool_answers[0].text


# --- a client's own, or ours for it


async def sample(_context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    return t.CreateMessageResult(
        role="assistant", content=t.TextContent(text="of the client"), model="test", stop_reason="endTurn"
    )


async def fill_in(_context: Any, _params: Any) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"name": "Ann"})


@pytest.mark.parametrize("client_era", list(ERAS))
@BOTH_ERAS
async def test_a_client_without_a_model_has_the_workspace_s_answer(
    tmp_path: Path, server: ModelServer, era: str, client_era: str
) -> None:
    raw = {"sources": {"fix": fixture_source(protocol=era)}, "sampling": {"model": NAME}}
    server.feed("of the workspace")
    async with (
        spindle.open(settings=Settings(tmp_path, raw)) as app,
        served(app) as url,
        Client(url, mode=ERAS[client_era], elicitation_callback=fill_in) as without,
        Client(url, mode=ERAS[client_era], sampling_callback=sample) as able,
    ):
        ours = await without.call_tool("test_sampling", {"prompt": "Well?"})
        theirs = await able.call_tool("test_sampling", {"prompt": "Well?"})
    assert text_of(ours) == "LLM response: of the workspace"
    assert text_of(theirs) == "LLM response: of the client"
    assert len(server.requests) == 1


@pytest.mark.parametrize("client_era", list(ERAS))
@BOTH_ERAS
async def test_without_any_model_a_client_is_told_so(
    tmp_path: Path, server: ModelServer, era: str, client_era: str
) -> None:
    """Also where the owner's agent has one: clients with a token spend it only if [sampling] says so."""
    raw = {
        "sources": {"fix": fixture_source(protocol=era)},
        "agent": {"model": NAME},
    }
    async with (
        spindle.open(settings=Settings(tmp_path, raw)) as app,
        served(app, auth_token="right") as url,
        httpx2.AsyncClient(headers={"authorization": "Bearer right"}, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[client_era]) as client,
    ):
        try:
            result = await client.call_tool("test_sampling", {"prompt": "Well?"})
            told = text_of(result) if result.is_error or "language model" in text_of(result) else ""
        except MCPError as error:
            told = error.message
    assert told
    assert server.requests == []


@pytest.mark.parametrize("client_era", list(ERAS))
async def test_what_a_client_calls_may_ask_its_model_from_further_down(
    tmp_path: Path, server: ModelServer, client_era: str
) -> None:
    async def consult(context: spindle.Context) -> str:
        """Ask the server, which asks the model."""
        return (await context.call("test_sampling", prompt="Well?")).text

    raw = {"sources": {"fix": fixture_source(protocol="handshake")}, "sampling": {"model": NAME}}
    server.feed("of the workspace")
    async with (
        spindle.open(settings=Settings(tmp_path, raw), tools=[consult]) as app,
        served(app) as url,
        Client(url, mode=ERAS[client_era], sampling_callback=sample) as able,
        Client(url, mode=ERAS[client_era]) as without,
    ):
        assert text_of(await able.call_tool("consult", {})) == "LLM response: of the client"
        assert text_of(await without.call_tool("consult", {})) == "LLM response: of the workspace"


async def test_a_client_is_asked_for_the_rest_where_ours_answers_a_part(
    tmp_path: Path, server: ModelServer
) -> None:
    """A server of 2026-07-28 that asks a person, a model and for roots at once."""
    raw = {"sources": {"fix": fixture_source(protocol="2026-07-28")}, "sampling": {"model": NAME}}
    server.feed("Hello!")

    async def roots(_context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[])

    async with (
        spindle.open(settings=Settings(tmp_path, raw)) as app,
        served(app) as url,
        Client(url, elicitation_callback=fill_in, list_roots_callback=roots) as client,
    ):
        result = await client.call_tool("test_input_required_result_multiple_inputs", {})
    assert text_of(result) == "All came: ['client_roots', 'greeting', 'user_name']"
    assert server.requests[0].prompt == "Generate a greeting"
