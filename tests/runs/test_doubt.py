"""Steps that were begun and have no known end: decided by hints, by settings, or by a person."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.charging import ChargingServer, charging_server
from servers.leases import end_leases
from spindle import Context, Finished, InDoubtError, OpenPause, Paused, Principal, Spindle, flow_safe, tool
from spindle.errors import InvalidArgumentsError, PermissionDeniedError, RunLostError, StoreError
from spindle.flows import Flow, Node, ToolNode
from spindle.flows.definition import Retry
from spindle.runs.journal import RunJournal

ANN, BOB = Principal("ann"), Principal("bob")


class Till:
    """Tools that charge, and stand still until they are told to go on."""

    def __init__(self) -> None:
        self.charges: list[str] = []
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self.hold_at = 1
        """Number of the charge that stands still, and those after it."""
        self.wait_for = 1
        """How many have to stand still until the fault."""

    async def charged(self, name: str) -> str:
        self.charges.append(name)
        standing = len(self.charges) - self.hold_at + 1
        if standing >= self.wait_for:
            self.reached.set()
        if standing > 0:
            await self.go.wait()
        return f"charged {name}"

    @property
    def tools(self) -> list[Any]:
        @tool
        async def charge(name: str) -> str:
            return await self.charged(name)

        @tool
        async def receipt(name: str) -> dict[str, int]:
            return {"number": len(await self.charged(name))}

        @tool(idempotent=True)
        async def set_price(name: str) -> str:
            return await self.charged(name)

        @tool(read_only=True)
        async def look(name: str) -> str:
            return await self.charged(name)

        @flow_safe
        @tool
        async def reckon(name: str) -> str:
            return await self.charged(name)

        @tool
        async def pay(what: str, context: Context) -> str:
            return (await context.call(what, name="one")).text

        @tool
        async def pay_twice(context: Context) -> str:
            first = await context.call("charge", name="one")
            second = await context.call("charge", name="two")
            return f"{first.text}, {second.text}"

        @tool
        async def pay_all(context: Context) -> str:
            done = await asyncio.gather(*(context.call("charge", name=name) for name in ("a", "b", "c")))
            return ", ".join(result.text for result in done)

        @tool
        async def pay_when_told(context: Context) -> str:
            if not context.approve("Pay?"):
                return "not paid"
            return await self.charged("one")

        return [charge, receipt, set_price, look, reckon, pay, pay_twice, pay_all, pay_when_told]


@contextlib.asynccontextmanager
async def given_up(root: Path, till: Till, name: str, **arguments: Any) -> AsyncIterator[Spindle]:
    """A workspace in which a run was given up while it charged."""
    async with spindle.open(root, tools=till.tools) as app:
        await given_up_in(app, till, app.run(name, arguments))
        yield app


async def given_up_in(app: Spindle, till: Till, running: Any) -> None:
    work = asyncio.ensure_future(running)
    await till.reached.wait()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    till.go.set()


async def resumed(app: Spindle) -> spindle.Outcome:
    return await app.resume((await the_run(app)).id)


async def the_run(app: Spindle) -> Any:
    (run,) = await app.store.runs(limit=9)
    return run


async def kinds(app: Spindle) -> list[str]:
    return [event.kind for event in await app.store.history((await the_run(app)).id)]


def the_question(outcome: Any) -> OpenPause:
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    assert (pause.kind, "in_doubt" in pause.details) == ("approval", True)
    return pause


async def test_a_step_that_was_given_up_is_made_again_only_if_a_person_says_so(tmp_path: Path) -> None:
    till = Till()
    async with given_up(tmp_path, till, "pay", what="charge") as app:
        pause = the_question(await resumed(app))
        assert till.charges == ["one"]
        assert the_question(await resumed(app)).token == pause.token, "it is one question, however often"
        done = await app.resume(pause.token, True)
        assert isinstance(done, Finished)
        assert till.charges == ["one", "one"]


@pytest.mark.parametrize("name", ["set_price", "look", "reckon"])
async def test_what_may_be_repeated_is_repeated_and_not_even_noted(tmp_path: Path, name: str) -> None:
    till = Till()

    def flow() -> Flow:
        return Flow(ToolNode(name, params={"name": "one"}), name="again")

    async with spindle.open(tmp_path, tools=till.tools, flows=[flow()]) as app:
        await given_up_in(app, till, app.run_flow(flow()))
        assert isinstance(await resumed(app), Finished)
        assert till.charges == ["one", "one"]
        assert "begun" not in await kinds(app)


async def test_only_the_step_without_an_end_is_asked_about(tmp_path: Path) -> None:
    till = Till()
    till.hold_at = 2
    async with given_up(tmp_path, till, "pay_twice") as app:
        pause = the_question(await resumed(app))
        assert pause.details["arguments"] == {"name": "two"}
        done = await app.resume(pause.token, {"done": True, "result": "charged two"})
        assert isinstance(done, Finished)
        assert done.result.text == "charged one, charged two"
        assert till.charges == ["one", "two"]


async def test_parallel_steps_share_a_write_and_each_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till()
    till.wait_for = 3
    writes: list[list[str]] = []
    noted: list[str] = []
    all_noted = asyncio.Event()
    begin = RunJournal.begin

    async def begin_counted(journal: RunJournal, path: str, *, keyed: bool) -> None:
        noted.append(path)
        if len(noted) == 3:
            asyncio.get_running_loop().call_soon(all_noted.set)
        await begin(journal, path, keyed=keyed)

    monkeypatch.setattr(RunJournal, "begin", begin_counted)
    async with spindle.open(tmp_path, tools=till.tools) as app:
        store = app.store

        class Watched:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            async def save_run(self, run: Any, events: Any = (), pauses: Any = ()) -> bool:
                writes.append([event.kind for event in events])
                await all_noted.wait()  # a slow write: whoever comes meanwhile shares the next
                return await store.save_run(run, events, pauses)

            async def save_events(self, run: Any, events: Any) -> bool:
                writes.append([event.kind for event in events])
                return await store.save_events(run, events)

        async with spindle.open(tmp_path, tools=till.tools, run_store=Watched()) as watched:  # type: ignore[arg-type]
            await given_up_in(watched, till, watched.run("pay_all"))
            noting = [kinds for kinds in writes if "begun" in kinds]
            assert noting[0][:2] == ["started", "begun"]
            assert sum(kinds.count("begun") for kinds in noting) == 3
            assert len(noting) <= 2
            outcome = await watched.resume((await the_run(app)).id)
        assert isinstance(outcome, Paused)
        asked = {pause.details["arguments"]["name"]: pause.token for pause in outcome.pauses}
        assert sorted(asked) == ["a", "b", "c"]
        assert len(till.charges) == 3
        await app.resume(asked["a"], {"done": True})
        await app.resume(asked["b"], True)
        done = await app.resume(asked["c"], {"done": True, "result": "charged c"})
        assert isinstance(done, Finished)
        assert done.result.text.endswith("What it returned is not known., charged b, charged c")
        assert len(till.charges) == 4


async def test_a_call_alone_notes_nothing(tmp_path: Path) -> None:
    till = Till()
    till.hold_at = 9
    async with spindle.open(tmp_path, tools=till.tools) as app:
        assert isinstance(await app.run("charge", name="one"), Finished)
        await app.call("charge", name="two")
        assert await app.store.runs(limit=9) == []


async def test_a_tool_that_asks_and_then_acts_is_in_doubt_too(tmp_path: Path) -> None:
    """Its approval is on record, so it would act again without anybody being asked."""
    till = Till()
    async with spindle.open(tmp_path, tools=till.tools) as app:
        asked = await app.run("pay_when_told")
        assert isinstance(asked, Paused)
        await given_up_in(app, till, app.resume(asked.pauses[0].token, True))
        pause = the_question(await resumed(app))
        assert pause.tool == "pay_when_told"
        assert till.charges == ["one"]
        assert isinstance(await app.resume(pause.token, {"done": True}), Finished)
        assert till.charges == ["one"]


async def test_a_program_that_stops_to_ask_is_in_no_doubt(tmp_path: Path) -> None:
    asked: list[int] = []

    @tool
    def wonder(context: Context) -> str:
        asked.append(1)
        return f"{context.ask('One?')} {context.ask('Two?')}"

    @tool
    async def outer(context: Context) -> str:
        return (await context.call("wonder")).text

    async with spindle.open(tmp_path, tools=[wonder, outer]) as app:
        outcome = await app.run("outer")
        for answer in ("a", "b"):
            assert isinstance(outcome, Paused)
            assert [pause.kind for pause in outcome.pauses] == ["input"]
            outcome = await app.resume(outcome.pauses[0].token, answer)
        assert isinstance(outcome, Finished)
        assert outcome.result.text == "a b"
        assert len(asked) == 3


async def test_a_process_that_lost_its_run_sends_nothing_any_more(tmp_path: Path) -> None:
    """It slept before the call; noting it is a write, which the store refuses."""
    till, ready, wake = Till(), asyncio.Event(), asyncio.Event()
    till.hold_at = 9

    @tool
    async def sleeper(context: Context) -> str:
        await context.call("charge", name="one")
        if not ready.is_set():
            ready.set()
            await wake.wait()
        return (await context.call("charge", name="two")).text

    tools = [*till.tools, sleeper]
    async with spindle.open(tmp_path, tools=tools) as late, spindle.open(tmp_path, tools=tools) as other:
        work = asyncio.create_task(late.run("sleeper"))
        await ready.wait()
        await end_leases(other.store)
        assert isinstance(await resumed(other), Finished)
        wake.set()
        with pytest.raises(RunLostError):
            await work
        assert till.charges == ["one", "two"]


async def test_a_call_whose_beginning_cannot_be_noted_is_not_made(tmp_path: Path) -> None:
    till = Till()
    till.hold_at = 9
    async with spindle.open(tmp_path, tools=till.tools) as app:
        store = app.store

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            async def save_run(self, run: Any, events: Any = (), pauses: Any = ()) -> bool:
                if any(event.kind == "begun" for event in events):
                    raise StoreError("no space left on the disk")
                return await store.save_run(run, events, pauses)

        async with spindle.open(tmp_path, tools=till.tools, run_store=Full()) as full:  # type: ignore[arg-type]
            failed = await full.run("pay_twice")
            assert isinstance(failed, Finished)
            assert failed.result.is_error
            assert "the call was not made" in failed.result.text
            assert "no space left" in failed.result.text
        assert till.charges == []


# --- answers


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"done": False}, "confirmed by"),
        ({"done": True, "approved": False}, "confirmed by"),
        ({"approved": False, "result": {"number": 1}}, "confirmed by"),
        ({"approved": True, "arguments": {"name": "two"}}, "has no 'arguments'"),
        ({"done": True, "result": {"number": "one"}}, "does not fit"),
        ({"done": True, "result": "one"}, "does not fit"),
        ("yes", "is answered by"),
    ],
)
async def test_a_wrong_answer_uses_nothing_up(tmp_path: Path, wrong: Any, why: str) -> None:
    till = Till()
    async with given_up(tmp_path, till, "pay", what="receipt") as app:
        pause = the_question(await resumed(app))
        with pytest.raises(InvalidArgumentsError, match=why):
            await app.resume(pause.token, wrong)
        done = await app.resume(pause.token, {"done": True, "result": {"number": 1}})
        assert isinstance(done, Finished)
        assert till.charges == ["one"]


async def charged_and_given_up(app: Spindle, server: ChargingServer, running: Any) -> None:
    server.held.add("charge")
    work = asyncio.ensure_future(running)
    await server.arrived(server.count() + 1)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    await server.release()


@tool
async def pay_api(context: Context) -> str:
    return (await context.call("api.charge", amount=5)).text


@pytest.mark.parametrize("approvers", ['["bob"]', '["bob", "caller"]'])
async def test_nobody_decides_about_their_own_call_unless_the_settings_say_so(
    tmp_path: Path, approvers: str
) -> None:
    async with charging_server() as server:
        server.write(tmp_path, f"approvers = {approvers}\n")
        async with spindle.open(tmp_path, tools=[pay_api]) as app:
            await app.sync()
            options = spindle.CallOptions(principal=ANN)
            await charged_and_given_up(app, server, app.run("pay_api", {}, options))
            pause = the_question(await resumed(app))
            assert pause.token in [item.token for item in await app.pauses(approver=BOB)]
            if "caller" in approvers:
                done = await app.resume(pause.token, {"done": True}, principal=ANN)
                assert isinstance(done, Finished)
            else:
                for answer in (True, {"done": True}, {"done": True, "result": {"id": 1}}):
                    with pytest.raises(PermissionDeniedError, match="'ann' may not approve"):
                        await app.resume(pause.token, answer, principal=ANN)
                done = await app.resume(pause.token, refused="not now", principal=ANN)
                assert isinstance(done, Finished)
                assert "may have been done or not" in done.result.text
                assert done.result.text.endswith("a person decided not to repeat it: not now")
            assert server.count() == 1


# --- settings and hints


async def test_a_flow_takes_its_edge_for_what_is_in_doubt_and_does_not_try_again(tmp_path: Path) -> None:
    def flow() -> Flow:
        pay = ToolNode("api.charge", params={"amount": 5}, retry=Retry(attempts=3))
        look = ToolNode("api.balance")
        pay - "in_doubt" >> look
        return Flow(pay, name="careful")

    async with charging_server() as server:
        server.write(tmp_path, 'in_doubt = "fail"\n')
        async with spindle.open(tmp_path, flows=[flow()]) as app:
            await app.sync()
            await charged_and_given_up(app, server, app.run_flow(flow()))
            assert isinstance(await resumed(app), Finished)
            assert [asked.operation for asked in server.asked] == ["charge", "balance"]


class Pay(Node):
    till: Till

    async def exec(self, prep_res: Any) -> str:
        return await self.till.charged("one")


@flow_safe
class PurePay(Pay):
    pass


class RepeatedPay(Pay):
    in_doubt = "repeat"


class FailingPay(Pay):
    in_doubt = "fail"


@pytest.mark.parametrize("kind", [Pay, PurePay, RepeatedPay, FailingPay])
async def test_a_node_written_by_hand_is_judged_like_a_call(tmp_path: Path, kind: type[Pay]) -> None:
    till = Till()

    def flow() -> Flow:
        node = kind(id="pay")
        node.till = till
        return Flow(node, name="by hand")

    async with spindle.open(tmp_path, flows=[flow()]) as app:
        await given_up_in(app, till, app.run_flow(flow()))
        if kind is FailingPay:
            with pytest.raises(InDoubtError, match="node pay"):
                await resumed(app)
        elif kind is Pay:
            pause = the_question(await resumed(app))
            assert not app.runner.may_approve(pause, pause.principal), "the owner decides"
            done = await app.resume(pause.token, {"done": True, "result": "charged one"})
            assert isinstance(done, Finished)
            assert done.result.text == "charged one"
        else:
            assert isinstance(await resumed(app), Finished)
        assert len(till.charges) == (1 if kind in (Pay, FailingPay) else 2)


async def test_a_node_whose_result_is_no_json_is_done_again_after_a_pause_without_a_question(
    tmp_path: Path,
) -> None:
    made: list[int] = []

    class Odd(Node):
        def exec(self, prep_res: Any) -> Any:
            made.append(1)
            return {1, 2}

    def flow() -> Flow:
        first, last = Odd(id="odd"), spindle.flows.Ask("Go?")
        first >> last
        return Flow(first, name="odd")

    async with spindle.open(tmp_path, flows=[flow()]) as app:
        outcome = await app.run_flow(flow())
        assert isinstance(outcome, Paused)
        assert isinstance(await app.resume(outcome.pauses[0].token, "go"), Finished)
        assert len(made) == 2
