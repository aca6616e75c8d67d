"""Processes that stood still, lost their run to another, and go on: they overwrite nothing, and say so."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.leases import end_leases
from spindle import Agent, AgentResult, Context, Finished, OpenPause, Paused, Spindle, tool
from spindle.calls.caller import Clock
from spindle.errors import ClientError, RunLostError, StoreError
from spindle.flows import Flow, ToolNode
from spindle.ports.store import RunStore
from spindle.stores.sqlite import SqliteStore
from spindle.testing import Gate, ModelServer, ToolCall, Turn

Open = Callable[..., AbstractAsyncContextManager[Spindle]]


class Sleeper:
    """Tools, and the moment at which the first who comes to it stands still until it is woken up."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()
        self.wake = asyncio.Event()
        self.effects: list[str] = []
        self.ids: list[str] = []
        self.given_up = False
        self._visits = itertools.count(1)

    async def sleep_once(self) -> int:
        visit = next(self._visits)
        if visit == 1:
            self.asleep.set()
            try:
                await self.wake.wait()
            except asyncio.CancelledError:
                self.given_up = True
                raise
        return visit

    @property
    def tools(self) -> list[Any]:
        @tool
        def effect(name: str) -> str:
            self.effects.append(name)
            return f"did {name}"

        @tool(idempotent=True)
        async def hold(context: Context) -> str:
            self.ids.append(context.step_id)
            return f"visit {await self.sleep_once()}"

        @tool
        async def in_step(context: Context) -> str:
            await context.call("effect", name="one")
            return (await context.call("hold")).text

        @tool
        async def before_step(context: Context) -> str:
            await context.call("effect", name="one")
            visit = await self.sleep_once()
            await context.call("effect", name="two")
            return f"visit {visit}"

        @tool
        async def before_end(context: Context) -> str:
            await context.call("effect", name="one")
            return f"visit {await self.sleep_once()}"

        @tool
        async def before_question(context: Context) -> str:
            await context.call("effect", name="one")
            visit = await self.sleep_once()
            return f"visit {visit}" if visit > 1 else context.ask("Still there?")

        @tool
        async def catches_all(context: Context) -> str:
            for _ in range(3):
                with contextlib.suppress(Exception):
                    await context.call("hold")
                    return "visit 2"
            await context.call("effect", name="two")
            return "caught"

        return [effect, hold, in_step, before_step, before_end, before_question, catches_all]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """`async with opened(tools=…) as app`: another process, as far as the store can tell."""
    (tmp_path / "spindle.toml").write_text(
        f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""
    )

    @contextlib.asynccontextmanager
    async def open_it(**options: Any) -> AsyncIterator[Spindle]:
        async with spindle.open(tmp_path, **options) as app:
            yield app

    return open_it


async def the_run(app: Spindle) -> str:
    (run,) = await app.store.runs(limit=9)
    return run.id


async def written_once(store: RunStore, run: str) -> None:
    """Each step has one outcome, and the run one end that says how it ended."""
    events = await store.history(run)
    steps = [event.path for event in events if event.kind == "step"]
    assert len(steps) == len(set(steps))
    assert sum(event.kind == "ended" and event.sealed is not None for event in events) == 1
    assert sum(event.kind == "started" for event in events) == 1


@pytest.mark.parametrize("name", ["in_step", "before_step", "before_end", "before_question", "catches_all"])
async def test_a_process_that_lost_its_run_writes_nothing_and_says_so(opened: Open, name: str) -> None:
    sleeper, slept = Sleeper(), [0.0]
    clock = Clock(since_boot=lambda: time.monotonic() + slept[0])
    async with opened(tools=sleeper.tools, clock=clock) as late, opened(tools=sleeper.tools) as other:
        work = asyncio.create_task(late.run(name))
        await sleeper.asleep.wait()
        if name == "catches_all":  # which has made no step yet, so that nobody could know of it
            await late.runner._executions._save_started(next(iter(late.runner._executions.leases._kept)))
        run = await the_run(other)
        with pytest.raises(ClientError, match="another process executes"):
            await other.resume(run)
        await end_leases(other.store)
        done = await other.resume(run)
        assert isinstance(done, Finished)
        assert done.result.text == "visit 2"
        slept[0] = 31.0
        sleeper.wake.set()
        with pytest.raises(RunLostError, match=f"another process took over run {run}") as caught:
            await work
        assert caught.value.hint_for("shell") == f"`spindle resume {run}` shows how it ends"
        assert len(set(sleeper.ids)) <= 1, "a step that is made again has the same id"
        assert sleeper.effects.count("one") <= 1
        assert sleeper.effects.count("two") == (name == "before_step")
        assert await late.resume(run) == done
        assert (await other.store.run(run)).status == "done"  # type: ignore[union-attr]
        assert await other.pauses() == []
        await written_once(other.store, run)


