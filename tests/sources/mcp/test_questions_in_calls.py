"""A server of the handshake era that asks in the middle of a call: a handler answers, or a pause does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import spindle
from mcp_server.conftest import fixture_source
from servers import warm
from servers.running import PATIENCE, until
from servers.serving import served
from spindle import Answer, CallOptions, Finished, Paused, Principal, SourceQuestion
from spindle.errors import (
    ClientError,
    InputRequired,
    InvalidArgumentsError,
    PermissionDeniedError,
    ServerError,
)
from spindle.settings import Settings
from spindle.sources.mcp.questions import MAX_QUESTIONS
from spindle.testing import ModelServer

SERVER = Path(__file__).parent.parent.parent / "servers" / "curious_server.py"


def curious(folder: Path, **settings: Any) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", str(SERVER), str(folder / "did")]
    return {"command": command, "protocol": "handshake", **settings}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, {"sources": {"ask": curious(tmp_path)}})


@pytest.fixture
def did(tmp_path: Path) -> Path:
    return tmp_path / "did"


def lines(did: Path) -> list[str]:
    return did.read_text().splitlines()


def only(outcome: Any) -> Any:
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    return pause


class Handler:
    """Answers questions in order, and remembers them."""

    def __init__(self, *answers: Answer | Mapping[str, Any] | None) -> None:
        self._answers = list(answers)
        self.asked: list[SourceQuestion] = []

    async def __call__(self, question: SourceQuestion) -> Answer | Mapping[str, Any] | None:
        self.asked.append(question)
        return self._answers.pop(0)


async def test_a_question_pauses_and_the_call_is_made_again_with_the_answer(
    settings: Settings, did: Path
) -> None:
    async with spindle.open(settings=settings) as app:
        first = only(await app.run("ask.travel"))
        assert (first.kind, first.message, first.source) == ("input", "From?", "ask")
        assert first.details["repeats"] is True
        with pytest.raises(InvalidArgumentsError, match="city"):
            await app.resume(first.token, {})
    assert lines(did)[:2] == ["called travel", "cancelled"], "the server stops before it is answered"
    async with spindle.open(settings=settings) as app:
        second = only(await app.resume(first.token, {"city": "Rome"}))
        assert second.message == "To?"
    async with spindle.open(settings=settings) as app:
        done = await app.resume(second.token, refused="no")
        assert isinstance(done, Finished)
        rome = {"action": "accept", "content": {"city": "Rome"}}
        assert json.loads(done.result.text) == [rome, {"action": "decline"}]
    assert lines(did).count("called travel") == 3


async def test_a_bare_call_raises_what_is_asked(settings: Settings) -> None:
    async with spindle.open(settings=settings) as app:
        with pytest.raises(InputRequired, match="Where"):
            await app.call("ask.weather")
        history = await app.history()
        assert [item.outcome for item in history] == ["paused"]


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
async def test_a_handler_answers_in_either_era(tmp_path: Path, era: str) -> None:
    contact = {"username": "ann", "email": "ann@example.com"}
    handler = Handler(contact, Answer("decline"), Answer("cancel"), None, {"username": 5})
    settings = Settings(tmp_path, {"sources": {"fix": fixture_source(protocol=era, prefix=True)}})
    async with spindle.open(settings=settings, on_question=handler) as app:
        result = await app.call("fix.test_elicitation", message="Who?")
        assert "ann@example.com" in result.text
        (question,) = handler.asked
        assert (question.message, question.source) == ("Who?", "fix")
        assert question.tool == "fix.test_elicitation"
        assert set((question.schema or {})["properties"]) == {"username", "email"}
        assert "decline" in (await app.call("fix.test_elicitation", message="Who?")).text
        assert "cancel" in (await app.call("fix.test_elicitation", message="Who?")).text
        pause = only(await app.run("fix.test_elicitation", message="Who?"))
        with pytest.raises(InvalidArgumentsError, match="does not fit its form"):
            await app.call("fix.test_elicitation", message="Who?")
        assert len(handler.asked) == 5
        done = await app.resume(pause.token, contact)
        assert isinstance(done, Finished)
        assert "ann@example.com" in done.result.text


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
async def test_a_handler_that_fails_fails_the_call(tmp_path: Path, era: str) -> None:
    async def handler(question: SourceQuestion) -> Any:
        if question.message == "Fail?":
            raise ValueError("no idea")
        return "yes"

    settings = Settings(tmp_path, {"sources": {"fix": fixture_source(protocol=era)}})
    async with spindle.open(settings=settings, on_question=handler) as app:
        with pytest.raises(ClientError, match="the handler of questions failed: ValueError: no idea"):
            await app.call("test_elicitation", message="Fail?")
        with pytest.raises(InvalidArgumentsError, match="the answer to 'fix' is 'yes'"):
            await app.call("test_elicitation", message="Well?")


def test_a_handler_may_block(settings: Settings) -> None:
    def handler(question: SourceQuestion) -> Mapping[str, Any]:
        return {"city": s.call("ask.plain").text}

    with spindle.open(settings=settings, on_question=handler) as s:
        (answer,) = json.loads(s.call("ask.weather").text)
    assert answer["content"] == {"city": "[]"}


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
async def test_over_http_a_question_finds_its_call_among_others(tmp_path: Path, era: str) -> None:
    seen: dict[str, str] = {}

    async def handler(question: SourceQuestion) -> Mapping[str, Any] | None:
        seen[question.message] = question.principal.id
        return None if question.message == "Later?" else {"username": "x", "email": "x@example.com"}

    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    inner = Settings(there, {"sources": {"fix": fixture_source()}, "store": ":memory:"})
    async with spindle.open(settings=inner) as upstream, served(upstream) as url:
        outer = Settings(here, {"sources": {"far": {"url": url, "protocol": era}}})
        async with spindle.open(settings=outer, on_question=handler) as app:

            async def call(who: str) -> str:
                options = CallOptions(principal=Principal(who))
                return (await app.call("far.test_elicitation", {"message": f"{who}?"}, options)).text

            texts = await asyncio.gather(*(call(f"user{number}") for number in range(5)))
            assert all("x@example.com" in text for text in texts)
            assert seen == {f"user{number}?": f"user{number}" for number in range(5)}
            pause = only(await app.run("far.test_elicitation", message="Later?"))
            assert pause.message == "Later?"
            done = await app.resume(pause.token, {"username": "y", "email": "y@example.com"})
            assert isinstance(done, Finished)
            assert "y@example.com" in done.result.text


async def test_a_page_is_visited_only_if_it_is_one(settings: Settings, tmp_path: Path, did: Path) -> None:
    handler = Handler({}, Answer("decline"), {}, {})
    async with spindle.open(settings=settings, on_question=handler) as app:
        assert json.loads((await app.call("ask.pay")).text) == [{"action": "accept"}]
        assert handler.asked[0].url == "https://pay.example/1"
        with pytest.raises(ServerError, match="hides the host"):
            await app.call("ask.trick")
        with pytest.raises(PermissionDeniedError, match="declined"):
            await app.call("ask.locked")
    async with spindle.open(settings=settings) as app:
        pause = only(await app.run("ask.locked"))
        assert pause.details["urls"] == ["https://pay.example/1"]
        again = only(await app.resume(pause.token))
        Path(f"{did}.visited").touch()
        done = await app.resume(again.token)
        assert isinstance(done, Finished)
        assert done.result.text == "open"


@pytest.mark.parametrize(
    ("tool", "problem"), [("nested", "'inner' is of type 'object'"), ("huge", "5000 fields")]
)
async def test_a_form_that_is_not_allowed_fails_the_call(settings: Settings, tool: str, problem: str) -> None:
    async with spindle.open(settings=settings) as app:
        with pytest.raises(ServerError, match=problem):
            await app.run(f"ask.{tool}")
        assert (await app.call("ask.plain")).text == "[]", "the session goes on"


async def test_a_server_that_asks_in_the_older_way_in_the_newer_protocol_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "from mcp.server import MCPServer\n"
        "from mcp.server.mcpserver import Context\n"
        "from pydantic import BaseModel\n"
        "class Form(BaseModel):\n    city: str\n"
        "server = MCPServer('x')\n"
        "@server.tool()\n"
        "async def weather(ctx: Context) -> str:\n"
        "    return str(await ctx.elicit('Where?', Form))\n"
        "server.run()\n"
    )
    source = {"command": [warm.PYTHON, str(script)]}
    async with spindle.open(settings=Settings(tmp_path, {"sources": {"x": source}})) as app:
        with pytest.raises(ClientError) as refused:
            await app.call("x.weather")
    assert 'protocol = "handshake"' in (refused.value.hint or "")


@pytest.mark.parametrize("tool", ["endless", "flood"])
async def test_a_server_that_does_not_stop_asking_is_stopped(settings: Settings, tool: str) -> None:
    asked = 0

    async def handler(question: SourceQuestion) -> Mapping[str, Any]:
        nonlocal asked
        asked += 1
        return {"city": "Rome"}

    async with spindle.open(settings=settings, on_question=handler) as app, asyncio.timeout(PATIENCE):
        with pytest.raises(ServerError, match="asked more than 25 questions"):
            await app.call(f"ask.{tool}")
    assert asked == MAX_QUESTIONS


async def test_an_answer_that_nobody_waits_for_is_not_waited_for(settings: Settings) -> None:
    cancelled = asyncio.Event()

    async def handler(question: SourceQuestion) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    async with spindle.open(settings=settings, on_question=handler) as app, asyncio.timeout(PATIENCE):
        assert (await app.call("ask.gives_up")).text == "went on without you"
        await cancelled.wait()


@pytest.mark.parametrize("sessions", ["auto", "shared"])
async def test_two_users_never_see_each_others_questions(tmp_path: Path, sessions: str) -> None:
    """Over pipes nothing says to which call a question belongs."""
    seen: list[str] = []
    ann, bob = Principal("ann"), Principal("bob")
    waiting, may_go = asyncio.Event(), asyncio.Event()

    async def handler(question: SourceQuestion) -> Mapping[str, Any]:
        seen.append(question.principal.id)
        if question.principal == ann:
            waiting.set()
            await may_go.wait()
        return {"city": question.principal.id}

    settings = Settings(tmp_path, {"sources": {"ask": curious(tmp_path, sessions=sessions)}})
    async with spindle.open(settings=settings, on_question=handler) as app, asyncio.timeout(PATIENCE):
        first = asyncio.create_task(app.call("ask.weather", {}, CallOptions(principal=ann)))
        await waiting.wait()
        second = await app.call("ask.weather", {}, CallOptions(principal=bob))
        assert "bob" in second.text
        may_go.set()
        assert "ann" in (await first).text
    assert seen == ["ann", "bob"]


async def test_a_question_never_ends_a_call_that_did_not_ask_it(settings: Settings) -> None:
    """Over pipes one of several calls asks; a handler may answer, but only the call itself can pause."""
    waiting, may_go = asyncio.Event(), asyncio.Event()
    questions = 0

    async def handler(question: SourceQuestion) -> Mapping[str, Any] | None:
        nonlocal questions
        questions += 1
        if questions > 1:
            return None
        waiting.set()
        await may_go.wait()
        return {"city": "Rome"}

    async with spindle.open(settings=settings, on_question=handler) as app, asyncio.timeout(PATIENCE):
        first = asyncio.create_task(app.run("ask.weather"))
        await waiting.wait()
        assert only(await app.run("ask.weather")).message == "Where?"
        may_go.set()
        done = await first
        assert isinstance(done, Finished)
        assert "Rome" in done.result.text


async def test_a_question_that_pauses_is_its_own_calls_when_another_runs(
    settings: Settings, did: Path
) -> None:
    """Nobody is there to answer, so it must be known which call waits: the one that does not end."""
    async with spindle.open(settings=settings) as app, asyncio.timeout(PATIENCE):
        await app.call("ask.plain")
        other = asyncio.create_task(app.run("ask.slow"))
        await until(lambda: "called slow" in lines(did))
        asking = asyncio.create_task(app.run("ask.weather"))
        await until(lambda: "called weather" in lines(did))
        Path(f"{did}.slow").touch()
        done = await other
        assert isinstance(done, Finished)
        assert done.result.text == "slept"
        first = only(await asking)
        assert first.tool == "ask.weather"
        again, beside = await asyncio.gather(app.run("ask.weather"), app.run("ask.travel"))
        assert only(again).tool == "ask.weather", "what is known to ask has a session to itself"
        assert only(beside).tool == "ask.travel"


async def test_of_two_calls_that_ask_for_the_first_time_at_once_each_pauses_for_its_own(
    settings: Settings, did: Path
) -> None:
    async with spindle.open(settings=settings) as app, asyncio.timeout(PATIENCE):
        await app.call("ask.plain")
        for _ in range(2):
            ends = await asyncio.gather(app.run("ask.weather"), app.run("ask.travel"))
            assert [only(end).tool for end in ends] == ["ask.weather", "ask.travel"]
            assert [only(end).message for end in ends] == ["Where?", "From?"]


async def test_a_model_answers_only_where_it_is_let(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer("42") as server:
        raw = {
            "sources": {
                "open": curious(tmp_path, answers=["elicitation", "sampling"]),
                "closed": curious(tmp_path),
            },
            "agent": {"model": "openai-chat:gpt-scripted"},
        }
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        async with spindle.open(settings=Settings(tmp_path, raw)) as app:
            (answer,) = json.loads((await app.call("open.think")).text)
            assert answer["content"] == {"type": "text", "text": "42"}
            (refused,) = json.loads((await app.call("closed.think")).text)
            assert "code" in refused
            assert len(server.requests) == 1
