"""A process is killed in the middle of a call: nobody knows if it was done, and nothing is done twice unless
a person says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.charging import ChargingServer, charging_server
from servers.leases import end_leases
from spindle import Agent, AgentResult, Finished, InDoubtError, OpenPause, Paused, Spindle
from spindle.testing import ModelServer, ToolCall, Turn

PROCESS = Path(__file__).parent / "doubt_process.py"
MODEL = "openai-chat:gpt-scripted"
PAY = {
    "version": 1,
    "name": "pay",
    "nodes": [
        {"id": "look", "tool": "api.balance"},
        {"id": "pay", "tool": "api.charge", "params": {"amount": 5, "password": "hunter2"}},
        {"id": "after", "tool": "api.balance"},
    ],
    "edges": [{"from": "look", "to": "pay"}, {"from": "pay", "to": "after"}],
    "outputs": {"paid": "${pay}"},
}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""


@pytest.fixture
async def server() -> AsyncIterator[ChargingServer]:
    async with charging_server() as made:
        yield made


async def prepared(root: Path, server: ChargingServer, store: str, settings: str = "") -> None:
    server.write(root, settings, store)
    (root / "flows").mkdir(exist_ok=True)
    (root / "flows" / "pay.json").write_text(json.dumps(PAY))
    async with spindle.open(root) as app:
        await app.sync()


@contextlib.asynccontextmanager
async def working(root: Path, *words: str) -> AsyncIterator[int]:
    """The number of a process that works, and is killed at the end if it was not before."""
    made = await asyncio.create_subprocess_exec(
        warm.PYTHON, str(PROCESS), str(root), *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield made.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(warm.pid_of(made.pid), signal.SIGKILL)
        await made.wait()


async def killed_while_charging(root: Path, server: ChargingServer, *words: str) -> int:
    """The number of the process that was killed after its charge was done and before it was answered."""
    server.held.add("charge")
    count = server.count()
    async with working(root, *words) as front:
        await server.arrived(count + 1)
        number = warm.pid_of(front)
    await server.release()
    return number


async def taken_over(app: Spindle) -> spindle.Outcome:
    (run,) = await app.store.runs(limit=9)
    await end_leases(app.store)
    return await app.resume(run.id)


def the_question(outcome: Any) -> OpenPause:
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    assert pause.kind == "approval"
    return pause


async def test_a_flow_killed_while_it_charged_asks_before_it_charges_again(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store)
    before = time.time()
    number = await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        pause = the_question(await taken_over(app))
        assert server.count() == 1
        assert (pause.source, pause.tool) == ("api", "api.charge")
        assert pause.details["tool"] == "api.charge"
        assert pause.details["arguments"] == {"amount": 5, "password": "•••"}
        known = pause.details["in_doubt"]
        assert known["process"] == f"{socket.gethostname()}, process {number}"
        assert before <= known["begun_at"] <= time.time()
        done = await app.resume(pause.token, True)
        assert isinstance(done, Finished)
        assert server.count() == 2
        assert server.count("balance") == 2, "what was recorded is not done again"
        (decision,) = await app.runner.decisions(done.run_id)
        assert decision == {"tool": "api.charge", "approved": True, "by": "the owner"}


async def test_a_person_who_looked_says_that_it_was_done_and_the_flow_goes_on_with_it(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store)
    await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        pause = the_question(await taken_over(app))
        done = await app.resume(pause.token, {"done": True, "result": {"id": 77}})
        assert isinstance(done, Finished)
        assert done.result.structured == {"paid": {"id": 77}}
        assert server.count() == 1
        assert await app.runner.decisions(done.run_id) == [
            {"tool": "api.charge", "done": True, "by": "the owner"}
        ]


async def test_who_refuses_lets_the_step_fail_and_nothing_is_charged(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store)
    await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        pause = the_question(await taken_over(app))
        with pytest.raises(InDoubtError, match=r"may have been done or not.*; a person decided .*: not now"):
            await app.resume(pause.token, refused="not now")
        assert server.count() == 1


async def test_killed_again_while_it_repeats_it_asks_again(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store)
    await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        first = the_question(await taken_over(app))
    second_process = await killed_while_charging(tmp_path, server, "resume", first.token)
    async with spindle.open(tmp_path) as app:
        second = the_question(await taken_over(app))
        assert second.token != first.token
        assert second.details["in_doubt"]["process"].endswith(f"process {second_process}")
        assert server.count() == 2


async def test_an_agent_killed_while_it_charged_asks_before_it_charges_again(
    tmp_path: Path, store: str, server: ChargingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared(tmp_path, server, store)
    async with ModelServer() as model:
        for name, value in model.environment().items():
            monkeypatch.setenv(name, value)
        model.feed(Turn(calls=[ToolCall("api_balance", {}), ToolCall("api_charge", {"amount": 5})]))
        await killed_while_charging(tmp_path, server, "agent", MODEL)
        async with spindle.open(tmp_path) as app:
            await end_leases(app.store)
            (run,) = await app.store.runs(limit=9)
            agent = Agent(app, MODEL, approve=())
            pause = the_question(await agent.resume(run.id))
            assert server.count() == 1
            model.feed("charged")
            done = await agent.resume(pause.token, {"done": True})
            assert isinstance(done, AgentResult)
            assert done.output == "charged"
            assert server.count() == 1
            assert len(model.requests) == 2, "the model was asked once for each turn"
            assert "as a person has confirmed" in json.dumps(model.requests[-1].messages)


async def test_an_approved_call_that_is_killed_is_not_made_again_on_the_old_approval(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store, 'approve = ["charge"]\n')
    async with spindle.open(tmp_path) as app:
        pause = the_question(await app.run("api.charge", amount=5))
        assert "in_doubt" not in pause.details
    await killed_while_charging(tmp_path, server, "resume", pause.token)
    async with spindle.open(tmp_path) as app:
        again = the_question(await taken_over(app))
        assert "in_doubt" in again.details
        assert server.count() == 1
        done = await app.resume(again.token, {"done": True, "result": {"id": 1}})
        assert isinstance(done, Finished)
        assert done.result.structured == {"id": 1}
        assert server.count() == 1


async def test_with_a_key_that_the_api_honours_it_is_sent_again_with_the_same_key(
    tmp_path: Path, store: str, server: ChargingServer
) -> None:
    await prepared(tmp_path, server, store, 'idempotency_key = { header = "Idempotency-Key" }\n')
    await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        assert isinstance(await taken_over(app), Finished)
    first, second = (asked for asked in server.asked if asked.operation == "charge")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert len(first.headers["idempotency-key"]) >= 16


@pytest.mark.parametrize(
    ("settings", "charges"), [('in_doubt = "repeat"\n', 2), ('in_doubt = { "char.*" = "fail" }\n', 1)]
)
async def test_settings_decide_without_a_person(
    tmp_path: Path, store: str, server: ChargingServer, settings: str, charges: int
) -> None:
    await prepared(tmp_path, server, store, settings)
    await killed_while_charging(tmp_path, server, "flow")
    async with spindle.open(tmp_path) as app:
        if charges == 2:
            assert isinstance(await taken_over(app), Finished)
        else:
            with pytest.raises(InDoubtError, match="was not repeated"):
                await taken_over(app)
    assert server.count() == charges
