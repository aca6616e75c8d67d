"""What waits for people, over HTTP: who sees it, who may answer, and what the late are told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from servers.asking import ORDER, asking
from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE


class Asking:
    def __init__(self, served: Served, rest: RestWorkspace) -> None:
        self.served = served
        self.rest = rest

    def __call__(self, user: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer token-of-{user}"}
        url = f"{self.served.url}{path}"
        if method == "GET":
            return httpx2.get(url, headers=headers, timeout=PATIENCE)
        return httpx2.post(url, headers=headers, json=body, timeout=PATIENCE)

    def ordered(self) -> tuple[str, str]:
        """Makes a call that waits. Returns the token of its pause and the path of its run."""
        before = self.tokens("bob")
        answer = self("ann", "POST", "/tools/order", ORDER)
        assert answer.status_code == 202, answer.text
        (token,) = self.tokens("bob") - before
        return token, answer.headers["location"]

    def tokens(self, user: str) -> set[str]:
        return {pause["token"] for pause in self(user, "GET", "/pauses").json()["waiting"]}

    def ended(self, user: str, path: str) -> httpx2.Response:
        pause = threading.Event()
        for _ in range(int(PATIENCE * 10)):
            found = self(user, "GET", path)
            if found.status_code != 202:
                return found
            pause.wait(0.1)
        raise AssertionError("it did not end")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    rest = asking(tmp_path_factory.mktemp("asking") / "rest")
    with rest.serve() as served:
        yield Asking(served, rest)


def test_an_approval_is_given_with_other_arguments_by_whom_it_is_asked(people: Asking) -> None:
    token, run = people.ordered()
    listed = people("bob", "GET", "/pauses").json()["waiting"]
    (pause,) = [pause for pause in listed if pause["token"] == token]
    assert (pause["kind"], pause["principal"], pause["details"]["arguments"]) == ("approval", "ann", ORDER)
    # Whoever made the call sees that it waits, and may not agree to it; others know nothing.
    assert token in people.tokens("ann")
    assert token not in people.tokens("eve")
    path = f"/pauses/{token}"
    assert people("ann", "POST", path, {"answer": {"approved": True}}).status_code == 403
    assert people("eve", "POST", path, {"answer": {"approved": True}}).status_code == 404
    assert people("eve", "POST", path, {"refused": "no"}).status_code == 404

    wrong = people(
        "bob",
        "POST",
        path,
        {"answer": {"approved": True, "arguments": {"order": {"lines": [{"count": "x"}]}}}},
    )
    assert wrong.status_code == 400
    places = {item["path"] for item in wrong.json()["details"]}
    assert "order.lines[0].count" in places, places
    fewer = {"order": {"customer": "ann", "lines": [{"item": "tea", "count": 1}]}}
    given = people("bob", "POST", path, {"answer": {"approved": True, "arguments": fewer}})
    assert given.status_code == 200, given.text
    assert given.json()["run"] == run.removeprefix("/runs/")
    assert people.ended("ann", run).text == "ordered 1 for ann"
    late = people("cat", "POST", path, {"answer": {"approved": True}})
    assert late.status_code == 422
    assert "was answered before, by bob, who approved it with other arguments" in late.json()["message"]
    for user in ("ann", "bob", "cat"):
        answered = people(user, "GET", "/pauses").json()["answered"]
        (found,) = [one["answered"] for one in answered if one["token"] == token]
        assert (found["decision"], found["by"], found["answer"]) == ("changed", "bob", fewer)
    assert all(one["token"] != token for one in people("eve", "GET", "/pauses").json()["answered"])


def test_a_refusal_has_a_reason_and_whoever_asked_may_withdraw(people: Asking) -> None:
    token, run = people.ordered()
    assert people("cat", "POST", f"/pauses/{token}", {"refused": "too dear"}).status_code == 200
    refused = people.ended("ann", run)
    assert refused.status_code == 403
    assert "too dear" in refused.text
    token, run = people.ordered()
    assert people("ann", "POST", f"/pauses/{token}", {"refused": "a mistake"}).status_code == 200
    assert people.ended("ann", run).status_code == 403


def test_a_question_is_answered_by_whom_it_was_asked_and_checked(people: Asking) -> None:
    run = people("eve", "POST", "/tools/lunch", {}).headers["location"]
    (token,) = people.tokens("eve")
    assert token not in people.tokens("bob")
    path = f"/pauses/{token}"
    assert people("bob", "POST", path, {"answer": {"place": "x", "seats": 1}}).status_code == 404
    wrong = people("eve", "POST", path, {"answer": {"place": "x", "seats": "many"}})
    assert wrong.status_code == 400
    assert wrong.json()["details"][0]["path"] == "seats"
    for body in ({"answer": 1, "refused": "x"}, {"refused": 3}, {"anwser": 1}):
        assert people("eve", "POST", path, body).status_code == 400, body
    assert people("eve", "POST", path, {"answer": {"place": "the harbour", "seats": 3}}).status_code == 200
    assert people.ended("eve", run).text == "3 at the harbour, noon"


def test_of_answers_at_the_same_time_one_counts(people: Asking) -> None:
    token, run = people.ordered()
    together, answers = threading.Barrier(4), list[httpx2.Response]()

    def one(user: str) -> None:
        together.wait()
        answers.append(people(user, "POST", f"/pauses/{token}", {"answer": {"approved": True}}))

    threads = [threading.Thread(target=one, args=(user,)) for user in ("bob", "cat") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 422, 422, 422]
    assert people.ended("ann", run).text == "ordered 2 for ann"


def test_the_document_of_runs_describes_the_paths(people: Asking) -> None:
    document = people("ann", "GET", "/runs/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert document["security"] == [{"token": []}]
    for path, methods in document["paths"].items():
        for method in methods.keys() & {"get", "post"}:
            answer = people("ann", method.upper(), path.format(token="none", run="none", name="none"), {})
            assert answer.status_code in (200, 400, 404), (method, path, answer.text)
            assert answer.json().get("message") != "there is nothing here"
    tools = people("ann", "GET", "/openapi.json").json()["paths"]
    assert not [path for path in tools if not path.startswith("/tools/")]
    assert json.dumps(document)
