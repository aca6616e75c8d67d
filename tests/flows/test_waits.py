"""Waits in flows: for a time, an event and a webhook; in other processes, and with clocks that jump."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, Paused, Spindle, SpindleError
from spindle.calls.clock import Clock
from spindle.errors import InvalidArgumentsError
from spindle.flows import Flow, ToolNode, Wait, WaitNode
from spindle.flows.build import definition_of
from spindle.flows.check.check import check
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.flows.text.writing import to_document
from spindle.rest.app import make_app
from spindle.runs.outcomes import OpenPause
from spindle.serving.access import ServingAccess
from spindle.serving.access_log import log_request
from spindle.serving.waiting import AwaitedEvents, continued_meanwhile

PATIENCE = 60.0
AFTER = {"id": "after", "tool": "same", "params": {"value": "${nap}"}}
NAP_AFTER = [{"from": "nap", "to": "after"}]


def flow(wait: dict[str, Any], *more: dict[str, Any], edges: Any = None, **keys: Any) -> Any:
    nodes = [{"id": "nap", "wait": wait, **keys}, *(more or (AFTER,))]
    return from_document({"nodes": nodes, "edges": NAP_AFTER if edges is None else edges})


class SetClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = time.time()

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time)


async def paused_by(app: Spindle, definition: Any) -> OpenPause:
    outcome = await app.run_flow(definition)
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    assert pause.kind == "wait"
    return pause


async def ended(app: Spindle, run: str) -> Any:
    """How a run ended that goes on by itself."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await app.store.run(run)
            assert found is not None
            if found.status in ("done", "failed"):
                return (await app.runner.outcome(found)).value
            await asyncio.sleep(0.02)


# --- times


async def test_a_wait_ends_its_execution_and_goes_on_when_it_is_over(opened: OpenFlows) -> None:
    at = SetClock()
    async with opened(clock=at.clock) as app:
        pause = await paused_by(app, flow({"for": "2h"}))
        assert pause.message == "nap waits for 7200 s"
        assert not app.runner.executes(pause.run_id)
        at.time += 7199
        await app.runner.due.look()
        await app.runner.due.settled()
        again = await app.resume(pause.run_id)  # too early: it waits for the rest, with the same end
        assert isinstance(again, Paused)
        assert again.pauses[0].expires_at == pause.expires_at
    async with opened(clock=at.clock) as app:  # another process
        at.time += 2
        await app.runner.due.look()
        await app.runner.due.settled()
        assert await ended(app, pause.run_id) == {"value": True}


async def test_a_point_in_time_that_is_past_is_no_wait(opened: OpenFlows) -> None:
    async with opened() as app:
        done = await app.run_flow(flow({"until": "2020-01-31T09:00:00Z"}))
        assert isinstance(done, Finished)


async def test_a_wait_that_was_over_stays_over_when_the_clock_is_set_back(opened: OpenFlows) -> None:
    at = SetClock()
    ask = {"id": "ask", "ask": "And now?"}
    given = flow({"for": 100}, ask, edges=[{"from": "nap", "to": "ask"}])
    async with opened(clock=at.clock) as app:
        pause = await paused_by(app, given)
        at.time += 101
        asked = await app.resume(pause.run_id)
        assert isinstance(asked, Paused)
        assert asked.pauses[0].kind == "input"
        at.time -= 10_000
        done = await app.resume(asked.pauses[0].token, "well")
        assert isinstance(done, Finished)
        assert done.result.value == "well"


async def test_a_process_of_the_workspace_continues_it_by_itself(opened: OpenFlows) -> None:
    notes: list[str] = []
    async with opened() as app, continued_meanwhile(app, notes.append):
        pause = await paused_by(app, flow({"for": 0.3}))
        assert await ended(app, pause.run_id) == {"value": True}
    assert notes == []


async def test_a_run_of_a_flow_that_is_not_known_here_is_left_alone(opened: OpenFlows) -> None:
    from spindle.flows import Node

    class Own(Node):
        def post(self, shared: Any, prep_res: Any, exec_res: Any) -> None:
            shared["own"] = 1

    at = SetClock()
    nap = WaitNode(Wait(span=10), id="nap")
    nap >> Own()
    async with opened(clock=at.clock) as app:
        pause = await paused_by(app, Flow(nap, name="mine"))
    at.time += 11
    async with opened(clock=at.clock) as app:
        app.runner.due.can_do = app.flows.can_continue
        await app.runner.due.look()
        await app.runner.due.settled()
        run = await app.store.run(pause.run_id)
        assert run is not None
        assert run.status == "paused"
    async with opened(clock=at.clock, flows=[Flow(nap, name="mine")]) as app:
        await app.runner.due.look()
        await app.runner.due.settled()
        run = await app.store.run(pause.run_id)
        assert run is not None
        assert run.status == "done"


