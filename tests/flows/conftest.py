"""A workspace with small tools, and a service that fails on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.echo_server import Answer, EchoServer, a_document
from servers.flow_tools import TOOLS, OpenFlows

STATUSES = {
    "rate_limited": 429,
    "unauthorized": 401,
    "forbidden": 403,
    "missing": 404,
    "gone": 410,
    "slow": 408,
    "broken": 500,
    "refused": 422,
}


@pytest.fixture
async def service() -> AsyncIterator[EchoServer]:
    """Answers `/fail/NAME` with the status of that name, and all else with an empty object."""
    server = EchoServer()
    for name, status in STATUSES.items():
        body = json.dumps({"message": f"it is {name}"}).encode()
        server.answers[f"/fail/{name}"] = Answer(body, status)
    server.answers["/echo"] = Answer(b'{"id": 7, "state": {"open": true}}')
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    async with listening:
        yield server


@pytest.fixture
def opened(tmp_path: Path, service: EchoServer) -> OpenFlows:
    """Opens the workspace; the tools above are there, and `api.fail_NAME` and `api.echo` of the service."""
    paths: dict[str, Any] = {
        f"/fail/{name}": {"get": {"operationId": f"fail_{name}", "responses": {"200": {"description": "ok"}}}}
        for name in STATUSES
    }
    paths["/echo"] = {"get": {"operationId": "echo", "responses": {"200": {"description": "ok"}}}}
    (tmp_path / "api.json").write_text(json.dumps(a_document(paths)))
    (tmp_path / "spindle.toml").write_text(
        f"""
        [sources.api]
        kind = "openapi"
        document = "api.json"
        base_url = "{service.url}"
        retry = {{attempts = 1}}
        """
    )

    @asynccontextmanager
    async def open(**options: Any) -> AsyncIterator[spindle.Spindle]:
        async with spindle.open(tmp_path, **{"tools": TOOLS, **options}) as app:
            yield app

    return open
