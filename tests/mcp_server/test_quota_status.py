"""A quota that is used up, as clients of MCP see it: status 429 with the time to wait, and an error that says
which quota it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError

from mcp_server.test_http_serving import handshake, modern, rpc
from servers.running import PATIENCE
from servers.serving import ERAS, by_command_line, serve_command, text_of
from spindle.mcp_protocol.names import RATE_LIMITED

SETTINGS = """
[serve.quotas.rules.few]
calls = "2/hour"
tools = ["say"]
"""
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    tools = "from spindle import tool\n\n@tool\ndef say(text: str) -> str:\n    return text\n"
    (tmp_path / "tools" / "all.py").write_text(tools)
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    return tmp_path


async def _posted(http: httpx2.AsyncClient, url: str, era: str) -> httpx2.Response:
    arguments = {"text": "x"}
    if era == "modern":
        body, headers = modern("tools/call", "say", arguments=arguments)
    else:
        body: Any = rpc("tools/call", 7, name="say", arguments=arguments)
        headers = await handshake(http, url)
    return await http.post(url, json=body, headers=headers)


@EACH_ERA
async def test_a_used_up_quota_is_a_429_that_says_when(workspace: Path, era: str) -> None:
    async with serve_command(workspace) as (url, _), httpx2.AsyncClient(timeout=PATIENCE) as http:
        for _ in range(2):
            assert (await _posted(http, url, era)).status_code == 200
        refused = await _posted(http, url, era)
        assert refused.status_code == 429
        assert 1700 <= int(refused.headers["retry-after"]) <= 1800
        error = refused.json()["error"]
        assert error["code"] == RATE_LIMITED
        assert "the quota 'few' of calls is used up" in error["message"]
        assert 1700 <= error["data"]["retryAfter"] <= 1800
        # A client of the SDK reads the same, and goes on.
        async with Client(url, mode=ERAS[era]) as client:
            with pytest.raises(MCPError, match="the quota 'few' of calls is used up"):
                await client.call_tool("say", {"text": "x"})
            assert [tool.name for tool in (await client.list_tools()).tools] == ["say"]


@EACH_ERA
async def test_over_pipes_it_is_a_result_that_a_model_reads(workspace: Path, era: str) -> None:
    async with by_command_line(workspace, era) as client:
        done = [await client.call_tool("say", {"text": "x"}) for _ in range(3)]
    assert [each.is_error for each in done] == [False, False, True]
    assert "the quota 'few' of calls is used up" in text_of(done[2])
