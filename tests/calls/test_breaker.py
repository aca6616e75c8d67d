"""The breaker: opened by failures of the source alone, and closed by one call that finds it well."""

from __future__ import annotations

import asyncio

import pytest
from made_source import OpenDesk, failing, spec, text, until

from spindle import CallOptions
from spindle.calls.breaker import Breaker
from spindle.domain.call import Call, Result
from spindle.domain.tool import Tool
from spindle.errors import (
    AuthError,
    BreakerOpenError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)

ONCE = {"attempts": 1}


@pytest.mark.parametrize("kind", [ConnectionFailedError, CallTimeoutError, ServerError])
async def test_it_opens_after_that_many_failures_of_the_source(
    desk: OpenDesk, kind: type[SpindleError]
) -> None:
    answer = failing(kind("1"), kind("2"), kind("because of this"))
    async with desk(spec(), answer=answer, retry=ONCE, breaker={"failures": 3, "cooldown": 30}) as d:
        for _ in range(3):
            with pytest.raises(kind):
                await d.call("made.do")
        d.clock.time += 10
        with pytest.raises(BreakerOpenError) as caught:
            await d.call("made.do")
        assert len(d.source.calls) == 3
    error = caught.value
    assert error.retry_after == 20
    assert not error.sent
    assert "'made' failed 3 times in a row and is not called for another 20.0 s" in str(error)
    assert "because of this" in str(error)
    assert "spindle doctor made" in str(error.hint)


async def test_calls_that_fail_together_count_as_one_failure(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(tool: object, call: object) -> Result:
        await gate.wait()
        raise ConnectionFailedError("the server was ended by SIGKILL")

    async with desk(spec(), breaker={"failures": 3}, max_concurrency=20, retry=ONCE) as d:
        d.source.answer = answer
        calls = [asyncio.create_task(d.call("made.do")) for _ in range(20)]
        await until(lambda: d.source.running == 20)
        gate.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionFailedError}
        with pytest.raises(ConnectionFailedError, match="SIGKILL"):
            await d.call("made.do")
        with pytest.raises(ConnectionFailedError, match="SIGKILL"):
            await d.call("made.do")
        with pytest.raises(BreakerOpenError, match="failed 3 times in a row"):
            await d.call("made.do")


@pytest.mark.parametrize(
    "error",
    [
        ClientError("x"),
        AuthError("x"),
        RateLimitedError("x"),
        PermissionDeniedError("x"),
        NotFoundError("x"),
        InvalidArgumentsError("x"),
        ResultTooLargeError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_the_source_can_not_be_blamed_for_does_not_open_it(
    desk: OpenDesk, error: SpindleError
) -> None:
    answer = failing(*[type(error)("x") for _ in range(4)])
    async with desk(spec(), answer=answer, retry=ONCE, breaker={"failures": 1}) as d:
        for _ in range(4):
            with pytest.raises(type(error)):
                await d.call("made.do")
        assert (await d.call("made.do")).text == "done"


async def test_bad_arguments_tool_errors_and_broken_promises_do_not_open_it(desk: OpenDesk) -> None:
    results = [text("bad", is_error=True), text("no structure")]

    async def answer(_tool: Tool, _call: Call) -> Result:
        return results.pop(0) if results else text("fine", structured={}, has_structured=True)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    promised = spec("do", schema, output_schema={"type": "object"})
    async with desk(promised, answer=answer, breaker={"failures": 1}) as d:
        with pytest.raises(InvalidArgumentsError):
            await d.call("made.do", n="x")
        assert (await d.call("made.do")).is_error
        with pytest.raises(ServerError, match="promises structured output"):
            await d.call("made.do")
        assert (await d.call("made.do")).text == "fine"


async def test_a_success_between_failures_starts_the_count_again(desk: OpenDesk) -> None:
    async with desk(spec(), breaker={"failures": 2}) as d:
        for _ in range(4):
            d.source.answer = failing(ServerError("x"))
            with pytest.raises(ServerError):
                await d.call("made.do")
            await d.call("made.do")
        assert len(d.source.calls) == 8


async def _open_breaker(d: object) -> None:
    d.source.answer = failing(ServerError("down"))  # type: ignore[attr-defined]
    with pytest.raises(ServerError):
        await d.call("made.do")  # type: ignore[attr-defined]


async def test_of_twenty_callers_exactly_one_tries_whether_it_is_back(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, _call: Call) -> Result:
        await gate.wait()
        return text("back")

    async with desk(spec(), breaker={"failures": 1, "cooldown": 30}, max_concurrency=20) as d:
        await _open_breaker(d)
        d.source.answer = answer
        d.source.calls.clear()
        d.clock.time += 30
        tasks = [asyncio.create_task(d.call("made.do", n=n)) for n in range(20)]
        await until(lambda: sum(task.done() for task in tasks) == 19)
        assert len(d.source.calls) == 1
        gate.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, BreakerOpenError)]
        assert len(refused) == 19
        assert "while one call tries it again" in str(refused[0])
        assert refused[0].retry_after == 0
        # The one that succeeded closed it for all.
        again = await asyncio.gather(*(d.call("made.do", n=n) for n in range(20)))
    assert {result.text for result in again} == {"back"}


