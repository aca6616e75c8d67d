"""Calls that a client asks after instead of waiting for them: `io.modelcontextprotocol/tasks`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import spindle
from servers.leases import end_leases
from servers.running import PATIENCE
from servers.serving import served
from spindle import Context, ToolError, tool

TASKS = "io.modelcontextprotocol/tasks"
OWN = "io.modelcontextprotocol/"
VERSION = "2026-07-28"
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

gates: dict[str, asyncio.Event] = {}


@tool(task="optional", idempotent=True)
async def wait(gate: str) -> str:
    """Waits for a gate."""
    await gates.setdefault(gate, asyncio.Event()).wait()
    return f"through {gate}"


@tool(task="optional", idempotent=True)
def ask(ctx: Context) -> str:
    """Asks for a name."""
    return f"hello {ctx.ask('Who?', NAMED)['name']}"


@tool(task="required")
def only_tasks() -> str:
    """Is always a task."""
    raise ToolError("it failed")


@tool(idempotent=True)
async def slow(gate: str) -> str:
    """Takes as long as it likes, and says nothing of it."""
    return await wait(gate)


TOOLS = [wait, ask, only_tasks, slow]


class Remote:
    """A client of 2026-07-28 without a library."""

    def __init__(self, url: str, token: str | None = None, *, knows: bool = True) -> None:
        self._url = url
        self._token = token
        extensions = {"extensions": {TASKS: {}}} if knows else {}
        self._capabilities = {"elicitation": {"form": {}}, **extensions}

    async def request(self, method: str, **params: Any) -> Any:
        meta = {
            f"{OWN}protocolVersion": VERSION,
            f"{OWN}clientInfo": {"name": "raw", "version": "1"},
            f"{OWN}clientCapabilities": self._capabilities,
        }
        headers = {
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
            "accept": "application/json, text/event-stream",
        }
        name = params.get("name") or params.get("taskId")
        headers |= {"mcp-name": str(name)} if name else {}
        headers |= {"authorization": f"Bearer {self._token}"} if self._token else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            answer = (await http.post(self._url, json=body, headers=headers)).json()
        return answer.get("result") or answer["error"]

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.request("tools/call", name=name, arguments=arguments)

    async def until(self, task: str, *statuses: str) -> Any:
        async with asyncio.timeout(PATIENCE):
            while (found := await self.request("tasks/get", taskId=task)).get("status") not in statuses:
                await asyncio.sleep(0.02)
        return found


@contextlib.asynccontextmanager
async def remote(folder: Path, **serve: Any) -> AsyncIterator[Remote]:
    """A client of a workspace, each time served by other parts, as another process would."""
    async with spindle.open(folder, tools=TOOLS) as app, served(app, **serve) as url:
        yield Remote(url)


async def test_any_process_answers_for_a_task(tmp_path: Path) -> None:
    async with remote(tmp_path) as one, remote(tmp_path) as other:
        made = await one.call("wait", gate="any")
        assert made["resultType"] == "task"
        seen = await other.request("tasks/get", taskId=made["taskId"])
        assert seen["status"] == "working"
        gates["any"].set()
        done = await other.until(made["taskId"], "completed")
    assert done["result"]["content"] == [{"type": "text", "text": "through any"}]
    assert done["resultType"] == "complete"
    assert done["createdAt"] == made["createdAt"]


async def test_a_question_is_asked_and_answered_in_another_process(tmp_path: Path) -> None:
    async with remote(tmp_path) as one:
        task = (await one.call("ask"))["taskId"]
        await one.until(task, "input_required")
    async with remote(tmp_path) as other:
        asked = await other.request("tasks/get", taskId=task)
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["message"] == "Who?"
        unknown = await other.request(
            "tasks/update", taskId=task, inputResponses={"else": {"action": "accept"}}
        )
        assert unknown["resultType"] == "complete"
        answer = {key: {"action": "accept", "content": {"name": "Ada"}}}
        assert (await other.request("tasks/update", taskId=task, inputResponses=answer))[
            "resultType"
        ] == "complete"
        done = await other.until(task, "completed")
        again = await other.request("tasks/update", taskId=task, inputResponses=answer)
    assert done["result"]["content"][0]["text"] == "hello Ada"
    assert again["resultType"] == "complete"


async def test_a_task_is_cancelled_from_another_process(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=TOOLS) as app, served(app) as url, remote(tmp_path) as other:
        one = Remote(url)
        task = (await one.call("wait", gate="cancelled"))["taskId"]
        assert (await other.request("tasks/cancel", taskId=task))["resultType"] == "complete"
        assert (await one.request("tasks/get", taskId=task))["status"] == "cancelled"
        # The process that was at work learns of it when it renews its lease, and ends the work.
        leases = app.runner._executions.leases
        await leases.renew([*leases._kept])  # type: ignore[list-item]
        async with asyncio.timeout(PATIENCE):
            while app.runner.tasks._jobs:
                await asyncio.sleep(0.01)
        assert (await other.request("tasks/cancel", taskId=task))["resultType"] == "complete"


async def test_a_task_whose_process_died_goes_on_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.runs.tasks.LOOK_AFTER", 0.0)
    async with remote(tmp_path) as one:
        task = (await one.call("wait", gate="died"))["taskId"]
    gates["died"].set()
    async with spindle.open(tmp_path, tools=TOOLS) as app, served(app) as url:
        other = Remote(url)
        assert (await other.request("tasks/get", taskId=task))["status"] == "working"
        await end_leases(app.store)
        done = await other.until(task, "completed", "failed", "cancelled")
    assert done["result"]["content"][0]["text"] == "through died"


async def test_a_long_call_becomes_a_task(tmp_path: Path) -> None:
    async with remote(tmp_path, task_after=0.05) as client:
        made = await client.call("slow", gate="long")
        assert made["resultType"] == "task"
        gates["long"].set()
        done = await client.until(made["taskId"], "completed")
        short = await client.call("slow", gate="long")
    assert done["result"]["content"][0]["text"] == "through long"
    assert short["content"][0]["text"] == "through long"


async def test_a_client_without_tasks_waits_and_is_refused_what_is_only_a_task(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=TOOLS) as app, served(app, task_after=0.0) as url:
        plain = Remote(url, knows=False)
        gates["plain"] = asyncio.Event()
        gates["plain"].set()
        assert (await plain.call("wait", gate="plain"))["content"][0]["text"] == "through plain"
        refused = await plain.call("only_tasks")
        assert refused["code"] == -32021
        assert refused["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        assert (await plain.request("tasks/get", taskId="x"))["code"] == -32021
        known = Remote(url)
        failed = await known.until((await known.call("only_tasks"))["taskId"], "completed")
    assert failed["result"]["isError"] is True


async def test_a_task_is_its_owner_s_alone(tmp_path: Path) -> None:
    tokens = {name: {"token": f"token-{name}"} for name in ("ann", "bob")}
    async with spindle.open(tmp_path, tools=TOOLS) as app, served(app, tokens=tokens) as url:
        ann, bob = Remote(url, "token-ann"), Remote(url, "token-bob")
        task = (await ann.call("ask"))["taskId"]
        await ann.until(task, "input_required")
        for method, more in (
            ("tasks/get", {}),
            ("tasks/cancel", {}),
            ("tasks/update", {"inputResponses": {}}),
        ):
            refused = await bob.request(method, taskId=task, **more)
            assert refused["code"] == -32602
            cut = await ann.request(method, taskId=task[:-1], **more)
            assert cut["code"] == -32602, "the beginning of an id is none"


async def test_the_tasks_of_one_client_are_limited(tmp_path: Path) -> None:
    async with remote(tmp_path, quotas={"tasks": 2}) as client:
        gates["full"] = asyncio.Event()
        made = [await client.call("wait", gate="full") for _ in range(3)]
        assert [item.get("resultType") for item in made] == ["task", "task", "complete"]
        assert "2 tasks that are at work or wait" in made[2]["content"][0]["text"]
        gates["full"].set()
        for item in made[:2]:
            await client.until(item["taskId"], "completed")
        asked = [(await client.call("ask"))["taskId"] for _ in range(2)]
        for task in asked:
            await client.until(task, "input_required")
        assert (await client.call("ask"))["isError"], "those that wait count too"
        await client.request("tasks/cancel", taskId=asked[0])
        assert (await client.request("tasks/get", taskId=asked[0]))["status"] == "cancelled"
        assert (await client.call("wait", gate="full"))["resultType"] == "task"


async def test_a_task_that_begins_to_wait_while_they_are_counted_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spindle.open(tmp_path, tools=TOOLS) as app, served(app, quotas={"tasks": 2}) as url:
        client, store_runs = Remote(url), app.store.runs
        asked = (await client.call("ask"))["taskId"]
        await client.until(asked, "input_required")

        async def runs(**where: Any) -> Any:
            # The first look comes just before it begins to wait.
            return await store_runs(**{**where, "status": "paused"})

        monkeypatch.setattr(app.store, "runs", runs)
        assert "taskId" in await client.call("ask")
