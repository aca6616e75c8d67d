"""Calls that take the shortest way are answered as the SDK would."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types.methods import serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from spindle.mcp_server.calling import METHOD, _is_plain, is_plain_call
from spindle.mcp_server.connection import ClientConnection

TEXT = {"type": "text", "text": "hello"}


def handshaken(version: str = LATEST_HANDSHAKE_VERSION) -> Any:
    connection = ClientConnection()
    info = {"name": "test", "version": "1"}
    connection.agree(version, {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
    return connection


def alone(capabilities: Any) -> Any:
    return ClientConnection.from_envelope(
        LATEST_MODERN_VERSION, {"name": "test", "version": "1"}, capabilities
    )


async def test_a_usual_call_needs_no_model() -> None:
    assert is_plain_call({"name": "x"}, handshaken())
    assert is_plain_call({"name": "x", "arguments": {"a": None}, "_meta": {"progressToken": 1}}, handshaken())
    assert is_plain_call({"name": "x", "_meta": {}}, alone({}))
    assert is_plain_call({"name": "x", "_meta": {"traceparent": "00-1-2-01"}}, alone({}))


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": 1},
        {"name": "x", "arguments": []},
        {"name": "x", "_meta": None},
        {"name": "x", "_meta": {"progressToken": True}},
        {"name": "x", "_meta": {"progressToken": 1.5}},
        {"name": "x", "_meta": {"io.modelcontextprotocol/else": 1}},
        {"name": "x", "task": {}},
        {"name": "x", "requestState": "s"},
    ],
)
async def test_what_is_unusual_about_a_call_is_left_to_the_kernel(params: Any) -> None:
    assert not is_plain_call(params, handshaken())


async def test_a_connection_that_does_not_take_calls_yet_is_left_to_the_kernel() -> None:
    assert not is_plain_call({"name": "x"}, ClientConnection())
    assert not is_plain_call({"name": "x", "_meta": {}}, alone({"elicitation": 5}))
    assert not is_plain_call({"name": "x"}, alone({}))


@pytest.mark.parametrize(
    "result",
    [
        {"content": []},
        {"content": [TEXT, TEXT]},
        {"content": [TEXT], "structuredContent": {"a": [1, None]}},
        {"content": [TEXT], "isError": True, "_meta": {"x": {"y": None}}},
    ],
)
def test_a_plain_result_is_what_the_sdk_would_send(result: Any) -> None:
    assert _is_plain(result, is_modern=False)
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        assert serialize_server_result(METHOD, version, result) == result
    modern = {**result, "resultType": "complete"}
    assert _is_plain(modern, is_modern=True)
    assert serialize_server_result(METHOD, LATEST_MODERN_VERSION, modern) == modern


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{**TEXT, "annotations": {}}]},
        {"content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
        {"content": [TEXT], "structuredContent": 5},
        {"content": [TEXT], "more": 1},
        {"content": [TEXT], "resultType": "complete"},
        {"resultType": "input_required"},
    ],
)
def test_other_results_are_looked_at(result: Any) -> None:
    assert not _is_plain(result, is_modern=False)
