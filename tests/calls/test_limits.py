"""Places and rates: never exceeded, never leaked, never the cause of a deadlock."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from made_source import PATIENCE, OpenDesk, failing, spec, text, until

import spindle
from servers.examples import examples
from spindle import CallOptions, Limit, Tool
from spindle.calls.limits import hold, in_order
from spindle.calls.rates import RateLimiter
from spindle.domain.call import Call, Result
from spindle.domain.source import RateLimit
from spindle.errors import BusyError, CallTimeoutError, ServerError
from spindle.settings import Settings


async def _some_steps(_tool: Tool, _call: Call) -> Result:
    for _ in range(5):
        await asyncio.sleep(0)
    return text("done")


def free_places(limit: Limit) -> int:
    return limit.free


async def test_no_more_calls_than_the_source_takes_run_at_any_moment(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(tool: Tool, call: Call) -> Result:
        await gate.wait()
        return await _some_steps(tool, call)

    async with desk(spec(), answer=answer, max_concurrency=3) as d:
        tasks = [asyncio.create_task(d.call("made.do", n=n)) for n in range(40)]
        await until(lambda: d.source.running == 3)
        gate.set()
        await asyncio.gather(*tasks)
        assert d.source.most == 3
        assert len(d.source.calls) == 40


async def test_three_levels_of_limits_meet_without_being_exceeded(desk: OpenDesk) -> None:
    """Two agents, each with a pattern of its own, fifty calls in parallel on one source."""
    gate = asyncio.Event()
    running: dict[str, int] = {}
    most: dict[str, int] = {}

    async def answer(_tool: Tool, call: Call) -> Result:
        names = [call.arguments["agent"], call.arguments["pattern"]]
        for name in names:
            running[name] = running.get(name, 0) + 1
            most[name] = max(most.get(name, 0), running[name])
        await gate.wait()
        await _some_steps(_tool, call)
        for name in names:
            running[name] -= 1
        return text("done")

    agents = {"agent a": Limit(4), "agent b": Limit(2)}
    patterns = {"pattern a": Limit(3), "pattern b": Limit(5)}
    async with desk(spec(), answer=answer, max_concurrency=4) as d:

        async def one(n: int) -> None:
            letter = "ab"[n % 2]
            agent, pattern = f"agent {letter}", f"pattern {letter}"
            # Whoever lists them in another order does not bring about a deadlock.
            limits = (agents[agent], patterns[pattern])
            options = CallOptions(limits=limits if n % 3 else limits[::-1])
            await d.call("made.do", {"agent": agent, "pattern": pattern}, options)

        async with asyncio.timeout(PATIENCE):
            tasks = [asyncio.create_task(one(n)) for n in range(50)]
            await until(lambda: d.source.running == 4)
            gate.set()
            await asyncio.gather(*tasks)
        assert d.source.most == 4
        assert len(d.source.calls) == 50
    allowed = {"agent a": 3, "pattern a": 3, "agent b": 2, "pattern b": 2}
    assert all(most[name] <= count for name, count in allowed.items())
    assert [free_places(limit) for limit in (*agents.values(), *patterns.values())] == [4, 2, 3, 5]


async def test_limits_listed_in_opposite_orders_do_not_wait_for_each_other(desk: OpenDesk) -> None:
    first, second = Limit(1), Limit(1)
    async with desk(spec(), answer=_some_steps) as d, asyncio.timeout(PATIENCE):
        await asyncio.gather(
            *(
                d.call("made.do", {}, CallOptions(limits=(first, second) if n % 2 else (second, first)))
                for n in range(20)
            )
        )
        assert d.source.most == 1


async def test_a_limit_named_twice_is_taken_once(desk: OpenDesk) -> None:
    only = Limit(1)
    async with desk(spec()) as d, asyncio.timeout(PATIENCE):
        assert (await d.call("made.do", {}, CallOptions(limits=(only, only)))).text == "done"


def test_the_sources_limit_is_taken_last_however_old_it_is() -> None:
    source, agent, pattern = Limit(1), Limit(1), Limit(1)
    assert in_order((pattern, agent, agent), source) == (agent, pattern, source)
    assert in_order((), source) == (source,)


# --- calls made during calls


async def test_a_tool_may_call_tools_of_its_own_source_deeper_than_the_limit(desk: OpenDesk) -> None:
    agent = Limit(2)
    options = CallOptions(limits=(agent,))

    async def answer(_tool: Tool, call: Call) -> Result:
        depth = call.arguments["depth"]
        if depth:
            inner = {"depth": depth - 1}
            await asyncio.gather(*(d.call("made.do", inner, options) for _ in range(2)))
        return text("done")

    async with desk(spec(), answer=answer, max_concurrency=1) as d, asyncio.timeout(PATIENCE):
        await asyncio.gather(*(d.call("made.do", {"depth": 5}, options) for _ in range(3)))
        assert len(d.source.calls) == 3 * (2**6 - 1)
        records = await d.records()
        assert free_places(d.app.caller.guards["made"].limit) == 1
    assert free_places(agent) == 2
    children = [record for record in records if record.parent]
    keys = {record.key for record in records}
    assert len(children) == len(records) - 3
    assert {record.parent for record in children} <= keys


async def test_python_tools_call_each_other_deeper_and_wider_than_the_limit(tmp_path: Path) -> None:
    running = most = 0

    async def leaf() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        return "leaf"

    async def branch(depth: int) -> int:
        name, arguments = ("branch", {"depth": depth - 1}) if depth else ("leaf", {})
        results = await asyncio.gather(*(app.call(name, arguments) for _ in range(3)))
        return sum(1 for result in results if not result.is_error)

    async with spindle.open(settings=Settings(tmp_path, {}), tools=[leaf, branch]) as app:
        config = app.catalog.sources.config("python").model_copy(update={"max_concurrency": 2})
        app.catalog.sources._configs["python"] = config
        async with asyncio.timeout(PATIENCE):
            results = await asyncio.gather(*(app.call("branch", depth=3) for _ in range(4)))
    assert [result.value for result in results] == [3] * 4
    assert most == 2


async def test_a_call_that_waits_to_have_its_place_back_may_lend_it_again() -> None:
    """One part of a call waits to have the lent place back when another part makes a further call: that
    one must get the place, or both would wait for ever."""
    limit = Limit(1)
    stranger_in, stranger_may_go = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def stranger() -> None:
        async with hold((limit,)):
            stranger_in.set()
            await stranger_may_go.wait()
            order.append("stranger")

    async def first_part() -> None:
        async with hold((limit,)):
            # The stranger stands in line before this part gives the place back to the outer call.
            waiting.append(asyncio.create_task(stranger(), context=contextvars.Context()))
            await until(lambda: limit.waiting)
        order.append("first part")

    async def second_part() -> None:
        await stranger_in.wait()
        inner = asyncio.create_task(second_call())
        await until(lambda: limit.waiting == 2)
        stranger_may_go.set()
        await inner

    async def second_call() -> None:
        async with hold((limit,)):
            order.append("second call")

    waiting: list[asyncio.Task[None]] = []
    async with asyncio.timeout(PATIENCE):
        async with hold((limit,)):
            await asyncio.gather(first_part(), second_part())
            assert free_places(limit) == 0
        await waiting[0]
    assert sorted(order) == ["first part", "second call", "stranger"]
    assert free_places(limit) == 1


async def test_a_task_that_outlives_its_call_takes_nothing_back(desk: OpenDesk) -> None:
    left: list[asyncio.Task[Any]] = []
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        await d.call("made.do", role="late")

    async def answer(_tool: Tool, call: Call) -> Result:
        if call.arguments["role"] == "outer":
            left.append(asyncio.create_task(later()))
        return text("done")

    async with desk(spec(), answer=answer, max_concurrency=1) as d, asyncio.timeout(PATIENCE):
        await d.call("made.do", role="outer")
        go.set()
        await left[0]
        assert free_places(d.app.caller.guards["made"].limit) == 1


# --- no schedule leaks a place


@examples(200)
@example(places=[1], workers=[(0, 2, 3, 6), (0, 1, 2, 3)])
@given(
    places=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    workers=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 3), st.integers(0, 12)),
        min_size=1,
        max_size=6,
    ),
)
def test_no_schedule_of_nested_calls_and_cancellations_leaks_or_exceeds_a_place(
    places: list[int], workers: list[tuple[int, int, int, int]]
) -> None:
    asyncio.run(_schedule(places, workers))


async def _schedule(places: list[int], workers: list[tuple[int, int, int, int]]) -> None:
    limits = [Limit(count) for count in places]
    source = limits[-1]
    inside = 0

    async def call(depth: int, width: int, outer: tuple[Limit, ...]) -> None:
        nonlocal inside
        async with hold(in_order(outer, source)):
            if depth:
                await asyncio.gather(*(call(depth - 1, width, outer) for _ in range(width)))
            else:
                inside += 1
                try:
                    assert inside <= places[-1]
                    await asyncio.sleep(0)
                finally:
                    inside -= 1

    async def cancel_after(task: asyncio.Task[None], turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()

    tasks: list[asyncio.Task[None]] = []
    helpers: list[asyncio.Task[None]] = []
    for which, depth, width, cancelled_after in workers:
        chosen = tuple(limit for index, limit in enumerate(limits[:-1]) if which >> index & 1)
        task = asyncio.create_task(call(depth, width, chosen if which & 4 else chosen[::-1]))
        tasks.append(task)
        if cancelled_after:
            helpers.append(asyncio.create_task(cancel_after(task, cancelled_after)))
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*helpers)
        # A cancelled gather() ends with the first of its parts; the others are still on their way out.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert [free_places(limit) for limit in limits] == places


@pytest.mark.parametrize("place", ["agent", "source", "rate", "session"])
async def test_a_call_cancelled_where_it_waits_leaves_every_place_free(desk: OpenDesk, place: str) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, call: Call) -> Result:
        if "hold" in call.arguments:
            await gate.wait()
        return text("done")

    agent = Limit(1 if place == "agent" else 5)
    options = CallOptions(limits=(agent,))
    more = {"rate_limit": "1/day", "timeout": 1e6} if place == "rate" else {}
    concurrency = 1 if place == "source" else 5
    async with desk(spec(), answer=answer, max_concurrency=concurrency, **more) as d:
        await d.app.sync()
        d.clock.gate = asyncio.Event()
        holder = asyncio.create_task(d.call("made.do", {"hold": True}, options))
        await until(lambda: d.source.running == 1)
        guards = d.app.caller.guards["made"]
        if place == "session":
            await _lose_session(d)
        waiting = [asyncio.create_task(d.call("made.do", {}, options)) for _ in range(3)]
        await until(lambda: _waits(place, agent, guards, d))
        for task in waiting:
            task.cancel()
        for task in waiting:
            with pytest.raises(asyncio.CancelledError):
                await task
        gate.set()
        with contextlib.suppress(ServerError):
            await holder
        assert free_places(agent) == (1 if place == "agent" else 5)
        assert free_places(guards.limit) == concurrency
        outcomes = [record.outcome for record in await d.records()]
    assert sorted(outcomes) == ["cancelled"] * 3 + ["ok"]


async def _lose_session(d: Any) -> None:
    """The next call has to open a session, which takes for ever."""

    @contextlib.asynccontextmanager
    async def never(_credential: Any, _on_change: Any) -> Any:
        await asyncio.Event().wait()
        yield

    d.source.open = never
    d.source.lose("cut")
    await until(lambda: not d.app.catalog.connections._open)


def _waits(place: str, agent: Limit, guards: Any, d: Any) -> bool:
    if place == "rate":
        return guards.rate.waiting == 3
    if place == "session":
        return free_places(guards.limit) == 1
    return (agent if place == "agent" else guards.limit).waiting == 3


# --- rates


@pytest.mark.parametrize(
    ("rate", "burst", "after_second"),
    [
        (RateLimit(calls=5, seconds=1), 5, 5),
        (RateLimit(calls=120, seconds=60), 120, 2),
        (RateLimit(calls=0.5, seconds=1), 1, 0),
        (RateLimit(calls=2.5, seconds=5), 2, 1),
    ],
)
def test_a_rate_lets_that_many_through_and_no_more(rate: RateLimit, burst: int, after_second: int) -> None:
    now = [0.0]
    limiter = RateLimiter(rate, lambda: now[0])

    def through() -> int:
        count = 0
        while limiter.take() is None:
            count += 1
        return count

    assert through() == burst
    assert through() == 0
    now[0] += 1
    assert through() == after_second


async def test_calls_wait_for_the_rate_before_they_are_sent(desk: OpenDesk) -> None:
    async with desk(spec(), rate_limit="3/day", timeout=1e6) as d:
        d.clock.gate = asyncio.Event()
        tasks = [asyncio.create_task(d.call("made.do", n=n)) for n in range(5)]
        await until(lambda: sum(task.done() for task in tasks) == 3)
        rate = d.app.caller.guards["made"].rate
        await until(lambda: rate.waiting == 2)
        assert len(d.source.calls) == 3
        d.clock.gate.set()
        await asyncio.gather(*tasks)
        assert len(d.source.calls) == 5
        assert d.clock.slept == [pytest.approx(28_800)] * 2


async def test_who_waits_longest_for_the_rate_goes_first_and_who_gives_up_takes_nothing() -> None:
    now, went, gate = [0.0], list[str](), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await gate.wait()
        now[0] += seconds

    limiter = RateLimiter(RateLimit(calls=1, seconds=10), lambda: now[0], sleep)

    async def go(name: str) -> None:
        await limiter.acquire()
        went.append(f"{name} at {now[0]:g}")

    tasks = {name: asyncio.create_task(go(name)) for name in ("a", "b", "c", "d", "e")}
    await until(lambda: limiter.waiting == 4)
    for name in ("b", "d"):
        tasks.pop(name).cancel()
    await until(lambda: limiter.waiting == 2)
    gate.set()
    await asyncio.gather(*tasks.values())
    assert went == ["a at 0", "c at 10", "e at 20"]


async def test_a_rate_below_one_call_a_period_is_kept(desk: OpenDesk) -> None:
    async with desk(spec(), rate_limit={"calls": 0.5, "seconds": 0.002}) as d:
        await d.call("made.do")
        await d.call("made.do")
        assert len(d.source.calls) == 2
        d.source.answer = failing(ServerError("x"))


# --- waiting: in turns, not for ever, and not for too many


async def test_whoever_waits_goes_in_turns_between_clients() -> None:
    limit, went = Limit(1), list[str]()
    assert limit.take()

    async def go(client: str, number: int) -> None:
        await limit.wait(client)
        went.append(f"{client}{number}")
        limit.release()

    tasks = [asyncio.create_task(go("greedy", number)) for number in range(5)]
    await until(lambda: limit.waiting == 5)
    tasks += [asyncio.create_task(go("ann", number)) for number in range(2)]
    tasks.append(asyncio.create_task(go("bob", 0)))
    await until(lambda: limit.waiting == 8)
    limit.release()
    await asyncio.gather(*tasks)
    assert went == ["greedy0", "ann0", "bob0", "greedy1", "ann1", "greedy2", "greedy3", "greedy4"]
    assert limit.free == 1


@pytest.mark.parametrize(("places", "most"), [(1, 1), (2, 1), (3, 2), (5, 4), (10, 8), (100, 80)])
def test_one_client_leaves_some_places_of_a_source_to_others(places: int, most: int) -> None:
    limit = Limit(places, is_shared=True)
    assert sum(limit.take("greedy") for _ in range(places)) == most
    assert limit.take("ann") == (places > 1)
    assert limit.take("local") == (places - most > 1), "the owner of the workspace shares with nobody"


async def test_a_client_that_has_many_places_gets_another_when_there_is_room_for_others_too() -> None:
    limit = Limit(5, is_shared=True)
    assert all(limit.take("greedy") for _ in range(4))
    fifth = asyncio.create_task(limit.wait("greedy"))
    await until(lambda: limit.waiting == 1)
    assert limit.take("ann"), "the last free place is hers"
    limit.release("ann")
    assert (limit.free, limit.waiting) == (1, 1)
    limit.release("greedy")
    await fifth
    for _ in range(4):
        limit.release("greedy")
    assert (limit.free, limit.waiting) == (5, 0)


async def test_a_full_line_turns_away_the_client_that_has_most_in_it() -> None:
    limit = Limit(1, "'made'", max_waiting=4)
    assert limit.take()
    greedy = [asyncio.create_task(limit.wait("greedy")) for _ in range(4)]
    await until(lambda: limit.waiting == 4)
    with pytest.raises(BusyError, match=r"all 1 places of 'made' are taken: 4 calls wait already"):
        await limit.wait("greedy")
    ann = [asyncio.create_task(limit.wait("ann")) for _ in range(2)]
    await until(lambda: sum(task.done() for task in greedy) == 2)
    assert limit.waiting == 4
    for task in greedy[2:]:  # its newest gave way
        with pytest.raises(BusyError):
            await task
    with pytest.raises(BusyError):  # now both have as many
        await limit.wait("ann")
    for task in (greedy[0], ann[0], greedy[1], ann[1]):
        limit.release()
        await task
    assert limit.waiting == 0


async def test_waiting_for_a_place_counts_into_the_time_of_a_call(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, call: Call) -> Result:
        await gate.wait()
        return text("done")

    async with desk(spec(), answer=answer, max_concurrency=1) as d:
        holder = asyncio.create_task(d.call("made.do", {"hold": True}))
        await until(lambda: d.source.running == 1)
        with pytest.raises(
            BusyError, match=r"all 1 places of 'made' are taken: no turn .* within 0.01 s"
        ) as busy:
            await d.call("made.do", {}, CallOptions(timeout=0.01))
        assert (busy.value.retry_after, busy.value.sent) == (1.0, False)
        assert "sources.made.max_concurrency" in (busy.value.hint or "")
        gate.set()
        assert (await holder).text == "done"
        assert d.app.caller.guards["made"].breakers.state() == "closed"
        assert [record.outcome for record in await d.records()].count("rate_limited") == 1


async def test_what_was_waited_is_taken_from_the_time_that_the_source_has(desk: OpenDesk) -> None:
    gates = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def answer(_tool: Tool, call: Call) -> Result:
        await gates[call.arguments["name"]].wait()
        return text("done")

    async with desk(spec(), answer=answer, max_concurrency=1) as d:
        first = asyncio.create_task(d.call("made.do", name="first"))
        await until(lambda: d.source.running == 1)
        second = asyncio.create_task(d.call("made.do", {"name": "second"}, CallOptions(timeout=1)))
        asyncio.get_running_loop().call_later(0.1, gates["first"].set)
        with pytest.raises(CallTimeoutError) as late:
            await second
        said = re.search(r"not answer within ([\d.]+) s, having waited ([\d.]+) s", late.value.message)
        assert said is not None
        assert float(said[1]) + float(said[2]) == pytest.approx(1, abs=0.01)
        assert (await first).text == "done"


async def test_a_rate_that_is_too_far_away_refuses_at_once_and_says_when(desk: OpenDesk) -> None:
    async with desk(spec(), rate_limit="2/minute") as d:
        await d.call("made.do")
        await d.call("made.do")
        with pytest.raises(BusyError, match=r"'made' takes 2 calls in 60 s: the next in 30 s") as busy:
            await d.call("made.do", {}, CallOptions(timeout=5))
        assert busy.value.retry_after == pytest.approx(30, abs=1)
        assert len(d.source.calls) == 2


async def test_the_rate_goes_in_turns_between_clients_and_cancelled_ones_take_nothing() -> None:
    now, went, gate = [0.0], list[str](), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await gate.wait()
        now[0] += seconds

    limiter = RateLimiter(RateLimit(calls=1, seconds=10), lambda: now[0], sleep)

    async def go(client: str) -> None:
        await limiter.acquire(client, 1000)
        went.append(f"{client} at {now[0]:g}")

    await limiter.acquire()
    tasks = [asyncio.create_task(go(client)) for client in ("greedy", "greedy", "greedy", "ann")]
    await until(lambda: limiter.waiting == 4)
    tasks.pop(1).cancel()
    await until(lambda: limiter.waiting == 3)
    gate.set()
    await asyncio.gather(*tasks)
    assert went == ["greedy at 10", "ann at 20", "greedy at 30"]


@examples(150)
@given(
    places=st.integers(1, 3),
    most=st.integers(1, 6),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), max_size=25),
    shared=st.booleans(),
)
def test_no_schedule_of_waits_refusals_and_cancellations_loses_a_place(
    places: int, most: int, steps: list[tuple[str, int]], *, shared: bool
) -> None:
    async def story() -> None:
        limit = Limit(places, max_waiting=most, is_shared=shared)

        async def call(client: str) -> None:
            if not limit.take(client):
                await limit.wait(client)
            try:
                assert 0 <= limit.free < places
                await asyncio.sleep(0)
            finally:
                limit.release(client)

        tasks: list[asyncio.Task[None]] = []
        for client, what in steps:
            if what == 0:
                await asyncio.sleep(0)
            elif what == 1 and tasks:
                tasks[len(tasks) // 2].cancel()
            else:
                tasks.append(asyncio.create_task(call(client)))
            assert limit.waiting <= most
        async with asyncio.timeout(PATIENCE):
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(each is None or isinstance(each, (BusyError, asyncio.CancelledError)) for each in ended)
        assert (limit.free, limit.waiting) == (places, 0)

    asyncio.run(story())
