"""Following a server's lists: what is heard, and how often somebody listens again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CONNECTION_CLOSED, INVALID_REQUEST, SUBSCRIPTION_ID
from spindle.sources.mcp import changes
from spindle.sources.mcp.client import McpClient
from spindle.sources.mcp.peers import Peers

OFFERED = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {}}


class Listened:
    """A dispatcher on which a test plays the server of each subscription."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.client = McpClient(self, Peers("s"), (), lambda method, params: None)  # type: ignore[arg-type]
        self.client.version, self.client.is_modern = "2026-07-28", True
        self.client.capabilities = OFFERED
        self.wanted: list[Any] = []
        self.says: list[str] = []

    async def send_raw_request(self, method: str, params: Any, options: Any = None) -> dict[str, Any]:
        self.wanted.append(params["notifications"])
        meta = {"_meta": {SUBSCRIPTION_ID: options["request_id"]}}
        acknowledged = {"notifications": params["notifications"], **meta}
        assert self.client.told_subscriber("notifications/subscriptions/acknowledged", acknowledged)
        for said in self.says:
            assert self.client.told_subscriber(said, meta)
        if not self.ends:
            await asyncio.get_running_loop().create_future()
        end = self.ends.pop(0)
        if end is not None:
            raise end
        return {}


async def followed(
    server: Listened, monkeypatch: pytest.MonkeyPatch, turns: int
) -> tuple[list[float], list[str]]:
    """The seconds waited before each new try, and what was told."""
    waits: list[float] = []
    told: list[str] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == turns:
            enough.set()
            await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(changes.asyncio, "sleep", sleep)
    following = asyncio.create_task(
        changes.follow_changes(
            server.client,
            lambda: told.append("tools"),
            lambda method, params, whose=None: told.append(method),
        )
    )
    await asyncio.wait({following, asyncio.create_task(enough.wait())}, return_when=asyncio.FIRST_COMPLETED)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return waits, told


async def test_a_server_that_ends_each_stream_is_asked_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Listened(*[McpError(CONNECTION_CLOSED, "gone")] * 8)
    waits, told = await followed(server, monkeypatch, 8)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert server.wanted[0] == {"toolsListChanged": True, "promptsListChanged": True}
    # What may have changed while nobody listened is told each time but the first.
    assert told.count("tools") == 7


async def test_a_server_that_tells_of_changes_is_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Listened(None, None, None)
    server.says = ["notifications/tools/list_changed"]
    waits, told = await followed(server, monkeypatch, 3)
    assert waits == [1, 1, 1]
    assert told.count("tools") == 5  # three times told, and twice for what may have been missed


async def test_who_is_refused_does_not_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, _ = await followed(Listened(McpError(INVALID_REQUEST, "no")), monkeypatch, 1)
    assert waits == []
