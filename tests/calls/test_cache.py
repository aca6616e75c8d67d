"""Results of pure tools, kept for a time where the settings ask for it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from made_source import Desk, OpenDesk, spec, text

from spindle import CallOptions, Credential, Principal, Tool, bearer
from spindle.domain.call import Call, Result
from spindle.errors import StoreError


async def numbers(d: Desk, *calls: tuple[dict[str, Any], CallOptions]) -> list[str]:
    """What the tool answers to these calls, when it counts those that reach it."""
    count = itertools.count(1)

    async def answer(_tool: Tool, _call: Call) -> Result:
        return text(str(next(count)))

    d.source.answer = answer
    return [(await d.call("made.do", arguments, options)).text for arguments, options in calls]


PLAIN = CallOptions()
TWICE = (({"a": 1}, PLAIN), ({"a": 1}, PLAIN))


@pytest.mark.parametrize(
    ("tool", "cache", "kept"),
    [
        (spec(read_only=True), {"ttl": 60}, True),
        (spec(pure=True), {"ttl": 60}, True),
        (spec(), {"ttl": 60, "tools": ["d.*"]}, True),
        (spec(), {"ttl": 60, "tools": ["d"]}, False),
        (spec(), {"ttl": 60}, False),
        (spec(idempotent=True), {"ttl": 60}, False),
        (spec(read_only=True), None, False),
    ],
)
async def test_only_pure_tools_are_cached_and_only_where_it_is_configured(
    desk: OpenDesk, tool: Any, cache: Any, kept: bool
) -> None:
    async with desk(tool, cache=cache) as d:
        assert await numbers(d, *TWICE) == ["1", "1" if kept else "2"]
        records = await d.records()
    assert [(record.outcome, record.attempts) for record in records] == [
        ("ok", 1),
        ("cached", 0) if kept else ("ok", 1),
    ]


async def test_a_result_stays_good_for_its_time_by_the_clock(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        assert await numbers(d, *TWICE) == ["1", "1"]
        d.clock.time += 59
        assert (await d.call("made.do", a=1)).cached
        d.clock.time += 1
        again = await d.call("made.do", a=1)
    assert (again.cached, again.text) == (False, "2")


async def test_a_call_may_refuse_the_cache(desk: OpenDesk) -> None:
    fresh = CallOptions(use_cache=False)
    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        assert await numbers(d, *TWICE, ({"a": 1}, fresh), ({"a": 1}, PLAIN)) == ["1", "1", "2", "2"]


async def test_other_arguments_or_another_principal_never_share_a_result(desk: OpenDesk) -> None:
    ann, bob = CallOptions(Principal("ann")), CallOptions(Principal("bob"))
    different = [
        ({}, PLAIN),
        ({"a": 1}, PLAIN),
        ({"a": 1.0}, PLAIN),
        ({"a": True}, PLAIN),
        ({"a": "1"}, PLAIN),
        ({"a": None}, PLAIN),
        ({"a": 2**70}, PLAIN),
        ({"a": 1}, ann),
        ({"a": 1}, bob),
    ]
    expected = [str(number + 1) for number in range(len(different))]
    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        assert await numbers(d, *different, *different) == [*expected, *expected]


async def test_the_order_of_the_arguments_does_not_matter(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
        assert await numbers(d, (one, PLAIN), (other, PLAIN)) == ["1", "1"]


async def test_another_credential_never_shares_a_result(desk: OpenDesk) -> None:
    tokens = iter(["sync", "first", "second", "first"])

    async def provider(_source: str, _principal: Principal) -> Credential | None:
        return bearer(next(tokens))

    async with desk(spec(read_only=True), cache={"ttl": 60}, options={"credentials": provider}) as d:
        await d.app.sync()
        assert await numbers(d, *TWICE, ({"a": 1}, PLAIN)) == ["1", "2", "1"]


async def test_a_changed_tool_forgets_what_it_said(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        assert await numbers(d, *TWICE) == ["1", "1"]
        d.source.specs = [spec(read_only=True, description="Does it in another way.")]
        await d.app.sync()
        assert (await d.call("made.do", a=1)).text == "2"


async def test_errors_are_not_cached(desk: OpenDesk) -> None:
    answers = [text("bad luck", is_error=True), text("fine")]

    async def answer(_tool: Tool, _call: Call) -> Result:
        return answers.pop(0)

    async with desk(spec(read_only=True), cache={"ttl": 60}, answer=answer) as d:
        assert (await d.call("made.do")).is_error
        assert (await d.call("made.do")).text == "fine"
        assert (await d.call("made.do")).text == "fine"


async def test_a_cached_result_is_the_whole_result(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        return Result(text("null").content, structured=None, has_structured=True)

    async with desk(spec(read_only=True), cache={"ttl": 60}, answer=answer) as d:
        first, second = await d.call("made.do"), await d.call("made.do")
    assert (first.cached, second.cached) == (False, True)
    assert (second.content, second.structured, second.has_structured) == (first.content, None, True)


@pytest.mark.parametrize("operation", ["cached", "cache"])
async def test_a_cache_that_cannot_be_used_costs_nobody_a_result(
    desk: OpenDesk, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_args: Any) -> None:
        raise StoreError("the disk is full")

    async with desk(spec(read_only=True), cache={"ttl": 60}) as d:
        monkeypatch.setattr(d.app.store, operation, broken)
        assert (await d.call("made.do")).text == "done"
        assert (await d.last()).outcome == "ok"
        assert len(d.notes) == 1
        assert "made.do" in d.notes[0]
        assert "the disk is full" in d.notes[0]
