"""One mistake, told to each reader in its own words; and what no remote reader is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import spindle
from servers.serving import served, text_of
from spindle import Agent, Spindle
from spindle.domain.serve import ServeConfig
from spindle.listening.server import address_of, listen
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.serving.server import serve
from spindle.testing import ModelServer, ToolCall, Turn

TOOLS = '''
import os
from spindle import tool

@tool
def divide(a: int, by: int) -> float:
    """Divide."""
    return quotient(a, by)

def quotient(a: int, by: int) -> float:
    return a / by

@tool
def unlock(password: str) -> str:
    """Fail with the password in the text."""
    raise RuntimeError(f"{password} does not fit")
'''


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/maths.py").write_text(TOOLS)
    async with spindle.open(tmp_path) as opened:
        await opened.sync()
        yield opened


async def over_mcp(app: Spindle, tool: str, **arguments: object) -> str:
    async with served(app) as url, Client(url) as client:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        return f"{text_of(result)} {result.model_dump_json()}"


async def over_rest(app: Spindle, tool: str, **arguments: object) -> str:
    access = ServingAccess.of(ServeConfig(port=0), {})
    with listen("127.0.0.1", 0) as listening:
        running = asyncio.create_task(
            serve(make_app(app, access), listening, lambda: access.config, lambda: None)
        )
        try:
            async with httpx2.AsyncClient(base_url=address_of(listening, "127.0.0.1")) as client:
                answer = await client.post(f"/tools/{tool}", json=arguments)
                assert answer.status_code >= 400
                return answer.text
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def to_an_agent(app: Spindle, tool: str, **arguments: object) -> str:
    async with ModelServer() as server:
        server.feed(Turn(calls=[ToolCall(tool, arguments)]), "done")
        async with AsyncOpenAI(base_url=server.openai_url, api_key="any", max_retries=0) as client:
            model = OpenAIChatModel("gpt-scripted", provider=OpenAIProvider(openai_client=client))
            await Agent(app, model).run("go")
        return server.requests[-1].tool_answers[-1].text


REMOTE = [over_mcp, over_rest, to_an_agent]
WORDS = {over_rest: "GET /openapi.json has its parameters"}


@pytest.mark.parametrize("told", REMOTE)
async def test_arguments_that_do_not_fit_are_told_in_the_readers_words(app: Spindle, told) -> None:
    said = await told(app, "divide", a=1, by="nothing")
    assert "the arguments do not fit divide" in said
    assert "spindle " not in said
    wanted = (
        "GET /openapi.json has its parameters" if told is over_rest else "its input schema says what it takes"
    )
    assert wanted in said
    with pytest.raises(spindle.InvalidArgumentsError) as caught:
        await app.call("divide", a=1, by="nothing")
    assert caught.value.hint == '`show("divide").input_schema` has its parameters'


@pytest.mark.parametrize("told", REMOTE)
async def test_where_a_tool_failed_is_not_told_to_remote_readers(app: Spindle, told) -> None:
    said = await told(app, "divide", a=1, by=0)
    assert "ZeroDivisionError: division by zero" in said
    for secret in ("maths.py", "quotient", "Traceback", "a / by"):
        assert secret not in said


async def test_where_a_tool_failed_is_told_to_the_owner(app: Spindle) -> None:
    result = await app.call("divide", a=1, by=0)
    assert result.failure is not None
    assert (result.failure.file, result.failure.function, result.failure.code) == (
        "tools/maths.py", "quotient", "return a / by",
    )  # fmt: skip
    assert result.failure.line == TOOLS.splitlines().index("    return a / by") + 1
    assert result.failure.traceback.startswith("Traceback (most recent call last):\n  File ")
    assert result.failure.traceback.endswith("ZeroDivisionError: division by zero")
    assert "spindle/sources" not in result.failure.traceback
    assert "failure" not in result.to_dict()
    [record] = await app.history()
    assert record.error is not None
    assert record.error["failure"] == result.failure.to_dict()


async def test_secrets_are_masked_where_a_tool_failed(app: Spindle) -> None:
    result = await app.call("unlock", password="hunter2-hunter2")
    assert result.failure is not None
    assert "••• does not fit" in result.failure.traceback
    assert "hunter2" not in repr(result.failure)
    [record] = await app.history()
    assert "hunter2" not in repr(record)


async def test_an_unknown_tool_is_told_in_the_readers_words(app: Spindle) -> None:
    with pytest.raises(spindle.NotFoundError) as caught:
        await app.call("crm.get")
    assert caught.value.hint == 'try `search("get")`'
    assert caught.value.hint_for("shell") == "try `spindle search get`"
    said = await over_rest(app, "crm.get")
    assert "there is no tool" in said
    assert "search" not in said
