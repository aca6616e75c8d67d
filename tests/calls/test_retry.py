"""Sent again only where that is safe, after a wait that the source or the settings choose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_source import OpenDesk, failing, spec, text

from spindle import Hints, Tool
from spindle.calls.retries import wait_before_retry
from spindle.domain.call import Call, Result
from spindle.domain.source import RetryConfig
from spindle.domain.tool import ToolSpec
from spindle.errors import (
    AuthError,
    BreakerOpenError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    InvalidArgumentsError,
    RateLimitedError,
    ServerError,
    SpindleError,
    ToolError,
    from_status,
)

UNSAFE, READ_ONLY, IDEMPOTENT = Hints(), Hints(read_only=True), Hints(idempotent=True)
DESTRUCTIVE = Hints(destructive=True, read_only=False, idempotent=False)


def tool(hints: Hints) -> Tool:
    return Tool("made.do", "made", "made", ToolSpec("do", hints=hints), "f")


def retried(error: SpindleError, hints: Hints = UNSAFE, **settings: Any) -> bool:
    return wait_before_retry(error, tool(hints), 1, RetryConfig(**settings)) is not None


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("lost"),
        CallTimeoutError("slow"),
        ServerError("broken", retryable=True),
        from_status(500, "x"),
        from_status(503, "x"),
        from_status(504, "x"),
        from_status(429, "x"),
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


@pytest.mark.parametrize(
    "error",
    [
        ClientError("x"),
        AuthError("x"),
        InvalidArgumentsError("x", sent=False),
        ToolError("x"),
        ServerError("broke its protocol"),
        BreakerOpenError("x", sent=False, retry_after=1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_fail_again_is_not_repeated(error: SpindleError) -> None:
    assert not retried(error, READ_ONLY)


def test_only_the_statuses_in_the_settings_are_repeated() -> None:
    assert retried(from_status(502, "x"), READ_ONLY)
    assert not retried(from_status(502, "x"), READ_ONLY, statuses=(500,))
    assert not retried(from_status(501, "x"), READ_ONLY)
    assert retried(from_status(501, "x"), READ_ONLY, statuses=(501,))
    assert not retried(from_status(429, "x", retry_after=1), UNSAFE, statuses=(503,))


@given(
    attempt=st.integers(1, 19),
    wait=st.floats(0, 100),
    longest=st.floats(0, 100),
)
def test_the_wait_doubles_with_jitter_and_never_passes_the_longest(
    attempt: int, wait: float, longest: float
) -> None:
    settings = RetryConfig(attempts=20, wait=wait, max_wait=longest)
    found = wait_before_retry(ConnectionFailedError("x"), tool(READ_ONLY), attempt, settings)
    full = min(longest, wait * 2 ** (attempt - 1))
    assert found is not None
    assert full / 2 <= found <= full


def test_waits_are_spread() -> None:
    error, settings = ConnectionFailedError("x"), RetryConfig(wait=1)
    waits = {wait_before_retry(error, tool(READ_ONLY), 1, settings) for _ in range(20)}
    assert len(waits) > 10


@given(after=st.floats(0, 1000), longest=st.floats(0, 1000))
def test_retry_after_is_kept_to_or_the_call_ends(after: float, longest: float) -> None:
    error = RateLimitedError("later", retry_after=after)
    found = wait_before_retry(error, tool(UNSAFE), 1, RetryConfig(max_wait=longest))
    assert found == (after if after <= longest else None)


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


async def test_no_place_is_held_while_waiting_to_try_again(desk: OpenDesk) -> None:
    free: list[bool] = []
    async with desk(spec(read_only=True), max_concurrency=1) as d:
        d.source.answer = failing(ServerError("x", retryable=True))
        d.clock.on_sleep = lambda: free.append(not d.app._caller.guards["made"].limit._semaphore.locked())
        await d.call("made.do")
    assert free == [True]


async def test_a_call_cancelled_while_it_waits_to_try_again_ends_there(desk: OpenDesk) -> None:
    asleep = asyncio.Event()

    async with desk(spec(read_only=True), answer=failing(ServerError("x", retryable=True))) as d:

        async def sleep(_seconds: float) -> None:
            asleep.set()
            await asyncio.Event().wait()

        object.__setattr__(d.app._caller._clock, "sleep", sleep)
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
