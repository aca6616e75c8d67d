"""Servers that answer a call with a task: it is asked after until it has ended, and its questions are
answered as those of calls are. A call that is given up cancels its task; one that pauses leaves it alone.

Two forms: the extension of 2026-07-28, where the server decides, and the tasks of 2025-11-25, for tools that
are called in no other way.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.tool import SHOWN
from spindle.errors import InputRequired, ServerError
from spindle.mcp_protocol.errors import McpError
from spindle.sources.mcp.answers import outcome
from spindle.sources.mcp.questions import MAX_QUESTIONS, answers_to, responses_of, too_many

if TYPE_CHECKING:
    from spindle.domain.call import Call
    from spindle.domain.tool import Tool
    from spindle.sources.mcp.questions import Asked

FIRST_WAIT, LONGEST_WAIT = 0.05, 10.0
CANCELLING = 5.0
"""Seconds that a server may take to acknowledge that a task is cancelled."""
_STATE = "task"
"""The key in the state of a pause of the task that waits for the answer."""

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Makes a request of the server."""


def wants_task(tool: Tool) -> bool:
    """True for a tool of 2025-11-25 that can only be called as a task."""
    shown: JsonObject = tool.spec.metadata.get(SHOWN) or {}
    execution: JsonObject = shown.get("execution") or {}
    return execution.get("taskSupport") == "required"


def task_in(raw: JsonObject) -> JsonObject | None:
    """The task with which a server answers a call, or None."""
    if raw.get("resultType") == "task":
        # How it ended, or what it asks, is told only when it is asked after.
        return {**raw, "status": "working"} if isinstance(raw.get("taskId"), str) else None
    task = raw.get("task")
    is_task = "content" not in raw and is_object(task) and isinstance(task.get("taskId"), str)
    return task if is_task else None


def waiting_task(call: Call) -> str | None:
    """The task that a call which is made again goes on with."""
    state: Any = call.reply.state if call.reply is not None else None
    return state.get(_STATE) if is_object(state) else None


async def answered(ask: Ask, call: Call, task_id: str) -> JsonObject:
    """Gives a task the answers of a person, and returns it as it stands then."""
    assert call.reply is not None
    responses = {**call.reply.state.get("responses", {}), **responses_of(call.reply)}
    await ask("tasks/update", {"taskId": task_id, "inputResponses": responses})
    return await ask("tasks/get", {"taskId": task_id})


async def result_of(ask: Ask, source: str, call: Call, task: JsonObject, *, is_modern: bool) -> JsonObject:
    """The result of a task, once it has ended. Raises McpError for the error it ended with, and the pause
    that waits for a person's answer."""
    task_id = str(task["taskId"])
    try:
        return await _ended(ask, source, call, task, is_modern=is_modern)
    except asyncio.CancelledError:
        _cancel(ask, task_id)
        raise
    except InputRequired as pause:
        pause.state[_STATE] = task_id
        raise


async def _ended(ask: Ask, source: str, call: Call, task: JsonObject, *, is_modern: bool) -> JsonObject:
    task_id = str(task["taskId"])
    wait, rounds = FIRST_WAIT, 0
    told: Any = None
    while True:
        status = task.get("status")
        if call.on_progress is not None and task.get("statusMessage") not in (None, told):
            told = task["statusMessage"]
            await call.on_progress(rounds, None, str(told)[:1000])
        match status:
            case "completed" if is_modern:
                if not is_object(found := task.get("result")):
                    raise ServerError(f"{source!r} ended a task without a result", hint=_AUTHOR)
                return found
            case "completed" | "failed" if not is_modern:
                return await ask("tasks/result", {"taskId": task_id})
            case "failed":
                error = outcome({"error": task.get("error") or {}})
                raise error if isinstance(error, McpError) else ServerError(f"{source!r}: a task failed")
            case "cancelled":
                raise ServerError(f"{source!r} cancelled the task of this call")
            case "input_required" if is_modern:
                rounds += 1
                if rounds > MAX_QUESTIONS:
                    raise too_many(source, call.tool)
                given = await answers_to(call, source, await _asked(task))
                responses: JsonObject = given.get("inputResponses") or {}
                await ask("tasks/update", {"taskId": task_id, "inputResponses": responses})
                wait = FIRST_WAIT
            case "working" | "input_required":
                pass
            case _:
                raise ServerError(f"{source!r} gave a task the status {str(status)[:40]!r}", hint=_AUTHOR)
        await asyncio.sleep(wait)
        wait = min(2 * wait, _interval(task))
        task = await ask("tasks/get", {"taskId": task_id})


async def _asked(task: JsonObject) -> Asked:
    """The questions of a task, checked. The models for that are loaded when there are any."""
    results = await asyncio.to_thread(importlib.import_module, "spindle.sources.mcp.results")
    return results.read_asked(
        {"resultType": "input_required", "inputRequests": task.get("inputRequests") or None}
    )


_AUTHOR = "tell the author of the server"


def _interval(task: JsonObject) -> float:
    """The seconds that the server wants between two questions, within reason."""
    said = task.get("pollIntervalMs", task.get("pollInterval"))
    seconds = said / 1000 if isinstance(said, (int, float)) and not isinstance(said, bool) else 1.0
    return min(max(seconds, FIRST_WAIT), LONGEST_WAIT)


_cancelling: set[asyncio.Task[None]] = set()


def _cancel(ask: Ask, task_id: str) -> None:
    """Tells the server that nobody wants a task any more. Whoever gave it up does not wait for the answer."""

    async def told() -> None:
        try:
            async with asyncio.timeout(CANCELLING):
                await ask("tasks/cancel", {"taskId": task_id})
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the call is over, whatever it says
            return

    task = asyncio.create_task(told(), name=f"cancel {task_id}")
    _cancelling.add(task)
    task.add_done_callback(_cancelling.discard)