async def test_a_time_cannot_be_answered_but_the_wait_can_be_refused(opened: OpenFlows) -> None:
    sorry = {"id": "sorry", "tool": "same", "params": {"value": "${nap.error.message}"}}
    given = flow({"for": 100}, sorry, edges=[{"from": "nap", "action": "refused", "to": "sorry"}])
    async with opened() as app:
        pause = await paused_by(app, given)
        with pytest.raises(InvalidArgumentsError, match="waits for a time"):
            await app.resume(pause.token, True)
        done = await app.resume(pause.token, refused="no longer needed")
        assert isinstance(done, Finished)
        assert done.result.value == {"value": "no longer needed"}


# --- events


async def test_an_event_continues_the_runs_that_wait_for_it(opened: OpenFlows) -> None:
    wait = {"event": "orders/*", "where": {"id": 7}, "schema": {"required": ["sum"]}}
    async with opened() as app, continued_meanwhile(app, print):
        pause = await paused_by(app, flow(wait))
        for data in ({"id": 6, "sum": 1}, {"id": 7}, {"id": 7, "sum": 2}, {"id": 7, "sum": 3}):
            await app.emit("orders/paid", data)
        await app.emit("other", {"id": 7, "sum": 4})
        assert await ended(app, pause.run_id) == {"value": {"id": 7, "sum": 2}}


async def test_an_event_that_does_not_come_in_time_is_a_timeout(opened: OpenFlows) -> None:
    at = SetClock()
    late = {"id": "late", "tool": "same", "params": {"value": "${nap.error.category}"}}
    edges = [{"from": "nap", "action": "timeout", "to": "late"}]
    async with opened(clock=at.clock) as app:
        pause = await paused_by(app, flow({"event": "never"}, late, edges=edges, timeout=60))
        at.time += 61
        await AwaitedEvents(app, print).deliver([await app.emit("never", 1)])  # too late
        await app.runner.due.look()
        await app.runner.due.settled()
        assert await ended(app, pause.run_id) == {"value": "timeout"}


# --- webhooks

BODY = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@asynccontextmanager
async def served(app: Spindle) -> AsyncIterator[httpx.AsyncClient]:
    from spindle.domain.serve import ServeConfig

    config = ServeConfig(auth_token="secret", allowed_hosts=("here",))
    api = make_app(app, ServingAccess.of(config))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://here") as client:
        yield client


async def test_a_webhook_is_handed_out_before_and_called_once(opened: OpenFlows) -> None:
    tell = {"id": "tell", "tool": "same", "params": {"value": "https://me${hooks.nap}"}}
    nodes = [tell, {"id": "nap", "wait": {"webhook": True, "schema": BODY}}, AFTER]
    edges = [{"from": "tell", "to": "nap"}, *NAP_AFTER]
    definition = from_document({"nodes": nodes, "edges": edges})
    async with opened() as app, served(app) as client:
        assert await check(definition, app.show) == []
        pause = await paused_by(app, definition)
        _, _, events = await app.flows.trace(pause.run_id)
        address = pause.details["webhook"]
        assert events[0].output == {"value": f"https://me{address}"}
        assert len(address) > 50
        refused = await client.post(address, json={"ok": "perhaps"})
        assert (refused.status_code, (await app.pauses())[0].token) == (400, pause.token)
        taken = await client.post(address, json={"ok": True})
        assert (taken.status_code, taken.json()) == (202, {"accepted": True})
        assert await ended(app, pause.run_id) == {"value": {"ok": True}}
        again = await client.post(address, json={"ok": True})
        assert again.status_code == 404


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[" * 100_000, "application/json", 400),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "application/json", 400),
        (b"{" + b"x" * 2_000_000, "application/json", 413),
        (b'{"ok": true, "ok": false}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"", "application/json", 400),
        (b"&".join(b"a=1" for _ in range(2_000)), "application/x-www-form-urlencoded", 400),
        (b"${secrets.KEY} <script>", "text/plain", 400),
    ],
    ids=["open", "deep", "large", "twice", "not text", "empty", "many fields", "a template"],
)
async def test_a_hostile_body_leaves_the_run_waiting(
    opened: OpenFlows, body: bytes, kind: str, status: int
) -> None:
    async with opened() as app, served(app) as client:
        pause = await paused_by(app, flow({"webhook": True, "schema": BODY}))
        answer = await client.post(pause.details["webhook"], content=body, headers={"Content-Type": kind})
        assert answer.status_code == status
        assert [found.token for found in await app.pauses()] == [pause.token]


