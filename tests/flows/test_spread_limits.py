"""What holds for a run holds for the parts of its batches too, in whichever process they are: who works for
whom, what may be used, and what may be done after words of others came in. And what happens in a part counts
for its run."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.running import PATIENCE
from servers.workers import until_it_is
from spindle.app import Spindle
from spindle.domain.run import Run
from spindle.errors import ModelError, SpindleError
from spindle.runs.outcomes import OpenPause
from spindle.runs.parts import ids_of
from spindle.serving.working import work
from spindle.testing import ModelServer, ToolCall, Turn, Usage

MODEL = "openai-chat:gpt-scripted"
SETTINGS = f"""
[engine.queues.default]
concurrency = 1
[agent]
model = "{MODEL}"
[agents.boss]
description = "Has others work."
tools = ["each", "send", "fetch"]
[agents.helper]
description = "Does a small thing."
tools = ["colour"]
"""
TOOLS = '''
from pathlib import Path
from spindle import Context, tool


@tool(open_world=True, read_only=True)
def fetch(item: str) -> str:
    """Fetch a page."""
    return f"the page {item}"


@tool
def send(item: str) -> str:
    """Send a mail."""
    with open(Path(__file__).parent.parent / "sent", "a") as sent:
        sent.write(item)
    return "sent"


@tool(idempotent=True, read_only=True)
def colour(context: Context) -> str:
    """Ask for a colour."""
    return context.ask("Which colour?")
'''
ITEMS = {"items": {"type": "array", "items": {"type": "string"}}}


def each(tool: str, param: str = "item", size: int = 1) -> dict[str, Any]:
    """A flow that has workers call a tool for each item."""
    batch = {"over": "${items}", "spread": size, "keep_errors": True, "concurrency": 1}
    node = {"id": "calls", "tool": tool, "params": {param: "${item}"}, "batch": batch}
    return {"inputs": ITEMS, "nodes": [node], "outputs": {"seen": "${calls}", "failed": "${calls.failed}"}}


def top(**limits: Any) -> dict[str, Any]:
    """A flow whose agent has others work."""
    agent = {"task": "go", "tools": ["each", "fetch", "send"], "limits": limits, "ask_user": False}
    outputs = {"answer": "${a}", "usage": "${a.usage}"}
    return {"nodes": [{"id": "a", "agent": agent}], "outputs": outputs}


def calls(tool: str, **arguments: Any) -> Turn:
    return Turn(calls=[ToolCall(tool, arguments)], usage=Usage(10, 0))


def says(text: str, tokens: int = 10) -> Turn:
    return Turn(text, usage=Usage(tokens, 0))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@contextlib.asynccontextmanager
async def working(root: Path, **flows: dict[str, Any]) -> AsyncIterator[Spindle]:
    for name in ("tools", "flows"):
        (root / name).mkdir()
    (root / "spindle.toml").write_text(SETTINGS)
    (root / "tools" / "mail.py").write_text(TOOLS)
    for name, flow in flows.items():
        (root / "flows" / f"{name}.json").write_text(json.dumps(flow))
    async with spindle.open(root) as app:
        await app.sync()
        notes: list[str] = []
        task = asyncio.create_task(work(app, ["default"], None, notes.append))
        try:
            yield app
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def ended(app: Spindle, run: Run) -> Any:
    found = await until_it_is(app, run.id, "done", "failed")
    return (await app.runner.outcome(found)).structured


async def asked(app: Spindle, kind: str) -> OpenPause:
    """The pause of this kind, as soon as there is one."""
    async with asyncio.timeout(PATIENCE):
        while not (found := [pause for pause in await app.pauses() if pause.kind == kind]):
            await asyncio.sleep(0.05)
    return found[0]


async def test_an_agent_does_not_work_for_itself_in_a_part(tmp_path: Path, server: ModelServer) -> None:
    server.feed(calls("each", items=["go on"]), says("that was nothing"))
    boss = {"nodes": [{"id": "a", "tool": "boss", "params": {"task": "go"}}]}
    async with working(tmp_path, each=each("boss", "task"), first=boss) as app:
        run = await app.submit("first")
        assert await ended(app, run) is None
        assert len(await app.store.parts(ids_of(run.id))) == 1
    assert len(server.requests) == 2, "nobody was asked in the part"
    assert "boss' is at work already" in json.dumps(server.requests[1].body)


async def test_flows_that_spread_themselves_have_an_end(tmp_path: Path) -> None:
    again = each("again", "items")
    again["nodes"][0]["params"] = {"items": ["x"]}
    again["nodes"][0]["batch"]["keep_errors"] = False
    async with working(tmp_path, again=again) as app:
        run = await app.submit("again", {"items": ["x"]})
        with pytest.raises(SpindleError, match="flows call each other 17 deep"):
            await ended(app, run)


async def test_what_parts_use_counts_for_the_agent_of_their_run(tmp_path: Path, server: ModelServer) -> None:
    server.feed(
        calls("each", items=["a", "b", "c"]), says("A", 100), says("B", 100), says("C", 100), says("all done")
    )
    async with working(tmp_path, each=each("helper", "task"), top=top()) as app:
        done = await ended(app, await app.submit("top"))
    assert done["answer"] == "all done"
    assert (done["usage"]["requests"], done["usage"]["input_tokens"]) == (5, 320)


async def test_parts_may_use_only_what_is_left(tmp_path: Path, server: ModelServer) -> None:
    server.feed(calls("each", items=["a", "b", "c"]), says("A", 100), says("B", 100))
    async with working(tmp_path, each=each("helper", "task"), top=top(tokens=150)) as app:
        run = await app.submit("top")
        with pytest.raises(ModelError, match="reached the limit `tokens`"):
            await ended(app, run)
        assert len(await app.store.parts(ids_of(run.id))) == 3
    # 10 by the agent itself, then 100 and 100: the third part was not begun to be paid for.
    assert len(server.requests) == 3


async def test_what_was_used_before_a_question_is_not_forgotten(tmp_path: Path, server: ModelServer) -> None:
    server.feed(calls("each", items=["a", "b"]), says("A", 100), calls("colour"))
    async with working(tmp_path, each=each("helper", "task", 2), top=top()) as app:
        run = await app.submit("top")
        pause = await asked(app, "input")
        server.feed(says("B", 100), says("all done"))
        await app.resume(pause.token, "green")
        done = await ended(app, run)
    assert (done["usage"]["requests"], done["usage"]["input_tokens"]) == (5, 230)


async def test_a_part_asks_before_it_acts_on_what_its_run_has_seen(
    tmp_path: Path, server: ModelServer
) -> None:
    server.feed(calls("fetch", item="x"), calls("each", items=["m"]), says("all done"))
    async with working(tmp_path, each=each("send"), top=top()) as app:
        run = await app.submit("top")
        pause = await asked(app, "approval")
        assert pause.run_id in await app.store.parts(ids_of(run.id))
        assert "fetch brought words of others into this run" in pause.message
        assert not (tmp_path / "sent").exists()
        await app.resume(pause.token, {"approved": True})
        assert (await ended(app, run))["answer"] == "all done"
    assert (tmp_path / "sent").read_text() == "m"


async def test_a_run_asks_before_it_acts_on_what_a_part_has_seen(tmp_path: Path, server: ModelServer) -> None:
    server.feed(calls("each", items=["x"]), calls("send", item="m"), says("all done"))
    async with working(tmp_path, each=each("fetch"), top=top()) as app:
        run = await app.submit("top")
        pause = await asked(app, "approval")
        assert pause.run_id == run.id
        assert "fetch brought words of others into this run" in pause.message
        assert not (tmp_path / "sent").exists()
        await app.resume(pause.token, {"approved": True})
        assert (await ended(app, run))["answer"] == "all done"
    assert (tmp_path / "sent").read_text() == "m"
