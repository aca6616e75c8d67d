"""A server that asks for input pauses the run, and is called again with the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from spindle import Finished, Paused
from spindle.errors import InputRequired, InvalidArgumentsError
from spindle.settings import Settings

SERVER = Path(__file__).parent.parent.parent / "servers" / "asking_server.py"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    command = [warm.PYTHON, str(SERVER), str(tmp_path / "did")]
    return Settings(tmp_path, {"sources": {"ask": {"kind": "mcp", "command": command}}})


def only(outcome: Any) -> Any:
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    return pause


async def test_a_form_is_answered_in_another_process(settings: Settings, tmp_path: Path) -> None:
    async with spindle.open(settings=settings) as app:
        pause = only(await app.run("ask.weather"))
        assert (pause.kind, pause.message) == ("input", "Where?")
        assert pause.details["schema"]["required"] == ["city"]
        assert "w1" not in str(pause.to_dict())
        with pytest.raises(InvalidArgumentsError, match="city"):
            await app.resume(pause.token, {})
    async with spindle.open(settings=settings) as app:
        done = await app.resume(pause.token, {"city": "Oslo"})
        assert isinstance(done, Finished)
        assert done.result.text == "sunny in Oslo, state w1"
    assert (tmp_path / "did").read_text().splitlines() == ["weather None []", "weather w1 ['where']"]


async def test_a_refusal_is_told_to_the_server(settings: Settings) -> None:
    async with spindle.open(settings=settings) as app:
        pause = only(await app.run("ask.weather"))
        done = await app.resume(pause.token, refused="none of your business")
        assert isinstance(done, Finished)
        assert done.result.text == "no weather then"


async def test_a_link_is_handed_out(settings: Settings) -> None:
    async with spindle.open(settings=settings) as app:
        pause = only(await app.run("ask.pay"))
        assert pause.details["url"] == "https://pay.example/1"
        done = await app.resume(pause.token)
        assert isinstance(done, Finished)
        assert done.result.text == "paid, accept"


async def test_a_server_may_ask_for_several_things_and_again(settings: Settings, tmp_path: Path) -> None:
    async with spindle.open(settings=settings) as app:
        first = only(await app.run("ask.travel"))
        assert first.message == "From?\nTo?"
        answer = {"from": {"city": "Rome"}, "to": {"city": "Oslo"}}
        second = only(await app.resume(first.token, answer))
        assert second.token != first.token
        done = await app.resume(second.token, {"city": "Ulm"})
        assert isinstance(done, Finished)
        assert done.result.text == "t2 Rome via Ulm"
    did = (tmp_path / "did").read_text().splitlines()
    assert did == ["travel None []", "travel t1 ['from', 'to']", "travel t2 Rome ['via']"]


async def test_a_server_that_only_wants_to_be_asked_again_needs_nobody(settings: Settings) -> None:
    async with spindle.open(settings=settings) as app:
        done = await app.run("ask.think")
        assert isinstance(done, Finished)
        assert done.result.text == "thought"


async def test_a_bare_call_raises_what_is_asked(settings: Settings) -> None:
    async with spindle.open(settings=settings) as app:
        with pytest.raises(InputRequired, match="Where"):
            await app.call("ask.weather")
