"""`spindle add NAME ws://…`: a WebSocket service, with a tool that sends any message."""

from __future__ import annotations

import asyncio
import json
import tomllib
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve


async def echoes(connection: ServerConnection) -> None:
    async for text in connection:
        await connection.send(json.dumps({"you said": json.loads(text)}))


async def test_a_service_is_added_and_answers_any_message(workspace: Any, program: Any) -> None:
    async with serve(echoes, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/feed.json"
        done = await asyncio.to_thread(program, "add", "feed", url)
        assert done.code == 0, done.err
        assert "+ feed.send" in done.out
        assert "describe the service's own requests" in done.err
        said = await asyncio.to_thread(program, "call", "feed.send", '{"message": {"op": "hello", "n": [1]}}')
        assert json.loads(said.out) == {"you said": {"op": "hello", "n": [1]}}


@pytest.mark.parametrize("url", ["ws://h.example/x", "wss://h.example/openapi.json", "WSS://h.example/utcp"])
def test_the_address_says_what_it_is(workspace: Any, spindle: Any, url: str) -> None:
    words = ["--no-sync", "--bearer-env", "TOKEN", "--header", "X-Team=a"]
    done = spindle("add", "feed", url, *words)
    assert done.code == 0, done.err
    written = tomllib.loads((workspace.root / "spindle.toml").read_text())["sources"]["feed"]
    assert (written["kind"], written["url"]) == ("websocket", url.replace("WSS", "wss"))
    assert written["auth"] == {"type": "bearer", "token": "${TOKEN}"}
    assert written["headers"] == {"X-Team": "a"}
    assert list(written["requests"]) == ["send"]
