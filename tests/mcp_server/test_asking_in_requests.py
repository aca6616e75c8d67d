"""A source that asks while a client reads a resource, fills in a prompt or completes a value: the client that
made the request is asked, in either era, whatever era the source speaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

import spindle
from servers import warm
from servers.running import PATIENCE, until
from servers.serving import ERAS, piped, served
from spindle.settings import Settings
from spindle.testing import ModelServer

SERVER = Path(__file__).parent.parent / "servers" / "inquiring_server.py"
NAME = "openai-chat:gpt-scripted"
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
EACH_SOURCE = pytest.mark.parametrize("source", ["handshake", "2026-07-28"])


@pytest.fixture
async def model_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    """The models of the settings are those of this server."""
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


def asking(folder: Path, source: str, **tables: Any) -> Settings:
    answers = ["elicitation", "sampling", "roots"]
    table = {"command": [warm.PYTHON, str(SERVER)], "protocol": source, "answers": answers}
    return Settings(folder, {"sources": {"x": table}, "store": ":memory:", **tables})


async def fill_in(_context: Any, params: Any) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"city": "Rome"})


async def sample(_context: Any, params: Any) -> t.CreateMessageResult:
    return t.CreateMessageResult(
        role="assistant", content=t.TextContent(text="of the client"), model="test", stop_reason="endTurn"
    )


async def roots(_context: Any) -> t.ListRootsResult:
    return t.ListRootsResult(roots=[t.Root(uri="file:///home", name="home")])  # pyright: ignore[reportArgumentType]


ABLE: dict[str, Any] = {
    "elicitation_callback": fill_in,
    "sampling_callback": sample,
    "list_roots_callback": roots,
}


async def read(client: Client, kind: str) -> Any:
    (content,) = (await client.read_resource(f"ask://{kind}")).contents
    assert isinstance(content, t.TextResourceContents)
    return json.loads(content.text)


async def filled(client: Client, kind: str) -> Any:
    (message,) = (await client.get_prompt("x.ask", {"kind": kind})).messages
    assert isinstance(message.content, t.TextContent)
    return json.loads(message.content.text)


async def completed(client: Client, kind: str) -> Any:
    found = await client.complete(t.PromptReference(name="x.ask"), {"name": "kind", "value": kind})
    return json.loads(found.completion.values[0])


Request = Callable[[Client, str], Awaitable[Any]]
EACH_REQUEST = pytest.mark.parametrize("request_", [read, filled])


@EACH_ERA
@EACH_SOURCE
@EACH_REQUEST
async def test_the_client_that_made_the_request_is_asked(
    tmp_path: Path, era: str, source: str, request_: Request
) -> None:
    async with (
        spindle.open(settings=asking(tmp_path, source)) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], **ABLE) as client,
    ):
        assert (await request_(client, "person"))["city"]["content"] == {"city": "Rome"}
        assert (await request_(client, "model"))["title"]["content"]["text"] == "of the client"
        assert (await request_(client, "folders"))["folders"]["roots"][0]["name"] == "home"
        both = await request_(client, "all")
        assert {"city", "title"} == set(both)


@EACH_ERA
@EACH_SOURCE
@EACH_REQUEST
async def test_a_client_without_a_model_has_the_workspace_s_answer(
    tmp_path: Path, era: str, source: str, request_: Request, model_server: ModelServer
) -> None:
    model_server.feed("of the workspace", "again")
    settings = asking(tmp_path, source, sampling={"model": NAME})
    async with (
        spindle.open(settings=settings) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=fill_in) as without,
        Client(url, mode=ERAS[era], **ABLE) as able,
    ):
        ours = await request_(without, "model")
        theirs = await request_(able, "model")
        both = await request_(without, "all")
    assert ours["title"]["content"]["text"] == "of the workspace"
    assert theirs["title"]["content"]["text"] == "of the client"
    assert (both["title"]["content"]["text"], both["city"]["content"]) == ("again", {"city": "Rome"})
    assert len(model_server.requests) == 2


@EACH_ERA
async def test_a_source_may_ask_while_a_value_is_completed(
    tmp_path: Path, era: str, model_server: ModelServer
) -> None:
    """A client of 2026-07-28 cannot be asked there: only the workspace's model answers."""
    model_server.feed("of the workspace")
    settings = asking(tmp_path, "handshake", sampling={"model": NAME})
    async with (
        spindle.open(settings=settings) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=fill_in) as client,
    ):
        assert (await completed(client, "model"))["title"]["content"]["text"] == "of the workspace"
        if era == "handshake":
            assert (await completed(client, "person"))["city"]["content"] == {"city": "Rome"}
        else:
            with pytest.raises(MCPError, match="cannot answer elicitation/create"):
                await completed(client, "person")


