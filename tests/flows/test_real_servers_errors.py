"""A flow over an MCP server that reports errors only as text in `isError`, and its data as JSON in text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from servers.running import OpenSources
from spindle import Finished
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
    elif left:
        result = {"content": [{"type": "text", "text": json.dumps(left.pop(0))}], "isError": True}
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
