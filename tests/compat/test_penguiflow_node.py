"""Programs written for Penguiflow's ToolNode, with another import, against real servers."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from compat.planner import Context
from servers.http_server import HttpServer, Reply
from servers.running import STDIO_SERVER, StdioServers, process_end
from spindle.compat.penguiflow import (
    AuthType,
    ErrorCategory,
    ExternalToolConfig,
    McpTransportMode,
    ModelRegistry,
    RetryPolicy,
    ToolAuthError,
    ToolClientError,
    ToolConnectionError,
    ToolNode,
    ToolNodeError,
    ToolRateLimitError,
    ToolServerError,
    TransportType,
    UtcpMode,
)
from spindle.compat.penguiflow.node_specs import arguments_model, arguments_of

NOBODY = Context()
SOON = RetryPolicy(wait_exponential_min_s=0.01, wait_exponential_max_s=0.1)


def program(folder: Path, **options: Any) -> str:
    options = {"record": str(folder / "fault.jsonl"), **options}
    return shlex.join([sys.executable, "-I", "-S", str(STDIO_SERVER), json.dumps(options)])


def mcp(connection: str, **settings: Any) -> ExternalToolConfig:
    return ExternalToolConfig(
        **{"name": "fault", "transport": TransportType.MCP, "retry_policy": SOON}
        | {"connection": connection}
        | settings
    )


def node(config: ExternalToolConfig, registry: ModelRegistry | None = None) -> ToolNode:
    return ToolNode(config=config, registry=registry or ModelRegistry())


async def test_a_program_connects_lists_calls_and_closes(tmp_path: Path, stdio_server: StdioServers) -> None:
    registry = ModelRegistry()
    fault = node(mcp(program(tmp_path)), registry)
    with pytest.raises(ToolNodeError, match="not connected"):
        fault.get_tools()
    await fault.connect()
    await fault.connect()  # does nothing
    names = [tool.name for tool in fault.get_tools()]
    assert "fault.echo" in names
    assert all(name.startswith("fault.") for name in names)

    assert await fault.call("fault.echo", {"text": "hello"}, NOBODY) == "hello"
    assert await fault.call("echo", {"text": "without the source"}, NOBODY) == "without the source"
    assert await fault.call("fault.point", {}, NOBODY) == {"x": 1.5}

    echo = next(tool for tool in fault.get_tools() if tool.name == "fault.echo")
    assert echo.desc == "The tool echo."
    assert (echo.side_effects, echo.tags) == ("external", ("mcp", "fault"))
    assert echo.extra == {"source": "mcp", "namespace": "fault"}
    assert registry.models("fault.echo") == (echo.args_model, echo.out_model)
    observed = await echo.node.func(echo.args_model(text="by the planner"), NOBODY)
    assert echo.out_model.model_validate(observed).model_dump() == {"result": "by the planner"}
    record = echo.to_tool_record()
    assert record["args_schema"]["properties"] == {"text": {"type": "string"}}
    assert (record["loading_mode"], record["examples"]) == ("always", [])

    await fault.close()
    [pid] = stdio_server.starts()
    await process_end(pid)
    with pytest.raises(ToolNodeError, match="not connected"):
        await fault.call("fault.echo", {}, NOBODY)
    await fault.connect()
    assert await fault.call("echo", {"text": "again"}, NOBODY) == "again"
    await fault.close()


async def test_a_result_with_more_than_text_keeps_all_its_blocks(tmp_path: Path) -> None:
    def counted(tool: str, output: Any, context: Any) -> Any:
        return {"tool": tool, "output": output, "user": context.tool_context["user_id"]}

    async with HttpServer() as server:
        picture = {"type": "image", "data": "aW1hZ2U=", "mimeType": "image/png"}
        server.answer_with("echo", {"content": [{"type": "text", "text": "look"}, picture]})
        plain = node(mcp(server.url))
        await plain.connect()
        output = await plain.call("echo", {}, NOBODY)
        assert [block["type"] for block in output["content"]] == ["text", "image"]
        await plain.close()

        changed = node(mcp(server.url, output_transformer=counted))
        await changed.connect()
        server.answer_with("read", {"content": [{"type": "text", "text": "short"}]})
        seen = await changed.call("fault.read", {}, Context("ann"))
        assert seen == {"tool": "fault.read", "output": "short", "user": "ann"}
        await changed.close()


async def test_filters_admit_the_beginnings_of_names(tmp_path: Path) -> None:
    chosen = node(mcp(program(tmp_path), tool_filter=["^wait", "(?i)EC.o"]))
    await chosen.connect()
    assert sorted(tool.name for tool in chosen.get_tools()) == [
        "fault.echo",
        "fault.wait",
        "fault.wait_safely",
    ]
    with pytest.raises(ToolClientError, match="has no tool 'die'"):
        await chosen.call("die", {}, NOBODY)
    await chosen.close()


async def test_two_nodes_do_not_share_a_name(tmp_path: Path) -> None:
    registry = ModelRegistry()
    first, second = (node(mcp(program(tmp_path), tool_filter=["echo"]), registry) for _ in range(2))
    await first.connect()
    with pytest.raises(ToolNodeError, match=r"'fault\.echo' is taken"):
        await second.connect()
    await first.close()
    await first.connect()  # the same node may come back
    await first.close()


async def test_models_refuse_wrong_arguments_and_leave_out_what_was_not_given(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words"},
            "most": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "$filter": {"type": "string"},
            "model_dump": {"type": "boolean"},
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["query"],
    }
    tools = [{"name": "received", "description": "", "inputSchema": schema}]
    search = node(mcp(program(tmp_path, tools=tools)))
    await search.connect()
    [spec] = search.get_tools()
    assert spec.args_model.model_json_schema() == schema
    with pytest.raises(ValidationError, match="query"):
        spec.args_model(most=5)
    with pytest.raises(ValidationError, match="most"):
        spec.args_model(query="x", most="many")
    given = {"query": "x", "$filter": "a eq 1", "model_dump": True, "any": 7, "more": [1]}
    observed = await spec.node.func(spec.args_model.model_validate(given), NOBODY)
    sent = observed["result"]["messages"][-1]["params"]["arguments"]
    assert sent == given
    await search.close()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": True, "b": {"type": ["string", "null"]}}, "required": True},
        {"type": "object", "properties": ["a"], "required": "a"},
        {
            "type": "object",
            "properties": {"__base__": {"type": "string"}, "": {}, "tool_schema": {"items": 1}},
        },
        {"type": "object", "properties": {"a": {"type": "array", "items": True}, "b": {"type": {}}}},
    ],
    ids=["required", "properties", "names", "types"],
)
def test_odd_schemas_still_make_models(schema: dict[str, Any]) -> None:
    model = arguments_model("odd.tool-name", schema)
    assert model.model_json_schema() == schema
    given = {"a": [1], "__base__": "x", "": 2, "tool_schema": 3}
    assert arguments_of(model.model_validate(given)) == given


async def test_variables_reach_the_program_and_missing_ones_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPAT_REGION", "north")
    named = node(mcp(program(tmp_path), env={"REGION": "${COMPAT_REGION}"}))
    await named.connect()
    assert await named.call("env", {"name": "REGION"}, NOBODY) == "north"
    await named.close()

    monkeypatch.delenv("COMPAT_REGION")
    with pytest.raises(ToolAuthError, match="COMPAT_REGION") as caught:
        await node(mcp(program(tmp_path), env={"REGION": "${COMPAT_REGION}"})).connect()
    assert caught.value.category is ErrorCategory.AUTH_REQUIRED


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (
            {"auth_type": AuthType.BEARER, "auth_config": {"token": "${COMPAT_KEY}"}},
            "authorization",
            "Bearer k-1",
        ),
        ({"auth_type": AuthType.API_KEY, "auth_config": {"api_key": "${COMPAT_KEY}"}}, "x-api-key", "k-1"),
        (
            {"auth_type": AuthType.API_KEY, "auth_config": {"api_key": "k-1", "header": "X-Own"}},
            "x-own",
            "k-1",
        ),
        (
            {"auth_type": AuthType.COOKIE, "auth_config": {"cookie_name": "sid", "cookie_value": "k-1"}},
            "cookie",
            "sid=k-1",
        ),
    ],
    ids=["bearer", "key", "own header", "cookie"],
)
async def test_a_fixed_credential_goes_with_every_request(
    auth: dict[str, Any], header: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPAT_KEY", "k-1")
    async with HttpServer() as server:
        api = node(mcp(server.url, **auth))
        await api.connect()
        await api.call("echo", {"text": "x"}, NOBODY)
        assert {request.headers.get(header) for request in server.seen} == {value}
        await api.close()


async def test_a_program_gets_a_credential_in_the_variable_that_is_named(tmp_path: Path) -> None:
    bearer = {"auth_type": AuthType.BEARER, "auth_config": {"token": "t-1", "env": "ITS_TOKEN"}}
    named = node(mcp(program(tmp_path), **bearer))
    await named.connect()
    shown = await named.call("env", {"name": "ITS_TOKEN"}, NOBODY)
    assert shown == "t-1"
    await named.close()
    for auth_type, given in ((AuthType.BEARER, {"token": "t-1"}), (AuthType.API_KEY, {"api_key": "t-1"})):
        with pytest.raises(ToolAuthError, match=r"receives no headers.*auth_config=") as caught:
            await node(mcp(program(tmp_path), auth_type=auth_type, auth_config=given)).connect()
        assert "t-1" not in str(caught.value)


async def test_failures_have_their_classes_and_categories(tmp_path: Path) -> None:
    async with HttpServer() as server:
        api = node(mcp(server.url, retry_policy=RetryPolicy(max_attempts=1)))
        await api.connect()
        server.next("echo", Reply(429, {"Retry-After": "7"}))
        with pytest.raises(ToolRateLimitError) as limited:
            await api.call("echo", {}, NOBODY)
        assert (limited.value.status_code, limited.value.retry_after_seconds) == (429, 7.0)
        assert limited.value.is_retryable
        server.next("echo", Reply(503))
        with pytest.raises(ToolServerError) as failed:
            await api.call("echo", {}, NOBODY)
        assert failed.value.to_dict() == {
            "type": "ToolServerError",
            "message": str(failed.value),
            "status_code": 503,
            "category": "retryable_server",
            "is_retryable": True,
        }
        server.next("echo", Reply(401))
        with pytest.raises(ToolAuthError) as refused:
            await api.call("echo", {}, NOBODY)
        assert (refused.value.category, refused.value.is_retryable) == (ErrorCategory.AUTH_REQUIRED, False)
        await server.stop()
        with pytest.raises(ToolConnectionError) as gone:
            await api.call("echo", {}, NOBODY)
        assert gone.value.category is ErrorCategory.NETWORK
        await api.close()
    fault = node(mcp(program(tmp_path)))
    await fault.connect()
    with pytest.raises(ToolClientError, match="it failed") as reported:
        await fault.call("failed_point", {}, NOBODY)
    assert reported.value.__cause__ is not None
    with pytest.raises(ToolClientError, match="do not fit"):
        await fault.call("echo", {"text": 7}, NOBODY)
    await fault.close()
    wrong = ExternalToolConfig(name="t", transport=TransportType.HTTP, connection="ftp://x/y")
    with pytest.raises(
        ToolNodeError, match=r"ExternalToolConfig: sources\.t\.document: must begin with http"
    ):
        await node(wrong).connect()
    with pytest.raises(ToolConnectionError, match="no-such-program"):
        await node(mcp("no-such-program-anywhere --flag")).connect()


async def test_only_what_is_safe_is_tried_again() -> None:
    async with HttpServer() as server:
        api = node(mcp(server.url))
        await api.connect()
        server.next("read", Reply(503), Reply(503))
        server.answer_with("read", {"content": [{"type": "text", "text": "third time"}]})
        assert await api.call("read", {}, NOBODY) == "third time"
        assert server.calls("read") == 3
        server.next("echo", Reply(503))
        with pytest.raises(ToolServerError):
            await api.call("echo", {}, NOBODY)
        assert server.calls("echo") == 1
        await api.close()


async def test_cancelling_a_call_reaches_the_server_and_is_never_wrapped() -> None:
    async with HttpServer("modern", "sse") as server:
        api = node(mcp(server.url))
        await api.connect()
        calling = asyncio.create_task(api.call("wait", {}, NOBODY))
        async with asyncio.timeout(60):
            while not server.calls("wait"):
                await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(60):
            await server.aborted.wait()
        await api.close()


async def test_calls_run_side_by_side_within_the_limit_of_the_source() -> None:
    async with HttpServer() as server:
        api = node(mcp(server.url, max_concurrency=4))
        await api.connect()
        server.meeting = asyncio.Barrier(4)  # answers only when four calls are there at once
        async with asyncio.timeout(60):
            done = await asyncio.gather(*(api.call("whoami", {}, NOBODY) for _ in range(8)))
        assert len(done) == 8
        await api.close()


async def test_the_transport_of_a_url_can_be_chosen() -> None:
    async with HttpServer("sse") as server:
        older = node(mcp(server.url, mcp_transport_mode=McpTransportMode.SSE))
        await older.connect()
        assert await older.call("echo", {"text": "over SSE"}, NOBODY) == "over SSE"
        await older.close()


async def test_a_manual_and_a_plain_api_are_sources_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servers.echo_server import Answer, EchoServer

    monkeypatch.chdir(tmp_path)
    echo = EchoServer()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    manual = {
        "utcp_version": "1.0.1",
        "tools": [
            {
                "name": "weather.now",
                "description": "The weather of a city.",
                "inputs": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
                "tool_call_template": {"call_template_type": "http", "url": f"{url}/now"},
            }
        ],
    }
    echo.answers["/utcp"] = Answer(json.dumps(manual).encode())
    echo.answers["/now"] = Answer(b'{"sky": "blue"}')
    echo.answers["/v1/orders"] = Answer(b'{"orders": []}')
    key = {"auth_type": AuthType.API_KEY, "auth_config": {"api_key": "k-2"}}
    weather = node(
        ExternalToolConfig(
            name="weather",
            transport=TransportType.UTCP,
            connection=f"{url}/utcp",
            utcp_mode=UtcpMode.MANUAL_URL,
            tool_filter=["now"],
            **key,
        )
    )
    await weather.connect()
    [spec] = weather.get_tools()
    assert (spec.name, spec.tags) == ("weather.now", ("utcp", "weather"))
    assert await weather.call("weather.now", {"city": "Bern"}, NOBODY) == {"sky": "blue"}
    assert echo.last.target == "/now?city=Bern"
    assert dict(echo.last.headers)["x-api-key"] == "k-2"
    await weather.close()

    echo.answers["/utcp"] = Answer(b"{}", 404)
    plain = node(
        ExternalToolConfig(
            name="shop",
            transport=TransportType.HTTP,
            connection=f"{url}/v1",
            utcp_mode=UtcpMode.BASE_URL,
            **key,
        )
    )
    await plain.connect()
    assert [tool.name for tool in plain.get_tools()] == ["shop.request"]
    assert await plain.call("request", {"path": "/orders"}, NOBODY) == {"orders": []}
    await plain.close()
    server.close()

    commands = {
        "utcp_version": "1.0.1",
        "tools": [
            {
                "name": "hello",
                "tool_call_template": {"call_template_type": "cli", "commands": [{"command": "echo hi"}]},
            }
        ],
    }
    Path("programs.json").write_text(json.dumps(commands))
    programs = node(ExternalToolConfig(name="own", transport=TransportType.CLI, connection="programs.json"))
    await programs.connect()
    assert await programs.call("own.hello", {}, NOBODY) == "hi"
    await programs.close()
    with pytest.raises(ToolNodeError, match=r"spindle add own --cli PROGRAM"):
        await node(ExternalToolConfig(name="own", transport=TransportType.CLI, connection="jq .")).connect()