async def test_a_probe_that_fails_opens_it_for_another_cooldown(desk: OpenDesk) -> None:
    async with desk(spec(), breaker={"failures": 3, "cooldown": 30}, retry=ONCE) as d:
        d.source.answer = failing(*[ServerError(str(n)) for n in range(4)])
        for _ in range(3):
            with pytest.raises(ServerError):
                await d.call("made.do")
        d.clock.time += 31
        with pytest.raises(ServerError):
            await d.call("made.do")
        with pytest.raises(BreakerOpenError) as caught:
            await d.call("made.do")
    assert caught.value.retry_after == 30


async def test_a_probe_that_the_source_refuses_shows_that_it_is_back(desk: OpenDesk) -> None:
    async with desk(spec(), breaker={"failures": 1, "cooldown": 30}) as d:
        await _open_breaker(d)
        d.clock.time += 30
        d.source.answer = failing(ClientError("not like that"))
        with pytest.raises(ClientError):
            await d.call("made.do")
        assert (await d.call("made.do")).text == "done"


@pytest.mark.parametrize("where", ["in the source", "waiting for a place"])
async def test_a_cancelled_probe_leaves_its_place_to_the_next(desk: OpenDesk, where: str) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, call: Call) -> Result:
        if "first" in call.arguments:
            await gate.wait()
        if call.arguments.get("n") == 0:
            await asyncio.Event().wait()
        return text("back")

    in_source = where == "in the source"
    limit = 2 if in_source else 1
    async with desk(spec(), breaker={"failures": 1, "cooldown": 30}, max_concurrency=limit) as d:
        d.source.answer = answer
        occupying = asyncio.create_task(d.call("made.do", first=True))
        await until(lambda: d.source.running == 1)
        breaker = d.app._caller.guards["made"].breaker
        breaker.failed(ServerError("down"), breaker.enter())
        d.clock.time += 30
        assert breaker.state == "half-open"
        probe = asyncio.create_task(d.call("made.do", n=0))
        await until(lambda: breaker._probing and (d.source.running == 2 or not in_source))
        with pytest.raises(BreakerOpenError):
            await d.call("made.do", n=1)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        gate.set()
        await occupying
        assert (await d.call("made.do", n=2)).text == "back"
        assert breaker.state == "closed"


async def test_cancellation_is_no_failure(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer, breaker={"failures": 1}) as d:
        for _ in range(3):
            task = asyncio.create_task(d.call("made.do"))
            await until(lambda: d.source.running == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert d.app._caller.guards["made"].breaker.state == "closed"


async def test_each_source_has_its_own(desk: OpenDesk) -> None:
    async with desk(spec(), breaker={"failures": 1}, others={"second": {"breaker": {"failures": 1}}}) as d:
        await _open_breaker(d)
        with pytest.raises(BreakerOpenError):
            await d.call("made.do")
        assert (await d.call("second.do")).text == "done"


async def test_a_refused_call_counts_as_no_attempt_and_is_recorded(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), breaker={"failures": 1}) as d:
        await _open_breaker(d)
        with pytest.raises(BreakerOpenError):
            await d.call("made.do")
        record = await d.last()
    assert (record.outcome, record.attempts) == ("connection", 0)
    assert record.error is not None
    assert record.error["retry_after"] == 30
    assert d.clock.slept == []


async def test_timeouts_open_it(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer, breaker={"failures": 2}) as d:
        for _ in range(2):
            with pytest.raises(CallTimeoutError):
                await d.call("made.do", {}, CallOptions(timeout=0))
        with pytest.raises(BreakerOpenError):
            await d.call("made.do")


def test_a_call_that_began_before_it_opened_changes_nothing_by_succeeding() -> None:
    breaker = Breaker("x", 1, 30, lambda: 0.0)
    assert breaker.state == "closed"
    early = breaker.enter()
    breaker.failed(ServerError("down"), breaker.enter())
    breaker.succeeded(early)
    breaker.failed(ClientError("no"), early)
    assert breaker.state == "open"
    with pytest.raises(BreakerOpenError, match="failed once and"):
        breaker.enter()
