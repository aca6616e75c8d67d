"""The path of a call, step by step, and what is recorded when it ends at one of them."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from made_source import OpenDesk, failing, spec, text, until

import spindle
from spindle import CallOptions, Credential, Principal, bearer
from spindle.domain.call import Call, Result
from spindle.domain.tool import Tool
from spindle.errors import (
    BreakerOpenError,
    CallTimeoutError,
    ClientError,
    ConfigurationError,
    ConnectionFailedError,
    InputRequired,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
    ToolError,
)
from spindle.settings import Settings

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_call_that_works_is_recorded_with_all_that_is_known_of_it(desk: OpenDesk) -> None:
    async with desk(spec("add", NUMBER)) as d:
        result = await d.call("made.add", n=1)
        record = await d.last()
    assert result.text == "done"
    assert (record.tool, record.source, record.principal) == ("made.add", "made", "local")
    assert (record.outcome, record.arguments, record.attempts) == ("ok", {"n": 1}, 1)
    assert record.started_at == 1000.0
    assert record.duration >= 0
    assert record.error is None
    assert record.parent is None


async def test_a_tool_that_does_not_exist_is_named_with_a_suggestion_and_nothing_is_recorded(
    desk: OpenDesk,
) -> None:
    async with desk(spec("read_file")) as d:
        with pytest.raises(NotFoundError) as caught:
            await d.call("made.reed_file")
        records = await d.records()
    assert "did you mean 'made.read_file'?" in str(caught.value.hint)
    assert records == []


async def test_every_step_of_the_path_comes_before_the_next(desk: OpenDesk) -> None:
    """One call that would fail at every step; each repaired step uncovers the next."""
    steps: list[str] = []
    allowed = False
    credential_error: SpindleError | None = ClientError("no credential")

    def permission(_principal: Principal, _tool: Tool) -> bool:
        steps.append("permission")
        return allowed

    async def provider(_source: str, _principal: Principal) -> Credential | None:
        steps.append("credentials")
        if credential_error:
            raise credential_error
        return None

    async def answer(_tool: Tool, _call: Call) -> Result:
        steps.append("attempt")
        raise ServerError("broken")

    options = {"permission": permission, "credentials": provider}
    async with desk(
        spec("add", NUMBER, read_only=True),
        options=options,
        answer=answer,
        breaker={"failures": 1},
        cache={"ttl": 10},
    ) as d:
        found: list[tuple[type[Exception], list[str]]] = []

        async def attempt(**arguments: Any) -> None:
            steps.clear()
            with pytest.raises(SpindleError) as caught:
                await d.call("made.add", **arguments)
            found.append((type(caught.value), list(steps)))

        credential_error, kept = None, credential_error
        await d.app.sync()
        credential_error = kept
        await attempt(n="x")
        allowed = True
        await attempt(n="x")
        await attempt(n=1)
        credential_error = None
        await attempt(n=1)
        await attempt(n=1)
        records = await d.records()
    assert found == [
        (PermissionDeniedError, ["permission"]),
        (InvalidArgumentsError, ["permission"]),
        (ClientError, ["permission", "credentials"]),
        (ServerError, ["permission", "credentials", "attempt"]),
        (BreakerOpenError, ["permission", "credentials"]),
    ]
    assert [(record.outcome, record.attempts) for record in records] == [
        ("permission", 0),
        ("invalid_arguments", 0),
        ("client", 0),
        ("server", 1),
        ("connection", 0),
    ]


async def test_a_cached_result_is_given_although_the_breaker_is_open(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), breaker={"failures": 1}, cache={"ttl": 1000}) as d:
        await d.call("made.do")
        d.source.answer = failing(ServerError("down"))
        with pytest.raises(ServerError):
            await d.call("made.do", {"other": 1})
        with pytest.raises(BreakerOpenError):
            await d.call("made.do", {"third": 1})
        assert (await d.call("made.do")).cached


async def test_the_breaker_refuses_before_a_place_is_waited_for(desk: OpenDesk) -> None:
    gate = asyncio.Event()

    async def answer(_tool: Tool, call: Call) -> Result:
        if "wait" in call.arguments:
            await gate.wait()
            return text("done")
        raise ServerError("down")

    async with desk(spec(), answer=answer, breaker={"failures": 1}, max_concurrency=2) as d:
        waiting = asyncio.create_task(d.call("made.do", wait=True))
        await until(lambda: d.source.running == 1)
        with pytest.raises(ServerError):
            await d.call("made.do")
        others = [asyncio.create_task(d.call("made.do", n=n)) for n in range(3)]
        failures = await asyncio.gather(*others, return_exceptions=True)
        gate.set()
        await waiting
    assert {type(failure) for failure in failures} == {BreakerOpenError}


async def test_a_name_without_its_source_is_recorded_in_full(desk: OpenDesk) -> None:
    async with desk(spec("only_here")) as d:
        await d.app.sync()
        await d.call("only_here")
        assert (await d.last()).tool == "made.only_here"


async def test_a_missing_variable_is_found_before_the_source_is_opened(
    desk: OpenDesk, tmp_path: Path
) -> None:
    async with desk(spec()) as d:
        await d.app.sync()
    settings = Settings(tmp_path, {"sources": {"made": {"kind": "made", "env": {"KEY": "${NOT_SET}"}}}})
    async with spindle.open(settings=settings, environ={}) as app:
        with pytest.raises(ConfigurationError, match="NOT_SET"):
            await app.call("made.do")
        record = (await app.history())[0]
    assert (record.outcome, record.attempts) == ("configuration", 0)


# --- what is sent


async def test_what_is_left_out_stays_out_and_null_stays_null(desk: OpenDesk) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "default": "x"}, "b": {"default": 1}},
    }
    async with desk(spec(schema=schema)) as d:
        await d.call("made.do")
        await d.call("made.do", None)
        await d.call("made.do", {})
        await d.call("made.do", a=None)
        sent = [call.arguments for call in d.source.calls]
        recorded = [record.arguments for record in await d.records()]
    assert sent == [{}, {}, {}, {"a": None}]
    assert recorded == sent


@pytest.mark.parametrize(
    "name", ["tool", "options", "self", "timeout", "arguments", "name", "principal", "call", "class"]
)
async def test_an_argument_may_have_any_name(desk: OpenDesk, name: str) -> None:
    async with desk(spec()) as d:
        await d.call("made.do", **{name: 1})
        await d.call("made.do", {name: 2})
        assert [call.arguments for call in d.source.calls] == [{name: 1}, {name: 2}]


async def test_named_arguments_are_put_over_those_in_the_mapping(desk: OpenDesk) -> None:
    given = {"a": 1, "b": 2}
    async with desk(spec()) as d:
        await d.call("made.do", given, CallOptions(), b=3)
        assert d.source.calls[0].arguments == {"a": 1, "b": 3}
    assert given == {"a": 1, "b": 2}


async def test_the_call_carries_principal_credential_progress_and_one_key_for_all_attempts(
    desk: OpenDesk,
) -> None:
    async def progress(done: float, total: float | None, message: str | None) -> None: ...

    async def provider(_source: str, principal: Principal) -> Credential | None:
        return bearer(f"token-of-{principal.id}")

    answer = failing(ServerError("once", retryable=True))
    options = CallOptions(principal=Principal("ann"), on_progress=progress)
    async with desk(spec(read_only=True), answer=answer, options={"credentials": provider}) as d:
        await d.call("made.do", {}, options)
        record = await d.last()
        first, second = d.source.calls
    assert first == second
    assert first.principal.id == "ann"
    assert first.credential == bearer("token-of-ann")
    assert first.on_progress is progress
    assert first.key == record.key
    assert record.principal == "ann"


# --- time


async def test_a_call_that_takes_too_long_says_how_to_give_it_longer(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer, timeout=3600) as d:
        with pytest.raises(CallTimeoutError) as caught:
            await d.call("made.do", {}, CallOptions(timeout=0.001))
        record = await d.last()
        assert d.source.running == 0
    assert str(caught.value) == "made.do did not answer within 0.001 s"
    assert "sources.made.timeout" in str(caught.value.hint)
    assert (caught.value.source, caught.value.tool) == ("made", "made.do")
    assert record.outcome == "timeout"


async def test_the_calls_own_timeout_may_be_longer_than_the_sources(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        for _ in range(10):
            await asyncio.sleep(0)
        return text("done")

    async with desk(spec(), answer=answer, timeout=1e-9) as d:
        with pytest.raises(CallTimeoutError):
            await d.call("made.do")
        assert (await d.call("made.do", {}, CallOptions(timeout=3600))).text == "done"


async def test_a_timeout_of_zero_is_not_taken_for_none(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer, timeout=3600) as d:
        with pytest.raises(CallTimeoutError):
            await d.call("made.do", {}, CallOptions(timeout=0))


async def test_a_sources_own_timeout_error_is_not_mistaken_for_ours(desk: OpenDesk) -> None:
    async with desk(spec(), answer=failing(TimeoutError("the disk"))) as d:
        with pytest.raises(ServerError, match="TimeoutError: the disk"):
            await d.call("made.do")


# --- other ways to end


async def test_whatever_a_source_raises_reaches_the_caller_as_a_typed_error(desk: OpenDesk) -> None:
    async with desk(spec(), answer=failing(KeyError("oops"))) as d:
        with pytest.raises(ServerError, match="KeyError: 'oops'") as caught:
            await d.call("made.do")
        record = await d.last()
    assert isinstance(caught.value.__cause__, KeyError)
    assert record.outcome == "server"


async def test_a_source_that_cannot_be_opened_is_recorded(desk: OpenDesk) -> None:
    async with desk(spec(), retry={"attempts": 1}) as d:
        await d.app.sync()
        await d.app.catalog.connections.close_source("made")
        d.source.refuse_opening = OSError("no route")
        with pytest.raises(ConnectionFailedError, match="no route") as caught:
            await d.call("made.do")
        record = await d.last()
    assert caught.value.tool == "made.do"
    assert (record.outcome, record.attempts) == ("connection", 1)


async def test_a_cancelled_call_is_recorded_as_cancelled(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async with desk(spec(), answer=answer) as d:
        task = asyncio.create_task(d.call("made.do", a=1))
        await until(lambda: d.source.running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = await d.last()
    assert (record.outcome, record.arguments, record.error) == ("cancelled", {"a": 1}, None)


async def test_a_call_cancelled_while_it_is_recorded_is_still_recorded(
    desk: OpenDesk, tmp_path: Path
) -> None:
    """Another process holds the lock of the store, which neither stops the loop nor loses the record."""
    async with desk(spec()) as d:
        await d.app.sync()
        other = sqlite3.connect(tmp_path / ".spindle" / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(d.call("made.do"))
        await until(lambda: d.source.calls and not d.source.running)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other.execute("ROLLBACK")
        other.close()
    async with desk(spec()) as d:
        assert [record.outcome for record in await d.records()] == ["ok"]


async def test_a_pause_passes_through_and_is_no_failure(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        raise InputRequired("which one?")

    async with desk(spec(), answer=answer, breaker={"failures": 1}) as d:
        for _ in range(3):
            with pytest.raises(InputRequired):
                await d.call("made.do")
        record = await d.last()
    assert (record.outcome, record.error) == ("paused", None)


async def test_a_mistake_in_the_callers_own_hook_is_not_recorded_as_success(desk: OpenDesk) -> None:
    def permission(_principal: Principal, _tool: Tool) -> bool:
        raise LookupError("no such user")

    async with desk(spec(), options={"permission": permission}) as d:
        with pytest.raises(LookupError):
            await d.call("made.do")
        record = await d.last()
    assert record.outcome == "error"
    assert record.error == {"category": "error", "message": "LookupError: no such user"}


async def test_a_tools_own_error_is_a_result_or_raised_as_the_caller_likes(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        return text("no such file", is_error=True)

    async with desk(spec(), answer=answer) as d:
        result = await d.call("made.do")
        first = await d.last()
        with pytest.raises(ToolError, match="no such file") as caught:
            await d.call("made.do", {}, CallOptions(raise_tool_errors=True))
        second = await d.last()
    assert result.is_error
    assert first.outcome == second.outcome == "tool"
    assert first.error == {"category": "tool", "message": "no such file"}
    assert caught.value.details == result.to_dict()
    assert second.error is not None
    assert second.error["message"] == "no such file"


async def test_calls_that_run_when_the_app_closes_are_recorded(desk: OpenDesk) -> None:
    started = asyncio.Event()
    ended = asyncio.Event()

    async def answer(_tool: Tool, _call: Call) -> Result:
        started.set()
        await ended.wait()
        return text("late")

    async with desk(spec(), answer=answer) as d:
        task = asyncio.create_task(d.call("made.do"))
        await started.wait()
        asyncio.get_running_loop().call_soon(ended.set)
    assert (await task).text == "late"
    async with desk(spec()) as d:
        assert [record.outcome for record in await d.records()] == ["ok"]


async def test_closing_does_not_wait_for_ever_for_a_call_that_cannot_be_stopped(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.app.SETTLE_TIMEOUT", 0.001)
    monkeypatch.setattr("spindle.catalog.connection.CLOSE_TIMEOUT", 0.001)
    started, released = asyncio.Event(), asyncio.Event()

    async def answer(_tool: Tool, _call: Call) -> Result:
        started.set()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return text("after all")

    async with desk(spec(), answer=answer) as d:
        task = asyncio.create_task(d.call("made.do"))
        await started.wait()
    assert not task.done()
    released.set()
    assert (await task).text == "after all"
