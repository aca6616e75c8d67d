"""A call in doubt whose caller, an MCP client, may decide about it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp import Client

import spindle
from servers.charging import charging_server
from servers.serving import ERAS, served, text_of
from spindle import Context, Paused, tool
from spindle.mcp_server.client_peer import ANSWER, PAUSE_PREFIX, _question


@tool
async def pay(context: Context) -> str:
    context.ask("Ready?")
    return (await context.call("api.charge", amount=5)).text


async def test_a_client_confirms_that_it_was_done(tmp_path: Path) -> None:
    async with charging_server() as server:
        server.write(tmp_path, 'approvers = "caller"\n')
        async with spindle.open(tmp_path, tools=[pay]) as app:
            await app.sync()
            async with served(app) as url, Client(url, mode=ERAS["modern"]) as client:
                await client.call_tool("pay", {})
                (asked,) = await app.pauses()
                server.held.add("charge")
                work = asyncio.ensure_future(app.resume(asked.token, "yes"))
                await server.arrived(1)
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                await server.release()
                doubtful = await app.resume(asked.run_id)
                assert isinstance(doubtful, Paused)
                (pause,) = doubtful.pauses
                form: Any = _question(pause)
                assert sorted(form["params"]["requestedSchema"]["properties"]) == ["approved", "done"]
                assert "begun_at" in form["params"]["message"]
                said = {ANSWER: {"action": "accept", "content": {"done": True}}}
                params = {"name": "pay", "arguments": {}, "inputResponses": said}
                params["requestState"] = f"{PAUSE_PREFIX}{pause.token}"
                request = t.CallToolRequest(params=t.CallToolRequestParams.model_validate(params))
                answer = await client.session.send_request(request, t.CallToolResult)
                assert "as a person has confirmed" in text_of(answer)
                assert server.count() == 1
