"""How far an agent goes, and how much it does at once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from servers import warm
from spindle import Agent, AgentResult
from spindle.agents.usage import ModelUsage
from spindle.errors import CallTimeoutError, ConfigurationError
from spindle.testing import Gate, ModelServer, ToolCall, Turn, Usage, workspace

COUNTING = Path(__file__).parent / "counting_server.py"


def counting(record: Path, places: int) -> dict[str, object]:
    command = [warm.PYTHON, str(COUNTING), str(record), str(places)]
    return {"command": command, "max_concurrency": places}


async def test_fifty_calls_in_a_turn_keep_the_limit_of_each_source(
    server: ModelServer, model: Model, tmp_path: Path
) -> None:
    calls = [ToolCall(f"{name}_count", {"number": n}) for n in range(25) for name in ("ten", "five")]
    server.feed(Turn(calls=calls), "counted")
    sources = {"ten": counting(tmp_path / "ten", 10), "five": counting(tmp_path / "five", 5)}
    async with workspace(sources=sources) as app:
        done = await Agent(app, model, approve=(), limits={"parallel": 50}).run("count")
    assert isinstance(done, AgentResult)
    assert [call["outcome"] for call in done.calls] == ["ok"] * 50
    answers = [item.text for item in server.requests[1].tool_answers]
    assert answers == [str(n) for n in range(25) for _ in range(2)]
    most = {name: json.loads((tmp_path / name).read_text())["most"] for name in sources}
    assert most == {"ten": 10, "five": 5}


class Together:
    """A tool that counts how often it runs at once."""

    def __init__(self, wanted: int) -> None:
        self.most = 0
        self._wanted = wanted
        self._running = 0
        self._lock = threading.Lock()
        self._reached = asyncio.Event()

    async def meet(self, number: int) -> int:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        if self._running >= self._wanted:
            self._reached.set()
        await self._reached.wait()
        await asyncio.sleep(0)
        self._running -= 1
        return number


@pytest.mark.parametrize(("agents", "hint", "most"), [(3, None, 3), (8, 2, 2), (2, 8, 2)])
async def test_calls_at_once_keep_the_agents_limit_and_the_tasks(
    server: ModelServer, model: Model, agents: int, hint: int | None, most: int
) -> None:
    together = Together(most)

    async def meet(number: int) -> int:
        return await together.meet(number)

    server.feed(Turn(calls=[ToolCall("meet", {"number": n}) for n in range(9)]), "met")
    async with workspace([meet]) as app:
        await Agent(app, model, limits={"parallel": agents}).run("meet", parallel=hint)
    assert together.most == most


def add(a: int, b: int) -> int:
    return a + b


def turns(count: int) -> list[Turn]:
    usage = Usage(100, 10)
    return [Turn(f"step {n}", [ToolCall("add", {"a": n, "b": 1})], usage=usage) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("limits", "by", "steps"),
    [
        ({"steps": 2}, "steps", 2),
        ({"tokens": 250}, "tokens", 3),
        ({"cost": 0.0021}, "cost", 2),
    ],
)
async def test_a_limit_ends_with_what_was_achieved(
    server: ModelServer, model: Model, limits: dict[str, float], by: str, steps: int
) -> None:
    server.feed(*turns(5))
    async with workspace([add]) as app:
        agent = Agent(app, model, limits={**limits, "conclude": False}, prices={"gpt-scripted": (10.0, 20.0)})
        done = await agent.run("go")
        assert isinstance(done, AgentResult)
        assert (done.ended_by, done.output) == (by, f"step {steps}")
        assert len(server.requests) == steps
        assert len(done.calls) == steps
        assert done.usage.cost == pytest.approx(0.0012 * steps)
        events = await agent.replay(done.run_id)
    assert events[-1].result is not None
    assert events[-1].result["ended_by"] == by


async def test_what_known_models_cost_is_known(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.feed(Turn("a", usage=Usage(1_000_000, 0)), Turn("b", usage=Usage(1_000_000, 0)))
    async with workspace() as app:
        for model in ("openai:gpt-5", "anthropic:claude-sonnet-5"):
            done = await Agent(app, model).run("go")
            assert isinstance(done, AgentResult)
            assert done.usage.cost is not None
            assert 0.1 < done.usage.cost < 100


async def test_a_limit_of_cost_needs_prices(server: ModelServer, model: Model) -> None:
    server.feed(*turns(2))
    async with workspace([add]) as app:
        with pytest.raises(ConfigurationError, match="the price of this model is not known"):
            await Agent(app, model, limits={"cost": 1}).run("go")
        with pytest.raises(ConfigurationError, match="must be two numbers"):
            Agent(app, model, prices={"x": 1})  # type: ignore[dict-item]


async def test_the_limit_of_time_ends_a_model_that_does_not_answer(server: ModelServer, model: Model) -> None:
    gate = Gate()
    server.feed(*turns(1), Turn("too late", after=gate))
    async with workspace([add]) as app:
        done = await Agent(app, model, limits={"time": 1.5}).run("go")
        gate.open()
        assert isinstance(done, AgentResult)
        assert (done.ended_by, done.text, len(done.calls)) == ("time", "step 1", 1)


async def test_the_limit_of_time_ends_calls(server: ModelServer, model: Model) -> None:
    given_up = asyncio.Event()

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    server.feed(Turn("trying", [ToolCall("stuck", {})]))
    async with workspace([stuck]) as app:
        done = await Agent(app, model, limits={"time": 1.5}).run("go")
        assert isinstance(done, AgentResult)
        assert (done.ended_by, done.text) == ("time", "trying")
        assert given_up.is_set()


async def test_a_model_that_is_silent_for_too_long_is_an_error(server: ModelServer, model: Model) -> None:
    gate = Gate()
    server.feed(Turn("too late", after=gate))
    async with workspace() as app:
        with pytest.raises(CallTimeoutError, match="did not answer within"):
            await Agent(app, model, limits={"request": 0.2}).run("go")
        gate.open()


def test_a_model_without_a_price_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str | None] = []

    def cost(response: ModelResponse) -> Any:
        looks.append(response.model_name)
        raise LookupError(response.model_name)

    monkeypatch.setattr(ModelResponse, "cost", cost)
    used = ModelUsage()
    for name in ("nobody-sells-a", "nobody-sells-b") * 3:
        used = used.plus(ModelResponse(parts=[], model_name=name, provider_name="none"), {})
    assert used.cost is None
    assert looks == ["nobody-sells-a", "nobody-sells-b"]
