"""Agents of the workspace over MCP and REST: they work for the client, which is told what they wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from servers.running import PATIENCE
from servers.serving import served
from spindle import tool
from spindle.domain.serve import ServeConfig
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.testing import ModelServer, ToolCall, Turn, workspace

OWN = "io.modelcontextprotocol/"
VERSION = "2026-07-28"


@tool(destructive=True)
def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


DESK = {"description": "Looks after files.", "model": "openai-chat:gpt-scripted", "tools": ["delete"]}
SETTINGS = {"agents": {"desk": DESK}}


@pytest.fixture(autouse=True)
def in_reach(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


async def requested(url: str, method: str, *, tasks: bool, **params: Any) -> Any:
    capabilities = {"elicitation": {"form": {}}, "extensions": {f"{OWN}tasks": {}} if tasks else {}}
    meta = {
        f"{OWN}protocolVersion": VERSION,
        f"{OWN}clientInfo": {"name": "raw", "version": "1"},
        f"{OWN}clientCapabilities": capabilities,
    }
    name = params.get("name") or params.get("taskId")
    headers = {
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
        "accept": "application/json, text/event-stream",
        **({"mcp-name": str(name)} if name else {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        answer = (await http.post(url, json=body, headers=headers)).json()
    return answer.get("result") or answer["error"]


async def test_a_client_that_knows_tasks_gets_one_and_is_asked_what_the_agent_asks(
    server: ModelServer,
) -> None:
    server.feed(Turn(calls=[ToolCall("ask_user", {"question": "Which?"})]), "That one.", "Hello.")
    call = {"name": "desk", "arguments": {"task": "tidy"}}
    async with workspace([delete], settings=SETTINGS) as app, served(app) as url:
        await app.sync()
        listed = await requested(url, "tools/list", tasks=True)
        made = await requested(url, "tools/call", tasks=True, **call)
        assert made["resultType"] == "task"
        answers: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE):
            while (found := await requested(url, "tasks/get", tasks=True, taskId=made["taskId"]))[
                "status"
            ] != "completed":
                if found["status"] == "input_required" and not answers:
                    ((key, question),) = found["inputRequests"].items()
                    assert question["params"]["message"] == "Which?"
                    field = next(iter(question["params"]["requestedSchema"]["properties"]))
                    answers = {key: {"action": "accept", "content": {field: "this"}}}
                    update = {"taskId": made["taskId"], "inputResponses": answers}
                    await requested(url, "tasks/update", tasks=True, **update)
                await asyncio.sleep(0.02)
        plain = await requested(url, "tools/call", tasks=False, **call)
    assert "Looks after files." in [item["description"] for item in listed["tools"]]
    assert found["result"]["content"] == [{"type": "text", "text": "That one."}]
    assert found["result"]["_meta"]["io.spindle/usage"]["requests"] == 2
    assert plain["content"] == [{"type": "text", "text": "Hello."}]


async def test_over_rest_an_agent_answers_or_says_that_it_waits(server: ModelServer) -> None:
    server.feed("Hello.", Turn(calls=[ToolCall("delete", {"name": "all"})]), "Gone.")
    access = ServingAccess.of(ServeConfig(port=0), {})
    async with workspace([delete], settings=SETTINGS, visible=access.shows) as app:
        await app.sync()
        web = httpx2.ASGITransport(make_app(app, access))
        async with httpx2.AsyncClient(transport=web, base_url="http://127.0.0.1", timeout=PATIENCE) as http:
            said = await http.post("/tools/desk", json={"task": "hello"})
            waits = await http.post("/tools/desk", json={"task": "tidy"})
            described = (await http.get("/openapi.json")).json()["paths"]["/tools/desk"]["post"]
            (pause,) = await app.pauses()
            await app.resume(pause.token, {"approved": True})
            done = await http.get(waits.headers["location"])
    assert (said.status_code, said.text) == (200, "Hello.")
    assert (waits.status_code, done.status_code, done.text) == (202, 200, "Gone.")
    assert pause.details["tool"] == "delete"
    assert {"200", "202"} <= described["responses"].keys()
