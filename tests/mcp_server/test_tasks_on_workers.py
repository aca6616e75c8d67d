"""Tasks of MCP clients where an engine is configured: submitted runs, which outlive the serving process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import spindle
from mcp_server.test_tasks import Remote
from servers.serving import served
from servers.workers import until_it_is
from spindle.app import Spindle
from spindle.serving.working import work

SETTINGS = """
[engine]
kind = "dbos"
tasks = "tasks"
[engine.queues.tasks]
limit = 2
"""
TOOLS = """
from spindle import tool

@tool(idempotent=True)
def shout(text: str) -> str:
    "Say it louder."
    return text.upper()
"""
FLOWS = {
    "shouted": "inputs: {text: {type: string}}\nnodes:\n- {id: s, tool: shout, params: {text: '${text}'}}\n",
    "named": "nodes:\n- {id: name, ask: {message: Who?, schema: {type: object, required: [name],"
    " properties: {name: {type: string}}}}}\n- {id: s, tool: shout, params: {text: '${name.name}'}}\n"
    "edges: [{from: name, to: s}]\n",
}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    for name, text in {
        "spindle.toml": SETTINGS,
        "tools/shouting.py": TOOLS,
        **{f"flows/{name}.yaml": text for name, text in FLOWS.items()},
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    async with spindle.open(tmp_path) as app:
        await app.sync()
    return tmp_path


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Remote]:
    async with spindle.open(folder) as app, served(app) as url:
        yield Remote(url)


@contextlib.asynccontextmanager
async def working(folder: Path) -> AsyncIterator[Spindle]:
    async with spindle.open(folder) as app:
        task = asyncio.create_task(work(app, ["tasks"], None, lambda _: None))
        try:
            yield app
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_a_task_outlives_the_process_that_served_it_and_any_replica_answers(folder: Path) -> None:
    async with serving(folder) as one:
        made = await one.call("shouted", text="hello")
        assert (made["resultType"], made["status"]) == ("task", "working")
        assert (await one.request("tasks/get", taskId=made["taskId"]))["status"] == "working"
    async with working(folder) as app, serving(folder) as other:
        run = await until_it_is(app, made["taskId"], "done")
        assert (run.queue, run.kind, run.owner) == ("tasks", "task", app.runner.owner)
        done = await other.request("tasks/get", taskId=made["taskId"])
    assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "HELLO")


async def test_a_question_is_answered_through_another_replica(folder: Path) -> None:
    async with working(folder) as app:
        async with serving(folder) as one:
            task = (await one.call("named"))["taskId"]
            await one.until(task, "input_required")
        assert (await app.store.run(task)).status == "paused"  # pyright: ignore[reportOptionalMemberAccess]
        async with serving(folder) as other:
            asked = await other.request("tasks/get", taskId=task)
            ((key, question),) = asked["inputRequests"].items()
            assert question["params"]["message"] == "Who?"
            answer = {key: {"action": "accept", "content": {"name": "ada"}}}
            await other.request("tasks/update", taskId=task, inputResponses=answer)
            done = await other.until(task, "completed", "failed")
    assert done["result"]["content"][0]["text"] == "ADA"


async def test_tasks_are_cancelled_from_anywhere_and_a_full_queue_says_so(folder: Path) -> None:
    async with serving(folder) as one, serving(folder) as other:
        first, second = [(await one.call("shouted", text=text))["taskId"] for text in "ab"]
        full = await one.call("shouted", text="c")
        assert full["isError"]
        assert "is full: 2 runs wait, and 2 may" in full["content"][0]["text"]
        await other.request("tasks/cancel", taskId=first)
        assert (await one.request("tasks/get", taskId=first))["status"] == "cancelled"
        assert (await one.call("shouted", text="d"))["resultType"] == "task"
        async with working(folder) as app:
            await until_it_is(app, second, "done")


async def test_a_client_without_tasks_gets_the_result_itself(folder: Path) -> None:
    async with spindle.open(folder) as app, served(app) as url:
        result = await Remote(url, knows=False).call("shouted", text="hello")
        assert result["content"][0]["text"] == "HELLO"
        assert await app.store.runs(limit=10, kind="task") == []
