"""What a script is, and what is said of a wrong one. Spoken to with plain HTTP."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from spindle.testing import Failure, Gate, ModelRequest, ModelServer, ToolCall, Turn

HELLO = {"model": "gpt-scripted", "messages": [{"role": "user", "content": "hello"}]}


def ask(server: ModelServer, body: Any = HELLO, path: str = "/chat/completions") -> httpx2.Response:
    return httpx2.post(
        f"{server.openai_url}{path}", json=body, headers={"authorization": "Bearer secret-key"}
    )


def said(response: httpx2.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


@pytest.fixture
def model() -> Any:
    with ModelServer() as server:
        yield server


def test_each_request_takes_the_next_turn_and_what_is_left_can_be_seen(model: ModelServer) -> None:
    model.feed("one", Turn("two"), lambda request: f"you said {request.prompt}")
    assert model.left == 3
    assert [said(ask(model)) for _ in range(3)] == ["one", "two", "you said hello"]
    assert model.left == 0


def test_a_script_that_has_ended_says_so(model: ModelServer) -> None:
    model.feed("one")
    ask(model)
    answer = ask(model)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "the script of this model server has ended: it has 1 turns, and this is request 2" in message


async def test_one_function_can_answer_every_request() -> None:
    async def reply(request: ModelRequest) -> Turn:
        await asyncio.sleep(0)
        return Turn(request.prompt.upper())

    async with ModelServer(reply=reply) as server, httpx2.AsyncClient() as client:
        for _ in range(3):
            answer = await client.post(f"{server.openai_url}/chat/completions", json=HELLO)
            assert said(answer) == "HELLO"


def test_a_function_that_raises_is_told_to_the_client(model: ModelServer) -> None:
    def wrong(request: ModelRequest) -> str:
        raise KeyError("nothing here")

    model.feed(wrong, lambda request: 7)  # type: ignore[arg-type, return-value]
    answer = ask(model)
    assert answer.status_code == 400
    assert "raised KeyError: 'nothing here'" in answer.json()["error"]["message"]
    assert "not 7" in ask(model).json()["error"]["message"]


def test_what_is_no_turn_is_refused_when_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"a turn of a script is a Turn, .* not 7"):
        ModelServer(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not both"):
        ModelServer("one", reply=lambda request: "two")


def test_requests_are_recorded_without_their_key(model: ModelServer) -> None:
    model.feed("one")
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    system = {"role": "system", "content": [{"type": "text", "text": "be brief"}]}
    ask(model, {**HELLO, "messages": [system, *HELLO["messages"]], "tools": [tool]})
    [request] = model.requests
    assert (request.api, request.model, request.stream) == ("openai-chat", "gpt-scripted", False)
    assert request.instructions == "be brief"
    assert request.prompt == "hello"
    assert request.tools == [tool]
    assert request.tool_names == ["add"]
    assert request.headers["content-type"] == "application/json"
    assert "secret-key" not in repr(dict(request.headers))


def test_a_gate_holds_an_answer_back_until_the_test_opens_it(model: ModelServer) -> None:
    gate = Gate()
    model.feed(Turn("late", after=gate))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, model)
        gate.wait_reached()
        assert not asking.done()
        gate.open()
        assert said(asking.result(30)) == "late"


async def test_a_gate_in_the_middle_of_a_stream_comes_after_the_first_piece() -> None:
    gate = Gate()
    async with ModelServer(Turn("one two three", midway=gate)) as server, httpx2.AsyncClient() as client:
        url = f"{server.openai_url}/chat/completions"
        async with client.stream("POST", url, json={**HELLO, "stream": True}) as answer:
            lines = answer.aiter_lines()
            seen = ""
            while "one" not in seen:
                seen += await anext(lines)
            await gate.reached()
            assert "two" not in seen
            gate.open()
            rest = "".join([line async for line in lines])
    assert "two" in rest
    assert rest.endswith("[DONE]")


def test_a_server_that_is_left_with_a_request_waiting_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    ended: list[int] = []

    def asking() -> None:
        try:
            ended.append(ask(server).status_code)
        except httpx2.HTTPError:
            ended.append(0)

    with ModelServer(Turn("never", after=gate)) as server:
        thread = threading.Thread(target=asking)
        thread.start()
        gate.wait_reached()
    thread.join(300)
    assert ended in ([0], [500])
    gate.open()
    assert caplog.records == []


def test_a_server_that_does_not_run_says_so_and_can_be_started_again() -> None:
    server = ModelServer("one", "two")
    with pytest.raises(RuntimeError, match="is not running"):
        _ = server.url
    for text in ("one", "two"):
        with server:
            assert said(ask(server)) == text
            with pytest.raises(RuntimeError, match="running already"):
                server.__enter__()


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/chat/completions", [], "not a JSON object"),
        ("/chat/completions", {"model": "m"}, "`messages` is missing or empty"),
        ("/responses", {"model": "m"}, "`input` is missing or empty"),
        ("/responses", {"input": "x", "previous_response_id": "resp_9"}, "'resp_9' is not one of"),
        ("/messages", {"messages": []}, "at least one message"),
        ("/messages", {"messages": [{"role": "user", "content": "x"}]}, "max_tokens: Field required"),
    ],
)
def test_a_request_that_no_provider_would_take_is_refused(
    model: ModelServer, path: str, body: Any, problem: str
) -> None:
    model.feed("not this time")
    answer = ask(model, body, path)
    assert answer.status_code == 400
    assert problem in answer.json()["error"]["message"]
    assert model.left == 1


def test_what_is_not_json_is_refused(model: ModelServer) -> None:
    answer = httpx2.post(f"{model.openai_url}/chat/completions", content=b"{")
    assert (answer.status_code, "is not JSON" in answer.json()["error"]["message"]) == (400, True)


def test_names_of_tools_that_a_provider_refuses_are_refused(model: ModelServer) -> None:
    def refused(*names: str) -> str:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return ask(model, {**HELLO, "tools": tools}).json()["error"]["message"]

    assert "the name of a tool is 'time.now'" in refused("time.now")
    assert "the name of a tool is 'xxx" in refused("x" * 65)
    assert "two tools are named 'add'" in refused("add", "add")


def test_tool_calls_and_their_answers_have_to_fit(model: ModelServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    other = {**answer, "tool_call_id": "c2"}

    def refused(*messages: Any) -> str:
        return ask(model, {**HELLO, "messages": [*HELLO["messages"], *messages]}).json()["error"]["message"]

    assert "the tool calls 'c1' are not answered" in refused(asked)
    assert "'c2', which nobody asked for" in refused(asked, answer, other)
    assert "'c1' is answered twice" in refused(asked, answer, answer)
    model.feed("right", "again")
    body = {**HELLO, "messages": [*HELLO["messages"], asked, answer]}
    assert said(ask(model, body)) == "right"
    body["messages"] += [asked, answer]
    assert said(ask(model, body)) == "again"


def test_calls_without_an_id_get_one_of_their_own(model: ModelServer) -> None:
    model.feed(*[Turn(calls=[ToolCall("add"), ToolCall("add", id="mine")])] * 2)
    found = [
        call["id"] for _ in range(2) for call in ask(model).json()["choices"][0]["message"]["tool_calls"]
    ]
    assert len({id for id in found if id != "mine"}) == 2


def test_a_failure_has_its_status_and_says_when_to_come_back(model: ModelServer) -> None:
    model.feed(Failure(429, "slow down", retry_after=0.5))
    answer = ask(model)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "0.5")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
