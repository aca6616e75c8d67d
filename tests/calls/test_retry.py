"""Sent again only where that is safe, after a wait that the source or the settings choose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_source import OpenDesk, failing, spec, text

from servers.leases import end_leases
from spindle import Hints, Tool
from spindle.calls.retries import may_be_repeated, wait_before_retry
from spindle.domain.call import Call, Result
from spindle.domain.source import RetryConfig, SourceConfig
from spindle.domain.tool import ToolSpec
from spindle.errors import (
    AuthError,
    BreakerOpenError,
    BusyError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    InvalidArgumentsError,
    RateLimitedError,
    RunLostError,
    ServerError,
    SpindleError,
    ToolError,
    from_status,
)
from spindle.flows import Flow, ToolNode

UNSAFE, READ_ONLY, IDEMPOTENT = Hints(), Hints(read_only=True), Hints(idempotent=True)
DESTRUCTIVE = Hints(destructive=True, read_only=False, idempotent=False)


def tool(hints: Hints) -> Tool:
    return Tool("made.do", "made", "made", ToolSpec("do", hints=hints), "f")


def retried(error: SpindleError, hints: Hints = UNSAFE, **settings: Any) -> bool:
    return may_be_repeated(error, tool(hints), SourceConfig(kind="made", retry=RetryConfig(**settings)))


def waits(error: SpindleError, attempt: int, left: float = 1e9, **settings: Any) -> float | None:
    return wait_before_retry(error, attempt, RetryConfig(**settings), left)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("lost"),
        CallTimeoutError("slow"),
        ServerError("broken", retryable=True),
        from_status(500, "x"),
        from_status(503, "x"),
        from_status(504, "x"),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.status}",
)
def test_a_failure_that_may_have_had_an_effect_is_repeated_only_where_that_is_harmless(
    error: SpindleError,
) -> None:
    assert retried(error, READ_ONLY)
    assert retried(error, IDEMPOTENT)
    assert not retried(error, UNSAFE)
    assert not retried(error, DESTRUCTIVE)


def test_what_was_never_sent_may_be_sent() -> None:
    assert retried(ConnectionFailedError("refused", sent=False), UNSAFE)
    assert retried(ConnectionFailedError("refused", sent=False), DESTRUCTIVE)


@pytest.mark.parametrize("status", [429, 503])
def test_what_the_source_asks_to_be_sent_later_may_be_sent(status: int) -> None:
    assert retried(from_status(status, "later", retry_after=1), DESTRUCTIVE)


def test_what_was_refused_with_429_was_not_done_and_may_be_sent() -> None:
    assert retried(from_status(429, "too many"), DESTRUCTIVE)
    # Code that says so in its own words may have done a part of its work.
    assert not retried(RateLimitedError("too many"), DESTRUCTIVE)
    assert retried(RateLimitedError("too many"), READ_ONLY)


@pytest.mark.parametrize(
    "error",
    [
        ClientError("x"),
        AuthError("x"),
        InvalidArgumentsError("x", sent=False),
        ToolError("x"),
        ServerError("broke its protocol"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_fail_again_is_not_repeated(error: SpindleError) -> None:
    assert not retried(error, READ_ONLY)


@pytest.mark.parametrize("kind", [BreakerOpenError, BusyError])
def test_what_was_not_sent_may_be_repeated_but_not_by_a_call_that_has_no_time_left(
    kind: type[SpindleError],
) -> None:
    error = kind("x", sent=False, retry_after=1)
    assert retried(error, DESTRUCTIVE)
    assert waits(error, 1) is None


STATUSES = (400, 404, 408, 409, 423, 425, 429, 500, 501, 502, 503, 504)
USUAL = {408, 429, 500, 502, 503, 504}


@pytest.mark.parametrize(
    ("statuses", "repeated"),
    [
        (None, USUAL),
        ((500,), {500}),
        ((409, 501), {409, 501}),
        ((), set()),
        (("+409", "+423"), USUAL | {409, 423}),
        (("-500", "-502"), USUAL - {500, 502}),
        (("+425", "-429"), USUAL - {429} | {425}),
        ((503, "+409"), {409, 503}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, (set, frozenset)) else value),
)
def test_statuses_narrow_and_add(statuses: Any, repeated: set[int]) -> None:
    errors = {status: from_status(status, "x") for status in STATUSES}
    found = {status for status in STATUSES if retried(errors[status], READ_ONLY, statuses=statuses)}
    assert found == repeated
    # What may have had an effect is not repeated because a setting calls its status harmless.
    assert not any(retried(errors[status], UNSAFE, statuses=statuses) for status in STATUSES if status != 429)


def test_a_429_that_the_settings_leave_out_is_not_repeated() -> None:
    assert not retried(from_status(429, "x", retry_after=1), UNSAFE, statuses=(503,))


def test_an_error_that_says_it_would_come_again_is_repeated_only_where_the_settings_name_its_status() -> None:
    error = ServerError("the query has a mistake", status=500, answered=True)
    assert not retried(error, READ_ONLY)
    assert not retried(error, READ_ONLY, statuses=("+409",))
    assert retried(error, READ_ONLY, statuses=(500,))
    assert retried(error, READ_ONLY, statuses=("+500",))


@pytest.mark.parametrize("wrong", ["409x", "~409", 99, 600, "", "+"])
def test_what_is_no_status_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is no status: write it as 409"):
        RetryConfig(statuses=(wrong,))


@given(
    attempt=st.integers(1, 19),
    wait=st.floats(0, 100),
    longest=st.floats(0, 100),
)
def test_the_wait_doubles_with_jitter_and_never_passes_the_longest(
    attempt: int, wait: float, longest: float
) -> None:
    found = waits(ConnectionFailedError("x"), attempt, attempts=20, wait=wait, max_wait=longest)
    full = min(longest, wait * 2 ** (attempt - 1))
    assert found is not None
    assert full / 2 <= found <= full


def test_waits_are_spread() -> None:
    assert len({waits(ConnectionFailedError("x"), 1, wait=1) for _ in range(20)}) > 10


@given(after=st.floats(0, 1000), longest=st.floats(0, 1000), left=st.floats(0, 1000))
def test_retry_after_is_kept_to_or_the_call_ends(after: float, longest: float, left: float) -> None:
    found = waits(RateLimitedError("later", retry_after=after), 1, left, max_wait=longest)
    assert found == (after if after <= min(longest, left) else None)


# --- in the path of a call


async def test_attempts_are_counted_and_end(desk: OpenDesk) -> None:
    errors = [ServerError(str(n), retryable=True) for n in range(10)]
    settings = {"attempts": 3, "wait": 4, "max_wait": 100}
    async with desk(spec(read_only=True), answer=failing(*errors), retry=settings) as d:
        with pytest.raises(ServerError, match="2"):
            await d.call("made.do")
        failed = await d.last()
        assert len(d.source.calls) == 3
        first, second = d.clock.slept
        d.source.answer = failing(ServerError("x", retryable=True))
        await d.call("made.do")
        worked = await d.last()
    assert (failed.outcome, failed.attempts) == ("server", 3)
    assert (worked.outcome, worked.attempts) == ("ok", 2)
    assert 2 <= first <= 4 <= second <= 8


async def test_retry_after_is_waited_for_by_the_clock(desk: OpenDesk) -> None:
    answer = failing(RateLimitedError("later", retry_after=7.5), from_status(503, "later", retry_after=2))
    async with desk(spec(), answer=answer) as d:
        assert (await d.call("made.do")).text == "done"
        assert d.clock.slept == [7.5, 2]
        assert (await d.last()).attempts == 3


async def test_a_source_that_wants_more_time_than_we_have_is_told_to_the_caller(desk: OpenDesk) -> None:
    answer = failing(RateLimitedError("later", retry_after=60, status=429))
    async with desk(spec(read_only=True), answer=answer, retry={"max_wait": 10}) as d:
        with pytest.raises(RateLimitedError) as caught:
            await d.call("made.do")
        record = await d.last()
    assert caught.value.retry_after == 60
    assert d.clock.slept == []
    assert (record.outcome, record.attempts) == ("rate_limited", 1)
    assert record.error is not None
    assert record.error["retry_after"] == 60


async def test_a_429_without_a_wait_is_repeated_also_for_a_tool_with_effects(desk: OpenDesk) -> None:
    answer = failing(from_status(429, "too many"), from_status(429, "too many"))
    async with desk(spec(), answer=answer, retry={"wait": 4, "max_wait": 100}) as d:
        assert (await d.call("made.do")).text == "done"
        first, second = d.clock.slept
        assert (await d.last()).attempts == 3
    assert 2 <= first <= 4 <= second <= 8


async def test_waiting_to_try_again_counts_into_the_time_of_a_call(desk: OpenDesk) -> None:
    later = [from_status(429, "later", retry_after=2) for _ in range(3)]
    async with desk(spec(), answer=failing(*later), timeout=5, retry={"attempts": 9}) as d:
        with pytest.raises(RateLimitedError) as caught:
            await d.call("made.do")
        assert d.clock.slept == [2, 2]
        assert len(d.source.calls) == 3
        # It may be made again, by whoever has the time.
        assert (caught.value.retryable, caught.value.retry_after) == (True, 2)


async def test_an_attempt_that_used_up_its_time_is_followed_by_one_with_all_of_it(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    retry = {"attempts": 3, "wait": 1}
    async with desk(spec(read_only=True), answer=answer, timeout=0.01, retry=retry) as d:
        with pytest.raises(CallTimeoutError, match=r"did not answer within 0.01 s$"):
            await d.call("made.do")
        assert len(d.source.calls) == 3


async def test_what_was_waited_is_not_there_for_the_next_attempt(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        if len(d.source.calls) == 1:
            raise from_status(429, "later", retry_after=4.99)
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer, timeout=5) as d:
        with pytest.raises(CallTimeoutError, match=r"did not answer within 0.01 s, having waited 4.99 s"):
            await d.call("made.do")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: CallTimeoutError("slow"),
        lambda: ConnectionFailedError("lost"),
        lambda: ConnectionFailedError("refused", sent=False),
        lambda: ServerError("broken", retryable=True),
        lambda: ServerError("broken"),
        *[lambda status=status: from_status(status, "x") for status in (400, 409, 429, 500, 501, 502, 503)],
    ],
)
@pytest.mark.parametrize("statuses", [None, ("+409",), (503,)], ids=str)
async def test_retryable_in_an_error_agrees_with_what_was_done(
    desk: OpenDesk, make: Any, statuses: Any, read_only: bool
) -> None:
    retry = {"attempts": 2, "wait": 0.001} | ({"statuses": statuses} if statuses else {})
    answer = failing(*[make() for _ in range(9)])
    async with desk(spec(read_only=read_only or None), answer=answer, retry=retry) as d:
        with pytest.raises(SpindleError) as caught:
            await d.call("made.do")
        record = await d.last()
    assert caught.value.retryable is (record.attempts == 2)
    assert record.error is not None
    assert record.error["retryable"] is caught.value.retryable


async def test_no_place_is_held_while_waiting_to_try_again(desk: OpenDesk) -> None:
    free: list[bool] = []
    async with desk(spec(read_only=True), max_concurrency=1) as d:
        d.source.answer = failing(ServerError("x", retryable=True))
        d.clock.on_sleep = lambda: free.append(d.app.caller.guards["made"].limit.free == 1)
        await d.call("made.do")
    assert free == [True]


async def test_a_call_cancelled_while_it_waits_to_try_again_ends_there(desk: OpenDesk) -> None:
    asleep = asyncio.Event()

    async with desk(spec(read_only=True), answer=failing(ServerError("x", retryable=True))) as d:

        async def sleep(_seconds: float) -> None:
            asleep.set()
            await asyncio.Event().wait()

        object.__setattr__(d.app.caller._clock, "sleep", sleep)
        task = asyncio.create_task(d.call("made.do"))
        await asleep.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = await d.last()
        assert len(d.source.calls) == 1
    assert (record.outcome, record.attempts) == ("cancelled", 1)


async def test_cancellation_is_never_repeated(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        raise asyncio.CancelledError

    async with desk(spec(read_only=True), answer=answer) as d:
        with pytest.raises(asyncio.CancelledError):
            await d.call("made.do")
        assert len(d.source.calls) == 1
        d.source.answer = failing()
        assert (await d.call("made.do")) == text("done")


# --- counted by real servers


async def test_a_tool_with_effects_is_sent_once_to_a_server_that_dies_of_it(
    open_sources: Any, stdio_server: Any
) -> None:
    async with open_sources({"fault": stdio_server()}) as app:
        with pytest.raises(ConnectionFailedError) as caught:
            await app.call("fault.die")
        record = (await app.history())[0]
        assert stdio_server.calls("die") == 1
        assert (await app.call("fault.echo", text="hello")).text == "hello"
    assert caught.value.sent
    assert (record.outcome, record.attempts) == ("connection", 1)


def test_a_server_that_nobody_vouches_for_is_not_believed_that_an_effect_may_be_repeated() -> None:
    error = ConnectionFailedError("x")
    for hints, believed, repeated in (
        (Hints(idempotent=True), True, True),
        (Hints(idempotent=True), False, False),
        (READ_ONLY, False, True),
    ):
        config = SourceConfig(kind="mcp", trust_hints=believed)
        assert may_be_repeated(error, tool(hints), config) is repeated


async def test_a_tool_without_effects_is_sent_again_to_the_server_that_takes_the_dead_ones_place(
    open_sources: Any, stdio_server: Any, tmp_path: Path
) -> None:
    async with open_sources({"fault": stdio_server()}) as app:
        result = await app.call("fault.die_once", mark=str(tmp_path / "mark"))
        record = (await app.history())[0]
    assert not result.is_error
    assert stdio_server.calls("die_once") == 2
    assert len(stdio_server.starts()) == 2
    assert (record.outcome, record.attempts) == ("ok", 2)


async def test_a_call_is_not_sent_again_for_a_run_that_another_process_took_over(desk: OpenDesk) -> None:
    """The process stood still during the first attempt, for longer than its lease."""

    async def loses(_tool: Tool, _call: Call) -> Result:
        store = d.app.store
        (run,) = await store.runs(limit=9)
        await end_leases(store)
        assert await store.take_run(run.id, "another", 1000.0, 1.0)
        d.clock.time += 31
        raise ConnectionFailedError("lost on the way")

    async with desk(spec("do", read_only=True), answer=loses) as d:
        with pytest.raises(RunLostError):
            await d.app.run_flow(Flow(ToolNode("made.do")))
        assert len(d.source.calls) == 1
