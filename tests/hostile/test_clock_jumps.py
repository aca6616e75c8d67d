"""The time of day jumps by a minute, again and again: nothing waits longer, ends earlier, or is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle import Context, Finished, Paused, tool
from spindle.adapters.state_store import RunsIn, StateStoreOf
from spindle.auth.encryption import Sealer
from spindle.calls.caller import Clock
from spindle.domain.run import Run
from spindle.errors import BreakerOpenError, CallTimeoutError
from spindle.flows import Flow, ToolNode
from spindle.flows.definition import CacheRule, Retry
from spindle.stores.sqlite import SqliteStore


class Jumping:
    """A time of day that is right at every third look, else a minute ahead or behind."""

    def __init__(self) -> None:
        self._true = time.time
        self._jumps = itertools.cycle([0.0, 60.0, -60.0])

    def __call__(self) -> float:
        return self._true() + next(self._jumps)


SETTINGS = """
[sources.flaky]
kind = "openapi"
document = "flaky.json"
rate_limit = "1000/s"
retry = { attempts = 3, wait = 0.001, max_wait = 0.01 }
breaker = { failures = 3, cooldown = 3600 }
"""


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Jumping()
    monkeypatch.setattr(time, "time", clock)
    return Clock(now=clock)


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "flaky", "version": "1"},
    "paths": {"/{kind}": {"get": {
        "operationId": "get",
        "parameters": [{"name": "kind", "in": "path", "required": True, "schema": {"type": "string"}}],
        "responses": {"200": {"description": "done"}},
    }}},
}  # fmt: skip


@contextlib.asynccontextmanager
async def flaky_server() -> AsyncIterator[tuple[int, list[str]]]:
    """Answers every third request, and hangs up on the others; `/never` it does not answer at all."""
    paths: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            paths.append(path)
            if path == "/never":
                await reader.read()
            elif paths.count(path) % 3 == 0:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], paths


async def test_guards_of_calls_do_not_look_at_the_time_of_day(tmp_path: Path, jumping: Clock) -> None:
    """Retries come, a rate lets through, a timeout is one, a breaker stays open."""
    began = time.monotonic()
    async with flaky_server() as (port, paths):
        document = {**DOCUMENT, "servers": [{"url": f"http://127.0.0.1:{port}"}]}
        (tmp_path / "flaky.json").write_text(json.dumps(document))
        (tmp_path / "spindle.toml").write_text(SETTINGS)
        async with spindle.open(tmp_path, clock=jumping) as app:
            for number in range(10):
                assert (await app.call("flaky.get", kind=f"n{number}")).text == "done"
            assert len(paths) == 30
            with pytest.raises(CallTimeoutError):
                await app.call("flaky.get", {"kind": "never"}, spindle.CallOptions(timeout=0.05))
            for _ in range(6):
                with pytest.raises(BreakerOpenError):
                    await app.call("flaky.get", kind="n0")
    assert time.monotonic() - began < 60


async def test_runs_pause_and_end_while_the_time_of_day_jumps(tmp_path: Path, jumping: Clock) -> None:
    effects: list[str] = []

    @tool
    def effect(name: str) -> str:
        effects.append(name)
        return f"did {name}"

    @tool
    async def asks(context: Context) -> str:
        await context.call("effect", name="one")
        answer = context.ask("Go on?", expires_in=3600)
        return (await context.call("effect", name=answer)).text

    async with spindle.open(tmp_path, tools=[effect, asks], clock=jumping) as app:
        for number in range(9):
            outcome = await app.run("asks")
            assert isinstance(outcome, Paused)
            done = await app.resume(outcome.pauses[0].token, f"two {number}")
            assert isinstance(done, Finished)
            flow = Flow(ToolNode("effect", params={"name": "x"}, retry=Retry(3)), cache=CacheRule(30))
            assert isinstance(await app.run_flow(flow), Finished)
        assert effects.count("one") == 9
        assert {run.status for run in await app.store.runs(limit=99)} == {"done"}


async def test_what_another_framework_keeps_stays_in_order_when_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log is ordered by time; a process that starts later may have the earlier time of day."""
    true = time.time
    async with SqliteStore(":memory:") as store:
        key = "k" * 43 + "="
        foreign = StateStoreOf(store, Sealer(lambda: [key]))
        run = Run("x", owner="p1", lease=1000.0, id="r1")
        assert await RunsIn(foreign).save_run(run)
        monkeypatch.setattr(time, "time", lambda: true() - 60)
        later = RunsIn(foreign)
        assert await later.save_run(Run("x", status="done", owner="p1", id="r1"))
        found: Any = await later.run("r1")
        assert found.status == "done"
