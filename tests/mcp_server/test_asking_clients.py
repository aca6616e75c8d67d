"""A call that needs a person: what the client is asked, in either era, whatever era its source speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError

import spindle
from mcp_server.conftest import OpenFixture
from servers.serving import ERAS, piped, served, text_of
from spindle import Context, tool
from spindle.errors import AuthorizationRequired

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
EACH_SOURCE = pytest.mark.parametrize("source", ["handshake", "2026-07-28"])


async def fill_in(_context: Any, params: Any) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"username": "ann", "email": "ann@example.com"})


async def sample(_context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    return t.CreateMessageResult(
        role="assistant", content=t.TextContent(text="42"), model="test", stop_reason="endTurn"
    )


@EACH_ERA
@EACH_SOURCE
async def test_a_question_of_a_source_reaches_the_client_and_its_answer_comes_back(
    open_fixture: OpenFixture, era: str, source: str
) -> None:
    async with (
        open_fixture(protocol=source) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=fill_in, sampling_callback=sample) as client,
    ):
        asked = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        sampled = await client.call_tool("test_sampling", {"prompt": "What is six times seven?"})
    assert "ann@example.com" in text_of(asked)
    assert text_of(sampled) == "LLM response: 42"


@EACH_ERA
@EACH_SOURCE
async def test_a_client_that_cannot_be_asked_gets_an_error_it_can_read(
    open_fixture: OpenFixture, era: str, source: str
) -> None:
    async with (
        open_fixture(protocol=source) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        if era == "modern" and source != "handshake":
            with pytest.raises(MCPError) as refused:
                await client.call_tool("test_elicitation", {"message": "Who are you?"})
            assert refused.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY
        else:
            assert (await client.call_tool("test_elicitation", {"message": "Who are you?"})).is_error


async def test_an_answer_to_a_call_that_no_longer_waits_is_refused(open_fixture: OpenFixture) -> None:
    async with (
        open_fixture(protocol="handshake") as app,
        served(app) as url,
        Client(url, elicitation_callback=fill_in) as client,
    ):
        session = client.session
        arguments = {"message": "Who?"}
        asked = await session.call_tool("test_elicitation", arguments, allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        assert asked.input_requests is not None
        (key,) = asked.input_requests
        answer: Any = {key: t.ElicitResult(action="decline")}
        state = asked.request_state
        with pytest.raises(MCPError, match="no longer waits, or was another"):
            await session.call_tool(
                "test_elicitation", {"message": "Other"}, input_responses=answer, request_state=state
            )
        again = await session.call_tool(
            "test_elicitation", arguments, input_responses={}, request_state=state, allow_input_required=True
        )
        assert isinstance(again, t.InputRequiredResult), "what was not answered is asked again"
        done = await session.call_tool(
            "test_elicitation", arguments, input_responses=answer, request_state=again.request_state
        )
        assert "decline" in text_of(done)
        with pytest.raises(MCPError, match="no longer waits"):
            await session.call_tool(
                "test_elicitation", arguments, input_responses=answer, request_state=again.request_state
            )


CONSENT = AuthorizationRequired(
    "Example wants your consent",
    source="x",
    details={"url": "https://example.com/authorize?state=1", "provider": "Example", "scopes": ["read"]},
)


@tool
def needs_consent() -> str:
    """Needs consent."""
    return "never"


async def refuse(app: Any) -> None:
    """Have every call wait for consent, as credentials do that are missing."""

    async def for_call(*_: Any) -> Any:
        raise CONSENT

    app.caller._credentials._provider = for_call


async def test_consent_is_asked_for_by_url_where_the_client_can(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[needs_consent]) as app:
        await app.sync()
        await refuse(app)
        async with piped(app) as client:
            await client.handshake(elicitation={"form": {}, "url": {}})
            client.request(1, "tools/call", name="needs_consent", arguments={})
            error = (await client.answer(1))["error"]
        assert error["code"] == t.URL_ELICITATION_REQUIRED
        assert error["data"]["elicitations"][0]["url"] == CONSENT.url
        async with piped(app) as client:
            await client.handshake(elicitation={})
            client.request(1, "tools/call", name="needs_consent", arguments={})
            result = (await client.answer(1))["result"]
        assert result["isError"] is True
        assert CONSENT.url in result["content"][0]["text"]
        assert result["_meta"]["io.spindle/pause"]["kind"] == "consent"


async def test_a_client_of_2026_is_asked_for_consent_by_a_result(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[needs_consent]) as app:
        await app.sync()
        await refuse(app)
        async with served(app) as url, Client(url, elicitation_callback=fill_in) as client:
            asked = await client.session.call_tool("needs_consent", {}, allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        assert asked.input_requests is not None
        params = asked.input_requests["answer"].params
        assert isinstance(params, t.ElicitRequestURLParams)
        assert params.url == CONSENT.url


@tool
def order(context: Context) -> str:
    """Asks which one, then for approval."""
    which = context.ask("Which one?")
    if not context.approve(f"Order {which}?"):
        return "not ordered"
    return f"ordered {which}"


@EACH_ERA
async def test_a_python_tool_that_asks_is_answered_by_the_client_and_goes_on(
    tmp_path: Path, era: str
) -> None:
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> t.ElicitResult:
        asked.append(params.message)
        content: dict[str, Any] = (
            {"approved": True} if "Order" in params.message else {"answer": "the red one"}
        )
        return t.ElicitResult(action="accept", content=content)

    async with (
        spindle.open(tmp_path, tools=[order]) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=answer) as client,
    ):
        assert text_of(await client.call_tool("order", {})) == "ordered the red one"
        assert await app.pauses() == []
    assert asked == ["Which one?", "Order the red one?"]


@EACH_ERA
async def test_a_person_who_declines_is_told_to_the_tool(tmp_path: Path, era: str) -> None:
    async def answer(_context: Any, params: Any) -> t.ElicitResult:
        if "Order" in params.message:
            return t.ElicitResult(action="decline")
        return t.ElicitResult(action="accept", content={"answer": "the red one"})

    async with (
        spindle.open(tmp_path, tools=[order]) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=answer) as client,
    ):
        assert text_of(await client.call_tool("order", {})) == "not ordered"


@EACH_ERA
async def test_where_the_client_cannot_ask_the_run_waits_to_be_resumed(tmp_path: Path, era: str) -> None:
    async with (
        spindle.open(tmp_path, tools=[order]) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        result = await client.call_tool("order", {})
        (pause,) = await app.pauses()
        assert result.is_error
        assert "A person has to answer first, where Spindle runs" in text_of(result)
        assert result.meta is not None
        assert result.meta["io.spindle/pause"]["token"] == pause.token


async def test_consent_that_the_client_asks_for_itself_leaves_no_run_behind(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[needs_consent]) as app:
        await app.sync()
        await refuse(app)
        async with piped(app) as client:
            await client.handshake()
            client.request(1, "tools/call", name="needs_consent", arguments={})
            assert CONSENT.url in (await client.answer(1))["result"]["content"][0]["text"]
        assert await app.pauses() == [], "it would be called once more when the consent is given"
