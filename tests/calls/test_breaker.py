"""The breaker: opened by failures of the source alone, and closed by one call that finds it well."""

from __future__ import annotations

import asyncio

import pytest
from made_source import OpenDesk, failing, spec, text, until

from spindle import CallOptions, Principal
from spindle.calls.breaker import Breakers
from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential
from spindle.domain.source import BreakerConfig
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
    from_status,
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


async def test_a_cancelled_probe_leaves_its_place_to_the_next(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, call: Call) -> Result:
        if call.arguments.get("n") == 0:
            await asyncio.Event().wait()
        return text("back")

    async with desk(spec(), breaker={"failures": 1, "cooldown": 30}, max_concurrency=2) as d:
        await _open_breaker(d)
        d.source.answer = answer
        d.clock.time += 30
        probe = asyncio.create_task(d.call("made.do", n=0))
        await until(lambda: d.source.running == 1)
        with pytest.raises(BreakerOpenError):
            await d.call("made.do", n=1)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert (await d.call("made.do", n=2)).text == "back"
        assert d.app.caller.guards["made"].breakers.state() == "closed"


async def test_a_call_that_waited_for_its_place_while_the_source_failed_is_not_sent(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, _call: Call) -> Result:
        await gate.wait()
        raise ServerError("down")

    async with desk(spec(), answer=answer, breaker={"failures": 1}, max_concurrency=1) as d:
        first = asyncio.create_task(d.call("made.do", n=0))
        await until(lambda: d.source.running == 1)
        waiting = [asyncio.create_task(d.call("made.do", n=n)) for n in range(1, 5)]
        await until(lambda: d.app.caller.guards["made"].limit.waiting == 4)
        gate.set()
        with pytest.raises(ServerError):
            await first
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {BreakerOpenError}
        assert len(d.source.calls) == 1


async def test_calls_that_fail_one_after_the_other_count_each_though_they_came_together(
    desk: OpenDesk,
) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, _call: Call) -> Result:
        await gate.wait()
        raise ConnectionFailedError("crashed")

    async with desk(spec(), answer=answer, breaker={"failures": 3}, max_concurrency=1, retry=ONCE) as d:
        tasks = [asyncio.create_task(d.call("made.do", n=n)) for n in range(9)]
        await until(lambda: d.source.running == 1)
        await until(lambda: d.app.caller.guards["made"].limit.waiting == 8)
        gate.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(BreakerOpenError) == 6
        assert len(d.source.calls) == 3


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
        assert d.app.caller.guards["made"].breakers.state() == "closed"


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
    breakers = Breakers("x", BreakerConfig(failures=1), lambda: 0.0)
    assert breakers.state() == "closed"
    early, late = breakers.enter("", ""), breakers.enter("", "")
    breakers.failed(ServerError("down"), late)
    breakers.succeeded(early)
    breakers.failed(ClientError("no"), early)
    assert breakers.state() == "open"
    with pytest.raises(BreakerOpenError, match="'x' failed once and"):
        breakers.enter("", "")


# --- whose failure it is


def _users(**settings: object) -> dict[str, object]:
    async def own(source: str, principal: Principal) -> Credential:
        return Credential(headers=(("authorization", f"Bearer {principal.id}"),))

    return {"options": {"credentials": own}, "retry": ONCE, **settings}


def _as(who: str) -> CallOptions:
    return CallOptions(principal=Principal(who))


def _unreachable() -> SpindleError:
    return ConnectionFailedError("cannot reach it", sent=False, unreachable=True)


async def test_what_happens_to_one_user_closes_the_way_for_that_user_only(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, call: Call) -> Result:
        if call.principal.id == "ann":
            raise CallTimeoutError("too slow")
        return text("done")

    async with desk(spec(), answer=answer, **_users(breaker={"failures": 2})) as d:
        for _ in range(2):
            with pytest.raises(CallTimeoutError):
                await d.call("made.do", {}, _as("ann"))
        assert (await d.call("made.do", {}, _as("ben"))).text == "done"
        with pytest.raises(BreakerOpenError, match="'made' with this credential failed 2 times in a row"):
            await d.call("made.do", {}, _as("ann"))


async def test_a_server_that_one_user_cannot_reach_is_left_alone_for_all(desk: OpenDesk) -> None:
    answer = failing(_unreachable(), _unreachable())
    async with desk(spec(), answer=answer, **_users(breaker={"failures": 2, "cooldown": 30})) as d:
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="cannot reach it"):
                await d.call("made.do", {}, _as("ann"))
        with pytest.raises(BreakerOpenError, match=r"^'made' failed 2 times in a row"):
            await d.call("made.do", {}, _as("ben"))
        assert len(d.source.calls) == 2
        d.clock.time += 30
        assert (await d.call("made.do", {}, _as("cleo"))).text == "done"
        assert (await d.call("made.do", {}, _as("ben"))).text == "done"