def test_logs_do_not_show_addresses(caplog: pytest.LogCaptureFixture) -> None:
    scope: Any = {"type": "http", "method": "POST", "path": "/hooks/abc123", "headers": [], "client": None}
    with caplog.at_level("INFO"):
        log_request(scope, 202, 1, 0.1)
    assert "/hooks/…" in caplog.text
    assert "abc123" not in caplog.text


async def test_what_comes_is_data_and_no_template(opened: OpenFlows) -> None:
    async with opened() as app, served(app) as client:
        pause = await paused_by(app, flow({"webhook": True}))
        answer = await client.post(pause.details["webhook"], content="${hooks.nap}")
        assert answer.status_code == 202
        assert await ended(app, pause.run_id) == {"value": "${hooks.nap}"}


async def test_a_call_over_http_that_waits_is_answered_with_its_run(
    opened: OpenFlows, tmp_path: Path
) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "napping.yaml").write_text("nodes:\n- {id: nap, wait: {for: 1h}}\n")
    async with opened() as app, served(app) as client:
        await app.sync()
        answer = await client.post("/tools/napping", json={}, headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 202
        assert answer.json()["message"] == "nap waits for 3600 s"
        (run,) = {pause.run_id for pause in await app.pauses()}
        assert answer.headers["Location"] == f"/runs/{run}"


async def test_no_other_token_is_an_address(opened: OpenFlows) -> None:
    async with opened() as app, served(app) as client:
        asked = await app.run_flow(from_document({"nodes": [{"id": "ask", "ask": "Well?"}]}))
        assert isinstance(asked, Paused)
        napping = await paused_by(app, flow({"for": 100}))
        for token in (asked.pauses[0].token, napping.token, "0" * 48, "x" * 5000):
            answer = await client.post(f"/hooks/{token}", content="yes")
            assert answer.status_code == 404
            assert answer.headers["Retry-After"] == "2"
        assert (await client.get(f"/hooks/{napping.token}")).status_code == 405
        assert (await client.post("/tools/same", json={"value": 1})).status_code == 401
        assert len(await app.pauses()) == 2


async def test_each_item_of_a_batch_has_a_webhook_of_its_own(opened: OpenFlows) -> None:
    inner = {"nodes": [{"id": "hook", "wait": {"webhook": True}}], "outputs": {"got": "${item}=${hook}"}}
    each = {"id": "each", "flow": inner, "batch": {"over": ["a", "b"], "concurrency": 2}}
    async with opened() as app, served(app) as client:
        paused = await app.run_flow(from_document({"nodes": [each]}))
        assert isinstance(paused, Paused)
        async with asyncio.timeout(PATIENCE):
            while (run := await app.store.run(paused.run_id)) is not None and run.status != "done":
                for pause in await app.pauses(run=paused.run_id):
                    await client.post(pause.details["webhook"], content=pause.token[:8])
                await asyncio.sleep(0.01)
        got = await ended(app, paused.run_id)
        assert [item["got"][:2] for item in got] == ["a=", "b="]
        assert got[0]["got"][2:] != got[1]["got"][2:]


# --- files


def test_it_is_the_same_in_python_and_in_files() -> None:
    nap = WaitNode(Wait(event="a/*", where={"x": 1}), id="nap", timeout=5)
    nap >> WaitNode(Wait(webhook=True, schema={"type": "object"}), id="hook") >> ToolNode("same")
    definition = definition_of(Flow(nap))
    document = json.loads(json.dumps(to_document(definition)))
    assert from_document(document) == definition


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"wait": {}}, "needs exactly one of 'until', 'for', 'event', 'webhook'"),
        ({"wait": {"for": 1, "until": 2}}, "needs exactly one of 'until', 'for', 'event', 'webhook'"),
        ({"wait": {"for": 1}, "timeout": 3}, "a wait has no key 'timeout'"),
        ({"wait": {"for": 1}, "retry": {"attempts": 2}}, "a wait has no key 'retry'"),
        ({"wait": {"webhook": True}, "batch": {"over": [1]}}, "a wait has no key 'batch'"),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(node: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenFlowError) as raised:
        from_document({"nodes": [{"id": "nap", **node}]})
    assert message in str(raised.value)


@pytest.mark.parametrize("wait", [{"for": "soon"}, {"until": "tomorrow"}, {"until": "2030-01-01T00:00:00"}])
async def test_a_time_that_is_none_is_found_before_it_runs(opened: OpenFlows, wait: dict[str, Any]) -> None:
    async with opened() as app:
        (problem,) = await check(flow(wait), app.show)
        assert problem.severity == "error"
        with pytest.raises(SpindleError):
            await app.run_flow(flow(wait))
