"""Values, headers and schemas of others in the hands of those who walk, show and mask them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from servers.echo_server import Answer, EchoServer
from servers.names import echo
from spindle.auth.oauth.challenge import bearer_challenge
from spindle.calls.record import masked
from spindle.calls.validate import Validation
from spindle.domain.call import Result
from spindle.domain.identity import NO_CREDENTIAL
from spindle.domain.json_schema import parameters, property_texts
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import (
    MAX_MESSAGE,
    InvalidArgumentsError,
    ServerError,
    SpindleError,
    did_you_mean,
    suggest,
)
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import check_document
from spindle.mcp_protocol.errors import McpError
from spindle.schemas.models import for_models
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.http_dispatcher import HttpDispatcher
from spindle.sources.mcp.messages import read_message
from spindle.sources.mcp.session_http import SessionHttp
from spindle.sources.mcp.streamable import StreamableLink

__all__ = ["echo"]


def nest(count: int, inner: Any = None) -> Any:
    value: Any = {} if inner is None else inner
    for _ in range(count):
        value = {"next": value}
    return value


def tool_of(schema: dict[str, Any]) -> Tool:
    spec = ToolSpec("echo", input_schema=schema, output_schema=schema)
    return Tool("made.echo", "made", "python", spec, spec.fingerprint)


TWICE = {"properties": {"next": {"$ref": "#"}, "secret": {"type": "string", "format": "password"}}}
UNION = {"type": "object", "anyOf": [TWICE, {**TWICE}, {**TWICE, "type": "object"}]}


def test_masking_looks_at_each_schema_once_for_each_part() -> None:
    value = nest(100, {"secret": "hidden", "plain": "shown"})

    shown: Any = masked(value, UNION, ())

    for _ in range(100):
        shown = shown["next"]
    assert shown == {"secret": "•••", "plain": "shown"}


def test_arguments_that_would_take_hours_to_check_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="more than 2,000,000 steps") as caught:
        Validation().check_arguments(tool_of(UNION), nest(100))
    assert caught.value.tool == "made.echo"


def test_a_result_that_would_take_hours_to_check_is_the_server_s_fault() -> None:
    with pytest.raises(ServerError, match="more than 2,000,000 steps") as caught:
        Validation().check_structured(tool_of(UNION), Result(structured=nest(100), has_structured=True))
    assert caught.value.source == "made"


def test_a_tool_whose_schema_cannot_be_used_says_so_when_it_is_called() -> None:
    schemas: dict[str, Any] = {"d0": {"type": "object"}}
    for index in range(1, 40):
        schemas[f"d{index}"] = {"allOf": [{"$ref": f"#/$defs/d{index - 1}"}] * 2}

    with pytest.raises(
        ServerError, match=r"the input schema of made\.echo is not valid: more than 50"
    ) as caught:
        Validation().check_arguments(tool_of({"$defs": schemas, "$ref": "#/$defs/d39"}), {})
    assert "exclude" in (caught.value.hint or "")


def test_arguments_of_too_many_levels_are_refused() -> None:
    for levels in (201, 240, 300, 5000):
        with pytest.raises(InvalidArgumentsError, match="nested more than 200 levels deep"):
            Validation().check_arguments(tool_of({"type": "object"}), nest(levels))
    Validation().check_arguments(tool_of({"type": "object"}), nest(199))


def test_a_mistake_is_told_in_few_words() -> None:
    schema = {"type": "object", "properties": {"a": {"maxItems": 1, "items": {"type": "string"}}}}

    with pytest.raises(InvalidArgumentsError) as caught:
        Validation().check_arguments(tool_of(schema), {"a": ["x" * 1000] * 2000})
    assert len(caught.value.message) < 2000


def test_a_message_of_a_server_has_at_most_200_levels() -> None:
    deep = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 300 + b"]" * 300 + b"}"
    assert read_message(deep) is None
    assert read_message(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 900_000) is None
    assert read_message(b'{"id":1,"result":[' + b"{}," * 1000 + b"{}]}") is not None


async def test_a_refusal_of_a_server_with_deep_json_is_a_refusal(echo: EchoServer) -> None:
    refusals = {
        b"[" * 200_000: False,
        b'{"error": NaN}': False,
        b"\xff": False,
        b'{"error": {"code": 1}}': True,
    }
    config = McpConfig(url=f"{echo.url}/mcp")
    async with (
        contextlib.aclosing(SessionHttp("s", config, NO_CREDENTIAL)) as http,
        contextlib.aclosing(HttpDispatcher(StreamableLink(http, f"{echo.url}/mcp"), 1_000_000)) as messages,
    ):
        for body, is_told in refusals.items():
            echo.answers["/mcp"] = Answer(body, 400)
            note = CallExchange()
            token = current_exchange.set(note)
            with pytest.raises(McpError):
                await messages.send_raw_request("ping", None)
            current_exchange.reset(token)
            assert (note.status, note.had_json_rpc_error) == (400, is_told)


def test_a_list_that_holds_itself_is_shown() -> None:
    schema = {
        "type": "object",
        "properties": {"rows": {"$ref": "#/$defs/rows"}},
        "$defs": {"rows": {"type": "array", "items": {"$ref": "#/$defs/rows"}}},
    }
    assert [parameter.label for parameter in parameters(schema)] == ["array[]"]
    assert list(property_texts(schema))


def test_unions_of_unions_are_flattened_for_models_as_far_as_matters() -> None:
    union: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    for _ in range(8):
        union = {"anyOf": [dict(union) for _ in range(30)]}
    assert for_models(union)["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize(
    "header", ["Bearer " + 'a="\\"' * 5000, "Bearer " + "a" * 8000, 'Bearer a="' + '\\"' * 8000]
)
def test_a_challenge_is_read_in_one_pass(header: str) -> None:
    challenge = bearer_challenge(header)
    assert challenge is None or challenge.error is None


def test_a_flow_with_a_hundred_thousand_mistakes_is_told_of_the_first() -> None:
    with pytest.raises(BrokenFlowError) as caught:
        check_document({"name": "x", "nodes": [{}] * 100_000})
    assert len(caught.value.problems) <= 2
    with pytest.raises(BrokenFlowError) as caught:
        check_document(
            {"name": "x", "nodes": [{"id": "a", "tool": "b"}]} | {f"k{n}": 1 for n in range(90_000)}
        )
    assert len(caught.value.problems) <= 50


def test_guessing_a_name_costs_little_and_a_message_has_an_end() -> None:
    known = [f"{index}" * 40 for index in range(3000)] + ["x" * 5000] * 1000
    assert suggest("y" * 5000, known) is None
    assert did_you_mean("z" * 200, known) is None
    assert suggest("listt", ["list", "x" * 10**6]) == "list"
    assert len(SpindleError("x" * 10**6).message) <= MAX_MESSAGE + 10
