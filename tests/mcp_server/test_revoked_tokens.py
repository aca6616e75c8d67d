"""Requests that run when the token that they showed is revoked: they end at once, without their answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

import spindle
from mcp_server.test_direct_calls import SETTINGS, RawClient
from mcp_server.test_http_serving import JSON, initialize, modern, rpc
from servers.rest import RestWorkspace
from servers.running import PATIENCE, until
from servers.serving import served
from serving.test_fair_places import HOLDING
from spindle import Context, tool
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess

ANN = {"authorization": f"Bearer {'a' * 20}"}
GONE = "the token was revoked while this ran"


class Work:
    """A tool that takes until it is told to go on, and what became of its calls."""

    def __init__(self) -> None:
        self.running, self.ended = 0, list[str]()
        self.go = asyncio.Event()

        @tool
        async def work(context: Context, told: bool = False) -> str:
            """Take long."""
            if told:
                context.log("at work")
            self.running += 1
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return "done"

        self.tool = work


def without_ann(access: ServingAccess) -> None:
    tokens = {name: SETTINGS["tokens"][name] for name in ("bob",)}
    access.adopt(ServeConfig.model_validate({**access.config.model_dump(), "tokens": tokens}))


async def opened(http: httpx2.AsyncClient, url: str, token: dict[str, str]) -> dict[str, str]:
    answer = await http.post(url, json=initialize(), headers={**JSON, **token})
    session = answer.headers["mcp-session-id"]
    return {**JSON, **token, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}


@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize("told", [False, True], ids=["no answer yet", "in the middle of a stream"])
async def test_a_call_in_flight_ends_with_its_token_and_no_other_does(
    tmp_path: Path, era: str, told: bool
) -> None:
    work = Work()
    access = ServingAccess.of(ServeConfig(port=0, **SETTINGS), {})
    async with (
        spindle.open(tmp_path, tools=[work.tool]) as app,
        served(app, access=access) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        asyncio.timeout(PATIENCE),
    ):

        async def call(token: dict[str, str]) -> httpx2.Response:
            if era == "modern":
                message, headers = modern("tools/call", "work", arguments={"told": told})
                message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info"
                return await http.post(url, json=message, headers={**headers, **token})
            message = rpc("tools/call", 5, name="work", arguments={"told": told})
            return await http.post(url, json=message, headers=await opened(http, url, token))

        anns = asyncio.create_task(call(ANN))
        bobs = asyncio.create_task(call({"authorization": f"Bearer {'b' * 20}"}))
        await until(lambda: work.running == 2)
        without_ann(access)
        await access.end_revoked()
        answer = await anns
        assert work.ended == ["cancelled"], "its source was told"
        if told:
            assert "at work" in answer.text
            assert "done" not in answer.text
        else:
            assert answer.status_code == 401
            assert GONE in answer.json()["message"]
            assert "invalid_token" in answer.headers["www-authenticate"]
        work.go.set()
        assert "done" in (await bobs).text
        assert (await call(ANN)).status_code == 401 if era == "modern" else True


async def test_a_call_that_went_past_the_guard_ends_too(tmp_path: Path) -> None:
    work = Work()
    access = ServingAccess.of(ServeConfig(port=0, **SETTINGS), {})
    async with (
        spindle.open(tmp_path, tools=[work.tool]) as app,
        served(app, access=access) as url,
        RawClient(url, "a" * 20) as client,
        asyncio.timeout(PATIENCE),
    ):
        await client.open()
        work.go.set()
        for number in (1, 2):
            client.send(rpc("tools/call", number, name="work", arguments={}))
            assert (await client.response())[0] == 200
        work.go.clear()
        client.send(rpc("tools/call", 3, name="work", arguments={}))
        await until(lambda: work.running == 3)
        without_ann(access)
        await access.end_revoked()
        status, _, body = await client.response()
        assert status == 401
        assert GONE in body.decode()
        assert work.ended == ["done", "done", "cancelled"]


async def test_changes_that_concern_others_end_nothing(tmp_path: Path) -> None:
    work = Work()
    access = ServingAccess.of(ServeConfig(port=0, **SETTINGS), {})
    async with (
        spindle.open(tmp_path, tools=[work.tool]) as app,
        served(app, access=access) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        asyncio.timeout(PATIENCE),
    ):
        message, headers = modern("tools/call", "work", arguments={})
        call = asyncio.create_task(http.post(url, json=message, headers={**headers, **ANN}))
        await until(lambda: work.running == 1)
        changed: Any = {**SETTINGS["tokens"], "ann": {**SETTINGS["tokens"]["ann"], "groups": ["new"]}}
        access.adopt(ServeConfig.model_validate({**access.config.model_dump(), "tokens": changed}))
        await access.end_revoked()
        work.go.set()
        assert (await call).status_code == 200


async def test_a_token_that_the_shell_revokes_ends_its_calls_in_a_server(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "holding.py").write_text(HOLDING)
    token = rest.spindle("token", "create", "ann").stdout.strip()
    with rest.serve(token=token) as served:
        async with (
            asyncio.timeout(2 * PATIENCE),
            httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as http,
        ):
            headers = {"authorization": f"Bearer {token}"}
            call = asyncio.create_task(http.post("/tools/wait_for_the_gate", json={}, headers=headers))
            while not (rest.root / "tools" / "running-0").exists():
                await asyncio.sleep(0.02)
            assert rest.spindle("token", "revoke", "ann").returncode == 0
            answer = await call
            assert answer.status_code == 401
            assert GONE in answer.json()["message"]
