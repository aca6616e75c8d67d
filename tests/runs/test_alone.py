"""A call that is made by itself becomes a run only when it needs one."""

from __future__ import annotations

from pathlib import Path

import spindle
from spindle import Context, tool
from spindle.runs.outcomes import Finished, Paused

CALLED: list[str] = []


@tool
async def plain(text: str) -> str:
    """Gives it back."""
    CALLED.append(text)
    return text


@tool
async def asking(context: Context, key: str) -> str:
    """Calls another tool, and asks before it answers."""
    first = await context.call("plain", text=key)
    said = context.ask("Go on?", bool)
    return f"{first.text} {said}"


@tool
def asking_in_a_thread(context: Context) -> str:
    """Asks from the thread in which plain functions run."""
    return f"said {context.ask('Go on?', bool)}"


async def test_a_call_that_asks_nobody_leaves_no_run_and_no_lease(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[plain]) as app:
        done = await app.run("plain", text="x")
        assert isinstance(done, Finished)
        assert done.result.text == "x"
        assert await app.store.runs(limit=10) == []
        assert app.runner._executions.running == {}
        assert app.runner._executions.leases._task is None


async def test_what_it_did_before_it_asked_is_not_done_again(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[plain, asking]) as app:
        paused = await app.run("asking", key="before")
        assert isinstance(paused, Paused)
        (run,) = await app.store.runs(limit=10)
        assert (run.id, run.status) == (paused.run_id, "paused")
        done = await app.resume(paused.pauses[0].token, True)
        assert isinstance(done, Finished)
        assert done.result.text == "before True"
        assert CALLED.count("before") == 1


async def test_a_tool_in_a_thread_can_make_it_a_run(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[asking_in_a_thread]) as app:
        paused = await app.run("asking_in_a_thread")
        assert isinstance(paused, Paused)
        done = await app.resume(paused.pauses[0].token, True)
        assert isinstance(done, Finished)
        assert done.result.text == "said True"
