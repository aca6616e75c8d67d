"""MCP servers that answer calls with tasks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.running import PATIENCE
from spindle.errors import CallTimeoutError, ServerError
from spindle.runs.outcomes import Finished, Paused
from spindle.settings import Settings

SERVER = Path(__file__).parents[2] / "servers" / "task_server.py"
EACH_ERA = pytest.mark.parametrize("era", ["modern", "handshake"])


def workspace(folder: Path, era: str, **more: Any) -> Settings:
    command = [warm.PYTHON, str(SERVER), era, str(folder / "log.jsonl")]
    protocol = "handshake" if era == "handshake" else "2026-07-28"
    source = {"command": command, "protocol": protocol, "answers": ["elicitation"], **more}
    return Settings(folder, {"sources": {"s": source}})


def heard(folder: Path, method: str) -> list[Any]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["params"] for line in lines if line["method"] == method]


@EACH_ERA
async def test_a_task_of_a_server_is_followed_to_its_end(tmp_path: Path, era: str) -> None:
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with spindle.open(settings=workspace(tmp_path, era)) as app:
        options = spindle.CallOptions(on_progress=on_progress)
        result = await app.call("s.work", {}, options)
    assert result.text == "work done"
    assert "step 2" in told
    (called,) = heard(tmp_path, "tools/call")
    if era == "modern":
        capabilities = called["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert capabilities["extensions"]["io.modelcontextprotocol/tasks"] == {}
        assert result.meta == {"k": 1}
    else:
        assert called["task"] == {}


async def test_the_error_of_a_task_is_the_server_s(tmp_path: Path) -> None:
    async with spindle.open(settings=workspace(tmp_path, "modern")) as app:
        with pytest.raises(ServerError, match="no") as failed:
            await app.call("s.fail", {})
    assert failed.value.details == {"code": -32050, "data": {"d": 1}}


async def test_a_task_that_asks_pauses_and_goes_on_in_another_process(tmp_path: Path) -> None:
    async with spindle.open(settings=workspace(tmp_path, "modern")) as app:
        paused = await app.run("s.ask", {})
        assert isinstance(paused, Paused)
        (pause,) = paused.pauses
        assert pause.message == "Who?"
        done = await app.resume(pause.token, {"name": "Ada"})
    assert isinstance(done, Finished)
    assert done.result.text == "ask done Ada"
    assert len(heard(tmp_path, "tools/call")) == 1, "the task goes on, and is not made again"
    assert not heard(tmp_path, "tasks/cancel")


async def test_a_call_that_is_given_up_cancels_its_task(tmp_path: Path) -> None:
    async with spindle.open(settings=workspace(tmp_path, "modern", timeout=0.3)) as app:
        with pytest.raises(CallTimeoutError):
            await app.call("s.never", {})
        async with asyncio.timeout(PATIENCE):
            while not heard(tmp_path, "tasks/cancel"):
                await asyncio.sleep(0.02)
    assert heard(tmp_path, "tasks/cancel")[0]["taskId"] == "t0"
