"""Errors that a source reports in a result: treated like the errors that they mean, and still results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_source import OpenDesk, failing, spec, text

import spindle
from spindle import CallOptions, Hints, Result, Tool
from spindle.calls.retries import may_be_repeated
from spindle.domain.call import Call
from spindle.domain.source import SourceConfig
from spindle.domain.tool import ToolSpec
from spindle.errors import (
    AuthError,
    BusyError,
    CallTimeoutError,
    ClientError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ServerError,
    SpindleError,
    ToolError,
    from_status,
)
from spindle.meanings import Meaning, in_data, in_status_line


def reporting(*results: Result) -> Any:
    """Answers with these results, one a call, then as usual."""
    left = list(results)

    async def answer(_tool: Tool, _call: Call) -> Result:
        return left.pop(0) if left else text("done")

    return answer


def failed(data: Any) -> Result:
    return Result.of_value(data, is_error=True)


# --- the path of a call


async def test_a_result_that_asks_to_wait_is_repeated_after_its_wait(desk: OpenDesk) -> None:
    answer = reporting(failed({"status": 429, "retry_after": 7.5}))
    async with desk(spec(), answer=answer) as d:
        result = await d.call("made.do")
        record = await d.last()
    assert (result.text, result.is_error, result.category) == ("done", False, None)
    assert d.clock.slept == [7.5]
    assert (record.outcome, record.attempts) == ("ok", 2)


async def test_a_result_that_will_not_pass_is_returned_at_once(desk: OpenDesk) -> None:
    answer = reporting(failed({"status": 404, "message": "none"}))
    async with desk(spec(read_only=True), answer=answer) as d:
        result = await d.call("made.do")
        record = await d.last()
    assert (result.is_error, result.category, result.meaning) == (
        True,
        "not_found",
        Meaning("not_found", 404),
    )
    assert result.to_dict()["category"] == "not_found"
    assert (record.outcome, record.attempts) == ("not_found", 1)
    assert record.error is not None
    assert record.error["status"] == 404


async def test_a_failed_result_of_no_known_meaning_is_the_tools_own(desk: OpenDesk) -> None:
    async with desk(spec(read_only=True), answer=reporting(text("429!", is_error=True))) as d:
        result = await d.call("made.do")
        record = await d.last()
    assert (result.category, result.meaning) == ("tool", None)
    assert (record.outcome, record.attempts) == ("tool", 1)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (422, ClientError),
        (429, RateLimitedError),
        (500, ServerError),
        (504, CallTimeoutError),
        (200, ToolError),
    ],
)
async def test_a_caller_who_wants_errors_gets_the_class_of_the_category(
    desk: OpenDesk, status: int, kind: type[SpindleError]
) -> None:
    answer = reporting(*[failed({"status": status})] * 3)
    async with desk(spec(), answer=answer, retry={"attempts": 1}) as d:
        with pytest.raises(kind) as caught:
            await d.call("made.do", {}, CallOptions(raise_tool_errors=True))
    assert type(caught.value) is kind
    assert caught.value.details["is_error"]
    assert caught.value.retryable is (status == 429)  # it was refused, not done


async def test_servers_that_answer_never_open_their_breaker(desk: OpenDesk) -> None:
    results = [failed({"status": 500})] * 20
    async with desk(spec(read_only=True), answer=reporting(*results)) as d:
        for _ in results:
            assert (await d.call("made.do")).category == "server"
        assert (await d.call("made.do")).text == "done"
        d.source.answer = failing(*[ServerError("reported", answered=True) for _ in range(20)])
        for _ in range(20):
            with pytest.raises(ServerError, match="reported"):
                await d.call("made.do")
        assert (await d.call("made.do")).text == "done"


async def test_a_rule_gives_an_answered_error_its_class(desk: OpenDesk) -> None:
    rules = {"rate_limited": "quota", "not_found": [-32050, "missing"]}
    errors = [
        ServerError("'made': the quota is used up", answered=True),
        ServerError("'made': gone", answered=True, details={"code": -32050}),
        from_status(400, "bad", details={"body": {"why": "missing"}}),
        ServerError("it broke its protocol, says quota"),
        from_status(403, "quota"),
    ]
    found = []
    async with desk(spec(), answer=failing(*errors), errors=rules) as d:
        for _ in errors:
            with pytest.raises(SpindleError) as caught:
                await d.call("made.do")
            found.append(caught.value.category)
            assert caught.value.tool == "made.do"
    assert found == ["rate_limited", "not_found", "not_found", "server", "permission"]


async def test_a_category_that_a_tool_makes_up_is_not_passed_on(desk: OpenDesk) -> None:
    answer = reporting(Result.of_text("x", is_error=True, meaning=Meaning("splendid")))
    async with desk(spec(), answer=answer) as d:
        assert (await d.call("made.do")).category == "tool"


async def test_a_failed_result_comes_back_from_a_run_with_its_category(desk: OpenDesk) -> None:
    answer = reporting(failed({"status": 404}))
    async with desk(spec(), answer=answer) as d:
        outcome = await d.app.run("made.do")
        assert isinstance(outcome, spindle.Finished)
        written = outcome.result.to_dict()
    assert Result.from_dict(written).meaning == Meaning("not_found", 404)
    assert Result.from_dict({"content": [], "structured": None, "is_error": True}).category == "tool"


# --- what is said and what is done

ERRORS = [
    ConnectionFailedError("lost"),
    ConnectionFailedError("refused", sent=False),
    CallTimeoutError("slow"),
    ServerError("broken", retryable=True),
    ServerError("against its protocol"),
    ServerError("reported", answered=True),
    RateLimitedError("later"),
    RateLimitedError("later", retry_after=1),
    RateLimitedError("much later", retry_after=1000),
    RateLimitedError("later", retry_after=1, status=403),
    BusyError("full", retry_after=1, sent=False),
    ClientError("wrong"),
    NotFoundError("none", status=404),
    *(from_status(status, "x") for status in (400, 408, 429, 500, 501, 503, 504, 507)),
]


@pytest.mark.parametrize("hints", [{}, {"read_only": True}, {"idempotent": True}], ids=str)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__} {error}")
async def test_an_error_says_that_it_is_retryable_only_if_we_would_repeat_it(
    desk: OpenDesk, error: SpindleError, hints: dict[str, bool]
) -> None:
    kind, given = type(error), vars(error)
    fields = {key: given[key] for key in ("status", "retry_after", "sent", "answered")}

    def another() -> SpindleError:
        made = kind(error.message, **fields)
        made.retryable = error.retryable
        return made

    async with desk(spec(**hints), answer=failing(*[another() for _ in range(9)])) as d:
        with pytest.raises(kind) as caught:
            await d.call("made.do")
        record = await d.last()
    found = caught.value
    waits = isinstance(found, BusyError) or (found.retry_after or 0) > 10
    assert record.attempts == (3 if found.retryable and not waits else 1)
    assert record.error is not None
    assert record.error["retryable"] is found.retryable


@pytest.mark.parametrize("kind", ["python", "mods", "flows"])
def test_a_tool_of_several_steps_is_not_taken_to_have_done_nothing(kind: str) -> None:
    config = SourceConfig(kind=kind)
    for error in (RateLimitedError("x", retry_after=1), ConnectionFailedError("x", sent=False)):
        assert not may_be_repeated(error, Tool("do", kind, kind, ToolSpec("do"), "f"), config)
        reading = Tool("do", kind, kind, ToolSpec("do", hints=Hints(read_only=True)), "f")
        assert may_be_repeated(error, reading, config)


def test_the_refusal_of_an_inner_call_says_nothing_about_the_outer_one() -> None:
    error = RateLimitedError("x", retry_after=1, tool="api.charge")
    config = SourceConfig(kind="made")
    assert not may_be_repeated(error, Tool("made.do", "made", "made", ToolSpec("do"), "f"), config)
    assert may_be_repeated(error, Tool("api.charge", "api", "made", ToolSpec("do"), "f"), config)


# --- settings


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"rate_limited": "("}, "sources.made.errors.rate_limited: '(' is not a regular expression that can"
                                " be searched in linear time: unclosed group"),
        ({"auth": "(?=x)"}, "look-around, including look-ahead and look-behind, is not supported"),
        ({"auth": r"(a)\1"}, "backreferences are not supported"),
        ({"auth": "a{1000}{1000}{1000}"}, "exceeds size limit"),
        ({"auth": ["x", ""]}, "sources.made.errors.auth: an empty pattern is in every text"),
        ({"auth": "x" * 3000}, "a pattern has at most 2,000 characters"),
        ({"auth": True}, "must be patterns (text) or codes (whole numbers)"),
        ({"auth": 1.5}, "must be patterns (text) or codes (whole numbers)"),
        ({"rate_limit": "x"}, "sources.made.errors.rate_limit"),
        ("x", "sources.made.errors"),
    ],
)  # fmt: skip
async def test_a_rule_that_cannot_be_used_is_named_with_its_place(
    desk: OpenDesk, rules: Any, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with desk(spec(), errors=rules):
            pass
    assert problem in caught.value.message


# --- data from anybody

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["429", "rate_limited", "NOT_FOUND", "5s", "ENOENT", "42501"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["status", "code", "error", "errors", "data", "retry_after", "name", "message",
                         "severity", "io.spindle/error", "category", "hint", "details"])
        | st.text(max_size=5),
        inner, max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


@given(_values)
def test_any_data_has_a_meaning_or_none(data: Any) -> None:
    meaning = in_data(data)
    if meaning is not None:
        assert meaning.retry_after is None or 0 <= meaning.retry_after <= 31 * 24 * 3600
        assert Meaning.from_dict(meaning.to_dict()) == meaning


def test_data_that_never_ends_is_not_followed() -> None:
    deep: Any = {"status": 429}
    for _ in range(10_000):
        deep = {"error": deep}
    assert in_data(deep) is None
    wide = {"errors": [{"errors": [{}] * 1000}] * 1000}
    assert in_data(wide) is None
    many = {f"field{number}": number for number in range(1000)}
    assert in_data({"status": 429, **many}) == Meaning("rate_limited", 429, retryable=True)
    assert in_data({**many, "status": 429}) is None


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("HTTP 429 Too Many Requests", "rate_limited"),
        ("Error 404: Not Found", "not_found"),
        ("HTTP/1.1 401 Unauthorized", "auth"),
        ("Request failed with status code 503: Service Unavailable", "server"),
        ("504 gateway timeout", "timeout"),
        ("the log has 429 Too Many Requests", None),
        ("429 Too Many Requests in the log", None),
        ("404 apples", None),
        ("429 Not Found", None),
        ("404", None),
        ("error " * 40 + "404 Not Found", None),
    ],
)
def test_a_status_line_is_understood_and_a_sentence_is_not(text: str, category: str | None) -> None:
    found = in_status_line(text)
    assert (found.category if found is not None else None) == category
