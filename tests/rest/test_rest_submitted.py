"""Calls over HTTP whose callers do not wait: `Prefer: respond-async` puts them into a queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE

ASYNC = {"prefer": "respond-async, wait=10"}
SETTINGS = """
[serve]
excluded_tools = ["picture"]
[serve.tokens]
ann = { token = "token-of-ann" }
ben = { token = "token-of-ben" }
[engine.queues.small]
served = true
limit = 1
[engine.queues.inside]
"""
FLOWS = {
    "shouted": "inputs: {text: {type: string}}\nnodes:\n- {id: say, tool: say, params: {text: '${text}!'}}\n",
    "hidden": "nodes:\n- {id: draw, tool: picture}\n",
    "asking": "nodes:\n- {id: say, tool: say, params: {text: done}, approval: required}\n",
}


@pytest.fixture
def queued(tmp_path: Path) -> RestWorkspace:
    rest = RestWorkspace(tmp_path / "queued")
    (rest.root / "flows").mkdir()
    for name, text in FLOWS.items():
        (rest.root / "flows" / f"{name}.yaml").write_text(text)
    rest.settings(SETTINGS)
    return rest


def ask(served: Served, method: str, path: str, user: str = "ann", **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer token-of-{user}", **more.pop("headers", {})}
    return httpx2.request(method, f"{served.url}{path}", headers=headers, timeout=PATIENCE, **more)


def submitted(served: Served, path: str, user: str = "ann", **arguments: Any) -> httpx2.Response:
    return ask(served, "POST", f"/tools/{path}", user, json=arguments, headers=ASYNC)


def test_a_call_waits_in_a_queue_is_executed_by_a_worker_and_asked_after(queued: RestWorkspace) -> None:
    with queued.serve() as served:
        call = submitted(served, "say", text="one")
        assert call.status_code == 202, call.text
        assert call.headers["preference-applied"] == "respond-async"
        assert (call.json()["category"], call.json()["waits_for"]) == ("queued", [])
        place = call.headers["location"]
        assert place == f"/runs/{call.json()['run']}"
        assert ask(served, "GET", place).json()["category"] == "queued"
        flow, asking = submitted(served, "shouted", text="two"), submitted(served, "asking")
        again = submitted(served, "say?dedup=k", text="three")
        assert submitted(served, "say?dedup=k", text="three").headers["location"] == again.headers["location"]
        assert (
            submitted(served, "say?dedup=k", "ben", text="x").headers["location"] != again.headers["location"]
        )
        later = submitted(served, "say?at=90d&priority=200", text="later")
        # Nobody else learns of it, nor can end it.
        for method in ("GET", "DELETE"):
            assert ask(served, method, place, "ben").status_code == 404
        queued.spindle("worker", "--until-empty")
        assert [ask(served, "GET", found.headers["location"]).text for found in (call, flow, again)] == [
            "one",
            "two!",
            "three",
        ]
        assert ask(served, "GET", asking.headers["location"]).json()["waits_for"][0]["kind"] == "approval"
        assert ask(served, "GET", later.headers["location"]).json()["category"] == "queued"
        for found in (later, asking):
            assert ask(served, "DELETE", found.headers["location"]).status_code == 204
            assert ask(served, "DELETE", found.headers["location"]).status_code == 204
            gone = ask(served, "GET", found.headers["location"])
            assert (gone.status_code, "was cancelled" in gone.text) == (404, True)
        ended = ask(served, "DELETE", place)
        assert (ended.status_code, "is done" in ended.text) == (422, True)


def test_what_cannot_be_submitted_is_said_at_once(queued: RestWorkspace) -> None:
    with queued.serve() as served:
        assert submitted(served, "say?queue=small", text="one").status_code == 202
        full = submitted(served, "say?queue=small", text="two")
        assert (full.status_code, full.headers["retry-after"]) == (429, "1")
        assert "is full: 1 runs wait, and 1 may" in full.json()["message"]
        for path, status, words in (
            ("say?queue=smal", 404, "did you mean 'small'?"),
            ("say?queue=inside", 403, "they may use default, small"),
            ("say?priority=1", 400, "from 100 to 1000000"),
            ("say?priority=²00", 400, "from 100"),
            ("say?at=soon", 400, "is no time"),
            ("say?at=2030-01-01T09:00", 400, "with its zone"),
            ("say?dedup=", 400, "1 to 255"),
            ("say?quue=small", 400, "did you mean 'queue'?"),
            ("nothing", 404, "nothing"),
            ("picture", 404, "picture"),
        ):
            refused = submitted(served, path, text="three")
            assert (refused.status_code, words in refused.text) == (status, True), refused.text
        wrong = submitted(served, "say", words="three")
        assert (wrong.status_code, wrong.json()["category"]) == (400, "invalid_arguments")
        alone = ask(served, "POST", "/tools/say?queue=small", json={"text": "four"})
        assert (alone.status_code, "Prefer: respond-async" in alone.text) == (400, True)
        document = ask(served, "GET", "/openapi.json").json()
        assert document["components"]["parameters"]["queue"]["schema"]["enum"] == ["default", "small"]
        assert "202" in document["paths"]["/tools/say"]["post"]["responses"]
        assert "respond-async" in document["info"]["description"]
        assert len(queued.json("runs", "--status", "queued", "--json")) == 1


def test_a_run_reaches_in_a_worker_what_its_caller_may_reach(queued: RestWorkspace) -> None:
    with queued.serve() as served:
        call = submitted(served, "hidden")
        assert call.status_code == 202
        queued.spindle("worker", "--until-empty")
        refused = ask(served, "GET", call.headers["location"])
        assert refused.status_code >= 400
        assert "picture" in refused.json()["message"]
        (failed,) = queued.json("runs", "--status", "failed", "--json")
        assert (failed["principal"], "picture" in failed["error"]["message"]) == ("ann", True)
    # The owner's own run reaches everything.
    queued.spindle("run", "--detach", "hidden")
    queued.spindle("worker", "--until-empty")
    assert [run["principal"] for run in queued.json("runs", "--status", "done", "--json")] == ["local"]


def test_without_an_engine_the_preference_is_left_alone(queued: RestWorkspace) -> None:
    queued.settings('[engine]\nkind = "local"\n')
    with queued.serve() as served:
        answer = httpx2.post(f"{served.url}/tools/say", json={"text": "one"}, headers=ASYNC, timeout=PATIENCE)
        assert (answer.status_code, answer.text) == (200, "one")
        named = httpx2.post(
            f"{served.url}/tools/say?queue=default", json={"text": "one"}, headers=ASYNC, timeout=PATIENCE
        )
        assert "no engine" in named.json()["message"]
        assert "parameters" not in httpx2.get(f"{served.url}/openapi.json").json()["components"]