async def test_a_flow_that_lost_its_run_calls_no_further_node(opened: Open) -> None:
    sleeper = Sleeper()

    def flow() -> Flow:
        first, last = ToolNode("hold"), ToolNode("effect", params={"name": "after ${hold}"})
        first >> last
        return Flow(first, name="two")

    async with (
        opened(tools=sleeper.tools, flows=[flow()]) as late,
        opened(tools=sleeper.tools, flows=[flow()]) as other,
    ):
        work = asyncio.create_task(late.run_flow(flow()))
        await sleeper.asleep.wait()
        run = await the_run(other)
        await end_leases(other.store)
        done = await other.resume(run)
        assert isinstance(done, Finished)
        sleeper.wake.set()
        with pytest.raises(RunLostError):
            await work
        assert sleeper.effects == ["after visit 2"]
        await written_once(other.store, run)


async def test_an_agent_that_lost_its_run_adds_nothing_to_its_record(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    effects: list[str] = []

    @tool
    def effect(name: str) -> str:
        effects.append(name)
        return f"did {name}"

    async with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        server.feed(
            Turn(calls=[ToolCall("effect", {"name": "one"})]),
            Turn(calls=[ToolCall("effect", {"name": "late"})], after=gate),
            "in time",
        )
        async with opened(tools=[effect]) as late, opened(tools=[effect]) as other:
            work = asyncio.create_task(Agent(late, "openai-chat:gpt-scripted").run("work"))
            await gate.reached(300)
            run = await the_run(other)
            await end_leases(other.store)
            done = await Agent(other, "openai-chat:gpt-scripted").resume(run)
            assert isinstance(done, AgentResult)
            gate.open()
            with pytest.raises(RunLostError):
                await work
            assert done.output == "in time"
            assert effects == ["one"]
            record = await Agent(late, "openai-chat:gpt-scripted").record(run)
            assert [event.text for event in record.events() if event.kind == "end"] == ["in time"]
            await written_once(other.store, run)


async def test_signs_of_life_tell_that_the_run_is_lost_and_its_call_is_given_up(opened: Open) -> None:
    """A call that would never end is not waited for."""
    sleeper = Sleeper()
    async with opened(tools=sleeper.tools) as late, opened(tools=sleeper.tools) as other:
        late.runner._executions.leases.seconds = 0.03
        work = asyncio.create_task(late.run("in_step"))
        await sleeper.asleep.wait()
        run = await the_run(other)
        while not await other.store.take_run(run, "another", 1000.0, time.time()):
            await end_leases(other.store)
        with pytest.raises(RunLostError):
            await work
        assert sleeper.given_up
        assert [event.kind for event in await other.store.history(run)] == ["started", "begun", "step"]


async def test_a_process_that_slept_and_was_not_missed_goes_on(opened: Open) -> None:
    sleeper, slept = Sleeper(), [0.0]
    clock = Clock(since_boot=lambda: time.monotonic() + slept[0])
    async with opened(tools=sleeper.tools, clock=clock) as app:
        work = asyncio.create_task(app.run("before_step"))
        await sleeper.asleep.wait()
        slept[0] = 3600.0
        await end_leases(app.store)
        sleeper.wake.set()
        done = await work
        assert isinstance(done, Finished)
        assert sleeper.effects == ["one", "two"]


class Slow:
    """A store whose saving of a run takes until it is told to go on."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.saves = asyncio.Event()
        self.go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save_run(self, run: Any, *what: Any) -> bool:
        if run.status != "running":
            self.saves.set()
            await self.go.wait()
        return await self._store.save_run(run, *what)


@pytest.mark.parametrize(("name", "status"), [("before_end", "done"), ("before_question", "paused")])
async def test_of_a_cancellation_and_an_outcome_the_outcome_is_recorded(
    tmp_path: Path, name: str, status: str
) -> None:
    sleeper = Sleeper()
    sleeper.wake.set()
    async with SqliteStore(tmp_path / "state.db") as store:
        slow = Slow(store)
        async with spindle.open(tmp_path, tools=sleeper.tools, run_store=slow) as app:  # type: ignore[arg-type]
            work = asyncio.create_task(app.run(name))
            await slow.saves.wait()
            work.cancel()
            slow.go.set()
            with pytest.raises(asyncio.CancelledError):
                await work
            (run,) = await store.runs(limit=9)
            assert run.status == status
            assert sleeper.effects == ["one"]


WRITES = ("save_run", "save_events", "claim", "take_run")


class Killed(BaseException):
    """The process ends here, as far as the store can tell."""


class Faulty:
    """A store that meets a fault at one of its writes: before it, or after it. A process that was killed
    writes nothing any more; a full disk takes the next write."""

    def __init__(self, store: Any, at: int, how: str) -> None:
        self._store = store
        self._left = at
        self._how = how
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._guarded(found) if name in WRITES else found

    def _guarded(self, write: Any) -> Any:
        async def guarded(*args: Any) -> Any:
            if self.is_dead:
                raise Killed
            self._left -= 1
            if self._left:
                return await write(*args)
            if self._how == "full disk":
                raise StoreError("no space left on the disk")
            self.is_dead = True
            if self._how == "killed after it":
                await write(*args)
            raise Killed

        return guarded


@pytest.mark.parametrize("how", ["killed before it", "killed after it", "full disk"])
async def test_a_fault_at_any_write_loses_nothing_and_repeats_nothing_if_a_person_looks(
    tmp_path: Path, how: str
) -> None:
    effects: list[str] = []

    @tool
    def effect(name: str) -> str:
        effects.append(name)
        return f"did {name}"

    @tool
    async def work(context: Context) -> str:
        for name in ("one", "two"):
            await context.call("effect", name=name)
        answer = context.ask("Go on?")
        await context.call("effect", name=answer)
        return "all done"

    def answer(pause: OpenPause) -> Any:
        """Of somebody who looks if it was done."""
        if pause.kind == "input":
            return "three"
        name = pause.details["arguments"]["name"]
        return {"done": True, "result": f"did {name}"} if name in effects else True

    for at in itertools.count(1):
        effects.clear()
        async with SqliteStore(":memory:") as store:
            faulty = Faulty(store, at, how)
            first: Any = {"tools": [effect, work], "run_store": faulty, "note": lambda _: None}
            async with spindle.open(tmp_path, **first) as app:
                with contextlib.suppress(Killed, StoreError):
                    outcome = await app.run("work")
                    if isinstance(outcome, Paused):
                        await app.resume(outcome.pauses[0].token, "three")
            if faulty._left > 0:
                assert at > 6
                break
            async with spindle.open(tmp_path, tools=[effect, work], run_store=store) as app:
                runs = await store.runs(limit=9)
                pauses = await app.pauses()
                await end_leases(store)
                if runs:
                    outcome = (
                        await app.resume(pauses[0].token, "three") if pauses else await app.resume(runs[0].id)
                    )
                    while isinstance(outcome, Paused):
                        (pause,) = outcome.pauses
                        outcome = await app.resume(pause.token, answer(pause))
                    assert isinstance(outcome, Finished)
                    assert outcome.result.text == "all done"
                    assert effects == ["one", "two", "three"]
                    await written_once(store, runs[0].id)
                else:
                    assert effects in ([], ["one"], ["one", "two"])  # nobody was told of a run yet
