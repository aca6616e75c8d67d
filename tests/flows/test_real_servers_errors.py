"""A flow over an MCP server that reports errors only as text in `isError`, and its data as JSON in text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.running import OpenSources
from spindle import Finished, tool
from spindle.errors import ToolError
from spindle.flows.text.document import from_document

SERVER = """
import json, sys
left = json.loads(sys.argv[1])
tool = {"name": "search", "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "limited", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [tool]}
    elif left and isinstance(left[0], dict) and "code" in left[0]:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": left.pop(0)}), flush=True)
        continue
    elif left:
        told = left.pop(0)
        text = told if isinstance(told, str) else json.dumps(told)
        result = {"content": [{"type": "text", "text": text}], "isError": True}
    else:
        found = {"items": [{"title": "one"}, {"title": "two"}], "total": 2}
        result = {"content": [{"type": "text", "text": json.dumps(found, indent=2)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def source(folder: Path, *errors: Any) -> dict[str, Any]:
    script = folder / "limited.py"
    script.write_text(SERVER)
    command = [sys.executable, "-I", "-S", str(script), json.dumps(errors)]
    return {"command": command, "protocol": "handshake", "retry": {"attempts": 1}}


def flow(action: str) -> Any:
    return from_document(
        {
            "nodes": [
                {"id": "search", "tool": "mcp.search", "params": {"q": "x"}},
                {
                    "id": "wait",
                    "tool": "mcp.search",
                    "params": {"q": "${search.error.category}"},
                    "parse": "text",
                },
                {"id": "again", "tool": "mcp.search"},
            ],
            "edges": [
                {"from": "search", "action": action, "to": "wait"},
                {"from": "wait", "to": "again"},
            ],
            "outputs": {
                "first": "${again.items[0].title}",
                "total": "${again.total}",
                "why": "${search.error.action}",
            },
        }
    )


async def test_a_limit_in_the_text_of_an_error_takes_its_edge(
    open_sources: OpenSources, tmp_path: Path
) -> None:
    told = {"error": {"status": 429, "message": "slow down"}}
    async with open_sources({"mcp": source(tmp_path, told)}) as app:
        outcome = await app.run_flow(flow("rate_limited"))
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"first": "one", "total": 2, "why": "rate_limited"}


async def test_other_statuses_take_theirs(open_sources: OpenSources, tmp_path: Path) -> None:
    for status, action in (
        (401, "auth_failed"),
        (404, "resource_missing"),
        (503, "server_error"),
        (504, "timeout"),
    ):
        told = {"error": {"status": status, "message": "no"}}
        async with open_sources({"mcp": source(tmp_path, told)}) as app:
            outcome = await app.run_flow(flow(action))
        assert isinstance(outcome, Finished)
        assert outcome.result.value["why"] == action


WAITS: list[float] = []


@tool
def pause(seconds: float) -> None:
    """Wait as long as a server asks for."""
    WAITS.append(seconds)


LOOP = from_document(
    {
        "nodes": [
            {"id": "search", "tool": "mcp.search", "params": {"q": "x"}},
            {
                "id": "pause",
                "tool": "pause",
                "params": {"seconds": "${search.error.retry_after ?? 1}"},
            },
        ],
        "edges": [
            {"from": "search", "action": "rate_limited", "to": "pause"},
            {"from": "pause", "to": "search"},
        ],
        "outputs": {"titles": "${search.items[1].title}"},
    }
)

LIMITS: dict[str, tuple[Any, float]] = {
    "a status in the text": ({"error": {"status": 429, "message": "slow down"}}, 1),
    "a status and a wait": ({"message": "no", "status": 429, "retry_after": 7}, 7),
    "a code": ({"error": {"code": "rate_limit_exceeded", "message": "later"}}, 1),
    "an error of the protocol": (
        {"code": -32000, "message": "no", "data": {"status": 429, "retryAfter": 3}},
        3,
    ),
}


@pytest.mark.parametrize("name", LIMITS)
async def test_a_limit_is_waited_for_and_the_call_made_again(
    name: str, open_sources: OpenSources, tmp_path: Path
) -> None:
    WAITS.clear()
    told, wait = LIMITS[name]
    async with open_sources({"mcp": source(tmp_path, told, told)}, tools=[pause]) as app:
        outcome = await app.run_flow(LOOP)
        assert isinstance(outcome, Finished)
        _, _, events = await app.flows.trace(outcome.run_id)
    assert outcome.result.value == {"titles": "two"}
    assert pytest.approx([wait, wait]) == WAITS
    assert [event.action for event in events] == ["rate_limited", None, "rate_limited", None, None]


@pytest.mark.parametrize(
    "told", ["HTTP 429 Too Many Requests", "Error: 429 Too Many Requests", "429: Too Many Requests"]
)
async def test_a_status_with_its_own_phrase_is_no_sentence(
    told: str, open_sources: OpenSources, tmp_path: Path
) -> None:
    async with open_sources({"mcp": source(tmp_path, told)}, tools=[pause]) as app:
        outcome = await app.run_flow(LOOP)
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"titles": "two"}


async def test_a_sentence_needs_a_rule(open_sources: OpenSources, tmp_path: Path) -> None:
    told = "GET https://api.test/x: 429 Too Many Requests"
    with pytest.raises(ToolError):
        async with open_sources({"mcp": source(tmp_path, told)}, tools=[pause]) as app:
            await app.run_flow(LOOP)
    ruled = {**source(tmp_path, told), "errors": {"rate_limited": r"\b429 Too Many"}}
    async with open_sources({"mcp": ruled}, tools=[pause]) as app:
        outcome = await app.run_flow(LOOP)
    assert isinstance(outcome, Finished)
    assert outcome.result.value == {"titles": "two"}
