"""Errors and headers as the rest of Spindle knows them."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from mcp_types import CallToolResult, Tool

from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    NotFoundError,
    ServerError,
    SpindleError,
)
from spindle.http.retry_after import retry_after
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.models import dumped
from spindle.sources.mcp.convert import is_plain_tool, plain_result, to_error, to_result, to_spec


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("Mon, 99 Nov 2026", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_or_ignored(value: str | None, seconds: float | None) -> None:
    assert retry_after({} if value is None else {"retry-after": value}) == seconds


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
def test_retry_after_may_be_a_date(zone: str) -> None:
    date = formatdate(time.time() + 60, usegmt=True).replace("GMT", zone)
    found = retry_after({"retry-after": date})
    assert found is not None
    assert 50 < found <= 60


@pytest.mark.parametrize("wrong", [-60.0, 60.0, 1e6])
def test_between_two_dates_the_clock_of_the_server_counts(wrong: float) -> None:
    now = time.time() + wrong
    headers = {"retry-after": formatdate(now + 7, usegmt=True), "date": formatdate(now, usegmt=True)}
    assert retry_after(headers) in (6.0, 7.0, 8.0)
    assert retry_after({"retry-after": formatdate(now + 7), "date": "now"}) is not None


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (-32000, ServerError, False),
        (-32001, CallTimeoutError, False),
        (-32002, NotFoundError, False),
        (-32700, ClientError, False),
        (-32600, ClientError, False),
        (-32601, ClientError, False),
        (-32602, ClientError, False),
        (-32020, ClientError, False),
        (-32603, ServerError, False),
        (-32042, AuthError, False),
        (-32099, ServerError, False),
        (5, ServerError, False),
    ],
)
def test_a_code_means_one_kind_of_error(code: int, kind: type[SpindleError], retryable: bool) -> None:
    found = to_error(McpError(code=code, message="words"), "s")
    assert type(found) is kind
    assert found.answered
    assert found.retryable is retryable
    assert found.details == {"code": code}


@pytest.mark.parametrize(
    "raw",
    [
        {"content": []},
        {"content": [{"type": "text", "text": "a"}], "_meta": {"x": 1}, "isError": False},
        {"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": None}},
        {"content": [{"type": "text", "text": "a"}], "resultType": "complete", "more": 1},
        {"content": [{"type": "text", "text": "a"}], "isError": True, "_meta": {"status": 404}},
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "isError": True},
        {"content": [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]},
    ],
)
def test_a_plain_result_is_read_as_the_sdk_reads_it(raw: dict[str, Any]) -> None:
    assert plain_result(raw) == to_result(raw)
    assert CallToolResult.model_validate(raw)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"content": None},
        {"content": [], "isError": 1},
        {"content": [], "isError": None},
        {"content": [], "structuredContent": None},
        {"content": [], "structuredContent": []},
        {"content": [], "_meta": 5},
        {"content": [5]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": "text", "text": "a", "annotations": {}}]},
        {"content": [{"type": "image", "data": "aGk="}]},
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {}}]},
        {"content": [{"type": "resource_link", "uri": "x:y", "name": "z"}]},
        {"content": [], "resultType": "input_required"},
        {"content": [], "requestState": "s"},
    ],
)
def test_other_results_are_left_to_the_sdk(raw: dict[str, Any]) -> None:
    assert plain_result(raw) is None


EMPTY = {"type": "object"}


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a", "inputSchema": EMPTY},
        {"name": "a", "inputSchema": EMPTY, "title": None, "description": None, "outputSchema": None},
        {"name": "a", "inputSchema": EMPTY, "title": "A", "description": "Does a.", "outputSchema": EMPTY},
        {"name": "a", "inputSchema": EMPTY, "annotations": {"title": "B", "readOnlyHint": True}},
        {"name": "a", "inputSchema": EMPTY, "annotations": {"destructiveHint": None}, "_meta": {"x": 1}},
        {"name": "a", "inputSchema": {"type": "object", "default": None}, "more": 1},
    ],
)
def test_a_plain_tool_is_read_as_the_sdk_reads_it(tool: dict[str, Any]) -> None:
    assert is_plain_tool(tool)
    assert to_spec(tool, "p") == to_spec(dumped(Tool.model_validate(tool, by_name=False)) or {}, "p")


@pytest.mark.parametrize(
    "tool",
    [
        None,
        {"name": 5, "inputSchema": EMPTY},
        {"name": "a"},
        {"name": "a", "inputSchema": []},
        {"name": "a", "inputSchema": EMPTY, "title": 5},
        {"name": "a", "inputSchema": EMPTY, "outputSchema": 5},
        {"name": "a", "inputSchema": EMPTY, "_meta": []},
        {"name": "a", "inputSchema": EMPTY, "annotations": []},
        {"name": "a", "inputSchema": EMPTY, "annotations": {"title": 5}},
        {"name": "a", "inputSchema": EMPTY, "annotations": {"readOnlyHint": "yes"}},
        {"name": "a", "inputSchema": EMPTY, "icons": []},
        {"name": "a", "inputSchema": EMPTY, "execution": {}},
    ],
)
def test_other_tools_are_left_to_the_sdk(tool: Any) -> None:
    assert not is_plain_tool(tool)
