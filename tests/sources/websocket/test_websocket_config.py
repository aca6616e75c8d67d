"""Settings of a WebSocket service: what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spindle.domain.call import Call
from spindle.domain.identity import NO_CREDENTIAL
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import ConfigurationError, ConnectionFailedError, NotFoundError
from spindle.sources.message_paths import MISSING, at, put
from spindle.sources.websocket.config import WebSocketConfig
from spindle.sources.websocket.session import WebSocketSession

X = {"message": {"a": 1}}
NAMED = {"count": 1, "id_from": "result", "id_field": "params.subscription"}


def config(**settings: Any) -> WebSocketConfig:
    return WebSocketConfig.model_validate({"url": "ws://127.0.0.1:9/", "requests": {"x": X}, **settings})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "http://x"}, "must begin with ws://"),
        ({"requests": {}}, "at least 1"),
        ({"requests": 5}, "valid dictionary"),
        ({"requests": {"x": 5}}, "valid dictionary"),
        ({"requests": {"x": {"message": "PING"}}}, "format = 'text'"),
        ({"requests": {"x": {"message": [1]}}, "id_field": "id"}, "must be a table"),
        ({"format": "text"}, "must be text"),
        ({"format": "text", "id_field": "id"}, "needs messages with fields"),
        ({"requests": {"x": {"message": {"a": "{b}"}}}}, "'b', which is not a parameter"),
        ({"requests": {"x": {**X, "stream": {}}}}, "say when it is enough"),
        ({"requests": {"x": {**X, "stream": {"until": {"a": "{c}"}}}}}, "'c', which is not a parameter"),
        ({"requests": {"x": {**X, "stream": {"count": 1, "id_from": "r"}}}}, "go together"),
        ({"requests": {"x": {**X, "stream": {"count": 1, "id_field": "r"}}}}, "go together"),
        ({"requests": {"x": {**X, "stream": {**NAMED, "match": {"a": 1}}}}}, "recognised either by"),
        ({"requests": {"x": {**X, "stream": {"count": 1, "stop": ["{subscription}"]}}}}, "not a parameter"),
        (
            {"requests": {"x": {**X, "stream": {**NAMED, "until": {"a": "{subscription}"}}}}},
            "not a parameter",
        ),
        ({"requests": {"x": {**X, "parameters": {"subscription": {}}, "stream": NAMED}}}, "another name"),
        (
            {"requests": {"x": {"message": "x", "stream": NAMED}}, "format": "text"},
            "needs messages with fields",
        ),
    ],
)
def test_a_description_that_cannot_work_is_refused_with_the_reason(settings: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**settings)
    assert problem in str(caught.value)


def test_variables_of_the_environment_are_not_places() -> None:
    assert config(requests={"x": {"message": {"key": "${API_KEY}"}}}).requests["x"].message


def test_a_path_leads_through_tables_and_lists_or_nowhere() -> None:
    message = {"a": [{"b": None}, 2]}
    assert at(message, "a.0.b") is None
    assert at(message, "a.1") == 2
    assert at(message, "a.2") is at(message, "a.b") is at(message, "c") is at(message, "a.1.x") is MISSING
    put(message, "x.y", 1)
    put(message, "a.id", 1)
    assert message == {"a": {"id": 1}, "x": {"y": 1}}


async def test_a_tool_that_left_the_settings_is_not_found() -> None:
    session = WebSocketSession("s", config(), NO_CREDENTIAL, print)
    async with session:
        [spec] = await session.discover()
        assert spec.place == "sources.s.requests.x"
        with pytest.raises(NotFoundError, match="no longer defined"):
            await session.invoke(Tool("s.y", "s", "websocket", ToolSpec("y"), ""), Call("s.y", {}))


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"url": "ws://"}, ConfigurationError), ({"connect_timeout": 1e-9}, ConnectionFailedError)],
)
async def test_a_connection_that_cannot_be_made_is_a_typed_error(
    settings: Any, kind: type[Exception]
) -> None:
    async with WebSocketSession("s", config(**settings), NO_CREDENTIAL, print) as session:
        with pytest.raises(kind):
            await session.invoke(Tool("s.x", "s", "websocket", ToolSpec("x"), ""), Call("s.x", {}))
