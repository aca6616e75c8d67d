"""A flow that waits, called over HTTP: it is answered with its run, goes on by itself, and is asked after."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE

FLOWS = {
    "for_a_while": "nodes:\n- {id: w, wait: {for: 0.2}}\n- {id: say, tool: say, params: {text: over}}\n"
    "edges: [{from: w, to: say}]\n",
    "for_a_call": "nodes:\n- {id: w, wait: {webhook: true}}\n"
    '- {id: say, tool: say, params: {text: "got ${w.n}"}}\nedges: [{from: w, to: say}]\n',
    "for_a_person": "nodes:\n- {id: say, tool: say, params: {text: done}, approval: required}\n",
}


@pytest.fixture
def waiting(tmp_path: Path) -> RestWorkspace:
    rest = RestWorkspace(tmp_path / "waiting")
    (rest.root / "flows").mkdir()
    for name, text in FLOWS.items():
        (rest.root / "flows" / f"{name}.yaml").write_text(text)
    rest.settings('[serve.tokens]\nann = { token = "token-of-ann" }\nben = { token = "token-of-ben" }\n')
    return rest


def ask(served: Served, method: str, path: str, user: str = "ann", **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer token-of-{user}", **more.pop("headers", {})}
    return httpx2.request(method, f"{served.url}{path}", headers=headers, timeout=PATIENCE, **more)


def ended(served: Served, path: str) -> httpx2.Response:
    pause = threading.Event()
    for _ in range(int(PATIENCE * 10)):
        found = ask(served, "GET", path)
        if found.status_code != 202:
            return found
        pause.wait(0.1)
    raise AssertionError("it did not end")


def test_a_flow_that_waits_is_answered_with_its_run_and_goes_on_by_itself(waiting: RestWorkspace) -> None:
    with waiting.serve() as served:
        answer = ask(served, "POST", "/tools/for_a_while", json={})
        body = answer.json()
        assert (answer.status_code, body["category"]) == (202, "paused")
        assert answer.headers["location"] == f"/runs/{body['run']}"
        assert "retry-after" in answer.headers
        assert [pause["kind"] for pause in body["waits_for"]] == ["wait"]
        assert "w waits" in body["message"]
        done = ended(served, answer.headers["location"])
        assert (done.status_code, done.text) == (200, "over")
        # Nobody else learns of it.
        assert ask(served, "GET", answer.headers["location"], "ben").status_code == 404
        assert ask(served, "GET", f"/runs/{body['run'][:8]}").status_code == 404


def test_a_webhook_is_called_by_the_address_in_the_answer(waiting: RestWorkspace) -> None:
    with waiting.serve() as served:
        answer = ask(served, "POST", "/tools/for_a_call", json={})
        (wait,) = answer.json()["waits_for"]
        assert ask(served, "GET", answer.headers["location"]).status_code == 202
        called = httpx2.post(f"{served.url}{wait['webhook']}", json={"n": 7}, timeout=PATIENCE)
        assert called.status_code < 300
        assert ended(served, answer.headers["location"]).text == "got 7"


def test_a_person_who_approves_lets_it_go_on(waiting: RestWorkspace) -> None:
    with waiting.serve() as served:
        answer = ask(served, "POST", "/tools/for_a_person", json={})
        assert (answer.status_code, answer.json()["waits_for"][0]["kind"]) == (202, "approval")
        (pause,) = waiting.json("pauses", "--json")
        waiting.spindle("resume", pause["token"], "--approve")
        assert ended(served, answer.headers["location"]).text == "done"


def test_events_tell_of_the_wait_too(waiting: RestWorkspace) -> None:
    with waiting.serve() as served:
        answer = ask(served, "POST", "/tools/for_a_call", json={}, headers={"accept": "text/event-stream"})
        if answer.status_code == 202:
            assert answer.json()["category"] == "paused"
        else:
            assert "event: paused" in answer.text
