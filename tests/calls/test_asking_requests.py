"""Servers that ask while a resource is read, a prompt is filled in or a value is completed, in Python: who
answers, and what is said where nobody can."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.model_clients import client
from servers.running import PATIENCE
from spindle import Agent, Answer, CallOptions, Principal, SourceQuestion
from spindle.app import Spindle
from spindle.errors import ClientError, PermissionDeniedError, SpindleError
from spindle.settings import Settings
from spindle.testing import Gate, ModelServer, ToolCall, Turn

SERVER = Path(__file__).parent.parent / "servers" / "inquiring_server.py"
ERAS = ["handshake", "2026-07-28"]
NAME = "openai-chat:gpt-scripted"
ANN, BOB = Principal("ann"), Principal("bob")
ALL = ["elicitation", "sampling", "roots"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of the server over HTTP."""
    process = subprocess.Popen([warm.PYTHON, str(SERVER), "http"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


EACH_SOURCE = [f"{way} {era}" for way in ("stdio", "http") for era in ERAS]


@pytest.fixture(params=EACH_SOURCE)
def source(request: pytest.FixtureRequest, address: str) -> dict[str, Any]:
    """The server over both transports, in both eras."""
    way, era = request.param.split()
    reached = {"command": [warm.PYTHON, str(SERVER)]} if way == "stdio" else {"url": address}
    return {**reached, "protocol": era, "answers": ALL}


@pytest.fixture
async def model_server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The models of the settings are those of this server."""
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


def asking(folder: Path, source: dict[str, Any], **tables: Any) -> Settings:
    return Settings(folder, {"sources": {"x": source}, "store": ":memory:", **tables})


async def read(app: Spindle, kind: str, **options: Any) -> Any:
    return json.loads((await app.read(f"ask://{kind}", source="x", **options)).text)


async def filled(app: Spindle, kind: str, **options: Any) -> Any:
    return json.loads((await app.prompt("x.ask", {"kind": kind}, **options)).text)


Request = Callable[..., Awaitable[Any]]
EACH_REQUEST = pytest.mark.parametrize("request_", [read, filled])
METHODS = {read: "resources/read", filled: "prompts/get"}


class Handler:
    """Answers questions in order, and remembers them."""

    def __init__(self, *answers: Answer | Mapping[str, Any] | None) -> None:
        self._answers = list(answers)
        self.asked: list[SourceQuestion] = []

    async def __call__(self, question: SourceQuestion) -> Answer | Mapping[str, Any] | None:
        self.asked.append(question)
        return self._answers.pop(0)


# --- those who answer


@EACH_REQUEST
async def test_a_handler_answers(tmp_path: Path, source: dict[str, Any], request_: Request) -> None:
    handler = Handler({"city": "Rome"}, Answer("decline"))
    async with spindle.open(settings=asking(tmp_path, source), on_question=handler) as app:
        answer = await request_(app, "person", principal=ANN)
        assert answer["city"] == {"action": "accept", "content": {"city": "Rome"}}
        assert (await request_(app, "person"))["city"] == {"action": "decline"}
        outcomes = [(item.tool, item.outcome, item.principal) for item in await app.history()]
    question = handler.asked[0]
    assert (question.message, question.source, question.principal) == ("Which city?", "x", ANN)
    assert question.tool == f"x.{METHODS[request_]}"
    assert question.can_wait is False
    assert outcomes == [(question.tool, "ok", "local"), (question.tool, "ok", "ann")]


@EACH_REQUEST
async def test_the_model_of_the_settings_answers(
    tmp_path: Path, source: dict[str, Any], request_: Request, model_server: ModelServer
) -> None:
    model_server.feed("Dawn", "Dusk")
    handler = Handler({"city": "Rome"})
    settings = asking(tmp_path, source, sampling={"model": NAME})
    async with spindle.open(settings=settings, on_question=handler) as app:
        assert (await request_(app, "model", principal=ANN))["title"]["content"]["text"] == "Dawn"
        both = await request_(app, "all")
    assert both["title"]["content"]["text"] == "Dusk"
    assert both["city"]["content"] == {"city": "Rome"}
    assert [asked.prompt for asked in model_server.requests] == ["A title?", "A title?"]


async def test_the_limits_of_sampling_hold(
    tmp_path: Path, source: dict[str, Any], model_server: ModelServer
) -> None:
    model_server.feed("a", "b")
    settings = asking(tmp_path, source, sampling={"model": NAME, "max_requests": 2})
    async with spindle.open(settings=settings) as app:
        with pytest.raises(SpindleError, match=r"x\.resources/read asked the model more than 2 times"):
            await read(app, "often")
    assert len(model_server.requests) == 2


async def test_an_agent_s_own_model_answers_what_its_tools_read(
    tmp_path: Path, source: dict[str, Any], model_server: ModelServer
) -> None:
    async def consult() -> str:
        """Read what asks the model."""
        return (await app.read("ask://model", source="x")).text

    model_server.feed(Turn(calls=[ToolCall("consult", {})]), "Dawn", "done")
    settings = asking(tmp_path, source, sampling={"model": "openai-chat:gpt-other"})
    async with (
        client("openai-chat", model_server) as model,
        spindle.open(settings=settings, tools=[consult]) as app,
    ):
        await Agent(app, model, tools=["consult"]).run("go")
    assert [asked.model for asked in model_server.requests] == ["gpt-scripted"] * 3
    assert "Dawn" in model_server.requests[-1].tool_answers[0].text


# Over pipes nothing says which of two requests of the handshake era asks.
@pytest.mark.parametrize("source", [way for way in EACH_SOURCE if way != "stdio handshake"], indirect=True)
def test_a_handler_may_block(tmp_path: Path, source: dict[str, Any]) -> None:
    def handler(question: SourceQuestion) -> Mapping[str, Any]:
        return {"city": s.read("ask://nothing", source="x").text}

    with spindle.open(settings=asking(tmp_path, source), on_question=handler) as s:
        answer = json.loads(s.prompt("x.ask", {"kind": "person"}).text)
    assert answer["city"]["content"] == {"city": "{}"}


# --- the time limit


async def test_the_time_limit_stands_still_while_a_person_thinks(
    tmp_path: Path, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's clock is put far beyond the limit while the person is asked."""
    loop = asyncio.get_running_loop()
    later = 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + later)

    async def handler(question: SourceQuestion) -> Mapping[str, Any]:
        nonlocal later
        later += 3600
        # Whatever waits for the clock is due now.
        for _ in range(20):
            await asyncio.sleep(0)
        return {"city": "Rome"}

    slow = {**source, "timeout": PATIENCE}
    async with spindle.open(settings=asking(tmp_path, slow), on_question=handler) as app:
        assert (await read(app, "person"))["city"]["action"] == "accept"
        assert (await filled(app, "person"))["city"]["action"] == "accept"


# --- nobody


@EACH_REQUEST
async def test_where_nobody_can_answer_the_error_says_what_was_asked(
    tmp_path: Path, source: dict[str, Any], request_: Request
) -> None:
    async with spindle.open(settings=asking(tmp_path, source)) as app:
        with pytest.raises(ClientError) as refused:
            await request_(app, "person")
        (record, *_) = await app.history()
        assert await app.pauses() == []
    error = refused.value
    assert f"'x' asks a person before it answers {METHODS[request_]}: Which city?" in error.message
    assert "on_question" in (error.hint or "")
    assert "terminal" in (error.hint_for("shell") or "")
    assert error.details["schema"]["properties"] == {"city": {"type": "string"}}
    assert record.outcome == "client"


async def test_a_handler_without_an_answer_ends_the_request(tmp_path: Path, source: dict[str, Any]) -> None:
    async with spindle.open(settings=asking(tmp_path, source), on_question=Handler(None)) as app:
        with pytest.raises(ClientError, match="asks a person before it answers"):
            await read(app, "person")
        assert await read(app, "nothing") == {}, "the session goes on"


async def test_without_a_model_the_way_to_one_is_said(tmp_path: Path, source: dict[str, Any]) -> None:
    async with spindle.open(settings=asking(tmp_path, source)) as app:
        with pytest.raises(SpindleError) as refused:
            await filled(app, "model")
    assert "language model" in refused.value.message
    assert "set `model` in [sampling]" in (refused.value.hint or "")


async def test_an_approval_that_cannot_be_waited_for_is_said(
    tmp_path: Path, source: dict[str, Any], model_server: ModelServer
) -> None:
    settings = asking(tmp_path, source, sampling={"model": NAME, "approve": True})
    async with spindle.open(settings=settings) as app:
        with pytest.raises(ClientError) as refused:
            await read(app, "model")
        assert await app.pauses() == []
    assert "a person has to approve" in refused.value.message
    assert "only calls of tools wait for an approval" in (refused.value.hint or "")
    assert model_server.requests == []


async def test_a_server_of_2026_is_told_the_truth_about_who_can_be_asked(
    tmp_path: Path, address: str
) -> None:
    source = {"url": address, "protocol": "2026-07-28", "answers": ALL}
    async with spindle.open(settings=asking(tmp_path, source)) as app:
        assert await read(app, "declared") == []
        assert json.loads((await app.call("x.ask", kind="declared")).text) == ["elicitation"], "by a pause"
        with pytest.raises(ClientError, match="Somebody must be asked") as refused:
            await read(app, "strict")
        assert "on_question" in (refused.value.hint or "")
    async with spindle.open(settings=asking(tmp_path, source), on_question=Handler()) as app:
        assert await read(app, "declared") == ["elicitation"]


@EACH_REQUEST
async def test_a_page_is_visited_before_the_request_is_made_again(
    tmp_path: Path, source: dict[str, Any], request_: Request
) -> None:
    """The server asks for the same page each time."""
    handler = Handler(Answer("accept"), None)
    async with spindle.open(settings=asking(tmp_path, source), on_question=handler) as app:
        with pytest.raises(ClientError, match=r"Sign there\. \(https://sign\.example/1\)"):
            await request_(app, "page")
    assert [question.url for question in handler.asked] == ["https://sign.example/1"] * 2


async def test_a_page_that_is_declined_ends_the_request(tmp_path: Path) -> None:
    source = {"command": [warm.PYTHON, str(SERVER)], "protocol": "handshake"}
    async with spindle.open(settings=asking(tmp_path, source), on_question=Handler(Answer("decline"))) as app:
        with pytest.raises(PermissionDeniedError, match=r"x\.resources/read wants visited was declined"):
            await read(app, "page")


# --- one user's question never reaches another


@pytest.mark.parametrize("sessions", ["auto", "shared"])
async def test_over_pipes_a_question_of_a_read_never_reaches_whoever_calls_meanwhile(
    tmp_path: Path, sessions: str
) -> None:
    """Nothing says whether the call or the read asks, and they are of two users."""
    seen: list[tuple[str, str]] = []
    waiting, may_go = asyncio.Event(), asyncio.Event()

    async def handler(question: SourceQuestion) -> Mapping[str, Any]:
        seen.append((question.principal.id, question.tool))
        if not waiting.is_set():
            waiting.set()
            await may_go.wait()
        return {"city": question.principal.id}

    source = {"command": [warm.PYTHON, str(SERVER)], "protocol": "handshake", "sessions": sessions}
    async with (
        asyncio.timeout(PATIENCE),
        spindle.open(settings=asking(tmp_path, source), on_question=handler) as app,
    ):
        call = asyncio.create_task(app.call("x.ask", {"kind": "person"}, CallOptions(principal=ANN)))
        await waiting.wait()
        assert (await read(app, "person", principal=BOB))["city"]["content"] == {"city": "bob"}
        may_go.set()
        assert '{"city": "ann"}' in (await call).text
        waiting.clear()
        may_go.clear()
        reading = asyncio.create_task(read(app, "person", principal=BOB))
        await waiting.wait()
        told = await app.call("x.ask", {"kind": "person"}, CallOptions(principal=ANN))
        assert '{"city": "ann"}' in told.text
        may_go.set()
        assert (await reading)["city"]["content"] == {"city": "bob"}
    asked = ("ann", "x.ask"), ("bob", "x.resources/read")
    assert seen == [*asked, *reversed(asked)]


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_each_question_finds_its_own_user(tmp_path: Path, address: str, era: str) -> None:
    seen: list[str] = []

    async def handler(question: SourceQuestion) -> Mapping[str, Any]:
        seen.append(question.principal.id)
        return {"city": question.principal.id}

    source = {"url": address, "protocol": era, "max_concurrency": 20}
    async with spindle.open(settings=asking(tmp_path, source), on_question=handler) as app:
        names = [f"user{number}" for number in range(5)]
        people = [Principal(name) for name in names]
        reads = await asyncio.gather(*(read(app, "person", principal=person) for person in people))
        fills = await asyncio.gather(*(filled(app, "person", principal=person) for person in people))
    assert [item["city"]["content"]["city"] for item in reads] == names
    assert [item["city"]["content"]["city"] for item in fills] == names
    assert sorted(seen) == sorted(names * 2)


async def test_a_request_that_is_given_up_asks_no_more(
    tmp_path: Path, source: dict[str, Any], model_server: ModelServer
) -> None:
    gate = Gate()
    model_server.feed(Turn("late", after=gate))
    settings = asking(tmp_path, source, sampling={"model": NAME})
    async with asyncio.timeout(PATIENCE), spindle.open(settings=settings) as app:
        reading = asyncio.create_task(read(app, "often"))
        await gate.reached()
        reading.cancel()
        await asyncio.wait([reading])
        assert await read(app, "nothing") == {}
        gate.open()
    assert len(model_server.requests) == 1