@EACH_ERA
@EACH_SOURCE
@EACH_REQUEST
async def test_a_client_that_cannot_be_asked_is_told_what_was(
    tmp_path: Path, era: str, source: str, request_: Request
) -> None:
    async with (
        spindle.open(settings=asking(tmp_path, source)) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await request_(client, "person")
        assert await request_(client, "nothing") == {}
    if source == "handshake":
        assert "this client cannot answer elicitation/create" in refused.value.message
        assert "use a client that can be asked" in refused.value.message
    else:
        assert "asks for further input (elicitation/create: Which city?)" in refused.value.message
        if era == "modern":
            assert refused.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY


@EACH_ERA
@EACH_SOURCE
async def test_the_agent_s_model_is_not_for_clients(
    tmp_path: Path, era: str, source: str, model_server: ModelServer
) -> None:
    async with (
        spindle.open(settings=asking(tmp_path, source, agent={"model": NAME})) as app,
        served(app, auth_token="right") as url,
        httpx2.AsyncClient(headers={"authorization": "Bearer right"}, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[era]) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await filled(client, "model")
    assert "sampling" in refused.value.message
    assert model_server.requests == []


async def test_a_client_comes_back_only_to_what_it_asked_for(tmp_path: Path) -> None:
    async with (
        spindle.open(settings=asking(tmp_path, "handshake")) as app,
        served(app) as url,
        Client(url, elicitation_callback=fill_in) as client,
    ):
        session = client.session
        asked = await session.read_resource("ask://person", allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        assert asked.input_requests is not None
        (key,) = asked.input_requests
        answer: Any = {key: t.ElicitResult(action="decline")}
        state = asked.request_state
        with pytest.raises(MCPError, match="no longer waits, or was another"):
            await session.read_resource("ask://model", input_responses=answer, request_state=state)
        with pytest.raises(MCPError, match="no longer waits, or was another"):
            await session.get_prompt("x.ask", {"kind": "person"}, input_responses=answer, request_state=state)
        done = await session.read_resource("ask://person", input_responses=answer, request_state=state)
        assert "decline" in done.contents[0].text  # pyright: ignore[reportAttributeAccessIssue]


@EACH_SOURCE
async def test_over_pipes_the_client_is_asked_too(tmp_path: Path, source: str) -> None:
    async with spindle.open(settings=asking(tmp_path, source)) as app, piped(app) as client:
        await client.handshake(elicitation={})
        client.request(1, "resources/read", uri="ask://person")
        while (question := await client.read()).get("method") != "elicitation/create":
            pass
        assert question["params"]["message"] == "Which city?"
        answer = {"action": "accept", "content": {"city": "Rome"}}
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        (content,) = (await client.answer(1))["result"]["contents"]
    assert json.loads(content["text"])["city"] == answer


@EACH_ERA
async def test_over_http_each_client_is_asked_its_own(tmp_path: Path, era: str) -> None:
    """Also where one of them does not answer."""
    waiting, may_go = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    def answering(who: str) -> Callable[..., Awaitable[t.ElicitResult]]:
        async def answer(_context: Any, _params: Any) -> t.ElicitResult:
            seen.append(who)
            waiting.set()
            await may_go.wait()
            return t.ElicitResult(action="accept", content={"city": who})

        return answer

    async with (
        asyncio.timeout(PATIENCE),
        spindle.open(settings=asking(tmp_path, "handshake")) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=answering("ann")) as ann,  # pyright: ignore[reportArgumentType]
        Client(url, mode=ERAS[era], elicitation_callback=answering("bob")) as bob,  # pyright: ignore[reportArgumentType]
    ):
        first = asyncio.create_task(read(ann, "person"))
        await waiting.wait()
        second = asyncio.create_task(filled(bob, "person"))
        await until(lambda: "bob" in seen)
        may_go.set()
        assert (await first)["city"]["content"] == {"city": "ann"}
        assert (await second)["city"]["content"] == {"city": "bob"}
    assert seen == ["ann", "bob"]