@pytest.mark.parametrize("status", [502, 503])
async def test_a_server_that_its_gateway_cannot_reach_is_left_alone_for_all(
    desk: OpenDesk, status: int
) -> None:
    answer = failing(*[from_status(status, "nobody there") for _ in range(2)])
    async with desk(spec(), answer=answer, **_users(breaker={"failures": 2})) as d:
        for _ in range(2):
            with pytest.raises(ServerError):
                await d.call("made.do", {}, _as("ann"))
        with pytest.raises(BreakerOpenError):
            await d.call("made.do", {}, _as("ben"))


@pytest.mark.parametrize(("status", "counts"), [(500, False), (501, False), (504, True)])
async def test_an_answer_that_took_too_long_is_the_users_own_and_a_servers_mistake_nobodys(
    desk: OpenDesk, status: int, counts: bool
) -> None:
    answer = failing(*[from_status(status, "no") for _ in range(2)])
    async with desk(spec(), answer=answer, **_users(breaker={"failures": 2})) as d:
        for _ in range(2):
            with pytest.raises(SpindleError):
                await d.call("made.do", {}, _as("ann"))
        assert (await d.call("made.do", {}, _as("ben"))).text == "done"
        if counts:
            with pytest.raises(BreakerOpenError):
                await d.call("made.do", {}, _as("ann"))
        else:
            assert (await d.call("made.do", {}, _as("ann"))).text == "done"


async def test_calls_of_different_users_that_get_no_answer_in_a_row_close_the_way_for_all(
    desk: OpenDesk,
) -> None:
    answer = failing(*[CallTimeoutError("too slow") for _ in range(3)])
    async with desk(spec(), answer=answer, **_users(breaker={"failures": 3, "cooldown": 30})) as d:
        for who in ("ann", "ben", "cleo"):
            with pytest.raises(CallTimeoutError):
                await d.call("made.do", {}, _as(who))
        with pytest.raises(BreakerOpenError, match="calls with different credentials got no answer"):
            await d.call("made.do", {}, _as("dora"))
        d.clock.time += 30
        assert (await d.call("made.do", {}, _as("dora"))).text == "done"


async def test_an_answer_to_anybody_between_them_shows_that_the_server_is_well(desk: OpenDesk) -> None:
    async with desk(spec(), **_users(breaker={"failures": 3})) as d:
        for number in range(9):
            d.source.answer = failing(CallTimeoutError("too slow"))
            with pytest.raises(CallTimeoutError):
                await d.call("made.do", {}, _as(f"user {number}"))
            if number % 2:
                await d.call("made.do", {}, _as("ben"))
        assert len(d.source.calls) == 13


async def test_a_user_whose_calls_fail_keeps_nobody_from_trying_a_server_that_is_back(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, call: Call) -> Result:
        if call.principal.id == "ann":
            raise CallTimeoutError("too slow")
        return text("back")

    async with desk(spec(), **_users(breaker={"failures": 2, "cooldown": 30})) as d:
        d.source.answer = failing(_unreachable(), _unreachable())
        for _ in range(2):
            with pytest.raises(ConnectionFailedError):
                await d.call("made.do", {}, _as("ben"))
        d.clock.time += 30
        d.source.answer = answer
        with pytest.raises(CallTimeoutError):
            await d.call("made.do", {}, _as("ann"))
        assert (await d.call("made.do", {}, _as("ben"))).text == "back"


async def test_an_error_that_the_source_answered_with_shows_that_it_is_there(desk: OpenDesk) -> None:
    answer = failing(*[ServerError("bad query", answered=True) for _ in range(5)])
    async with desk(spec(), answer=answer, breaker={"failures": 1}, retry=ONCE) as d:
        for _ in range(5):
            with pytest.raises(ServerError, match="bad query"):
                await d.call("made.do")
        assert (await d.call("made.do")).text == "done"


async def test_the_failure_of_another_source_that_a_tool_called_does_not_count(desk: OpenDesk) -> None:
    async def answer(tool: Tool, call: Call) -> Result:
        if tool.source == "second":
            raise ConnectionFailedError("gone")
        return await d.app.call("second.do")

    others = {"second": {"retry": ONCE, "breaker": {"failures": 100}}}
    async with desk(spec(), answer=answer, breaker={"failures": 1}, retry=ONCE, others=others) as d:
        for _ in range(3):
            with pytest.raises(ConnectionFailedError, match="gone"):
                await d.call("made.do")
        assert d.app.caller.guards["made"].breakers.state() == "closed"
