"""The same manual, called by UTCP's own client and by Spindle: equal results."""

import asyncio
import base64
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from utcp_service import OpenManual, Service, a_manual, a_tool
from websockets.asyncio.server import ServerConnection, serve

from servers.running import PATIENCE
from spindle.domain.call import Result

PEER = Path(__file__).parent / "utcp_peer.py"


async def by_utcp(
    template: dict[str, Any], calls: list[tuple[str, dict[str, Any]]], variables: dict[str, str] | None = None
) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PEER),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    named = [[f"shop.{tool}", arguments] for tool, arguments in calls]
    asked = {"templates": [template], "variables": variables or {}, "calls": named}
    async with asyncio.timeout(3 * PATIENCE):
        out, error = await process.communicate(json.dumps(asked).encode())
    assert process.returncode == 0, error.decode()
    answer: dict[str, Any] = json.loads(out)
    assert answer["registered"][0]["success"], error.decode()
    return answer


def as_utcp(result: Result) -> Any:
    """What UTCP's client would return for it."""
    if result.has_structured:
        return result.structured
    if result.content and result.content[0].data is not None:
        return {"bytes": base64.b64decode(result.content[0].data).hex()}
    return result.text


async def test_http_and_streaming_calls_give_equal_results(open_manual: OpenManual, service: Service) -> None:
    def http(path: str, **more: Any) -> dict[str, Any]:
        return {"call_template_type": "http", "url": service.url + path, **more}

    def streamed(path: str, **more: Any) -> dict[str, Any]:
        return {"call_template_type": "streamable_http", "url": service.url + path, **more}

    def events(**more: Any) -> dict[str, Any]:
        return {"call_template_type": "sse", "url": f"{service.url}/events", **more}

    key = {"auth_type": "api_key", "api_key": "Bearer ${KEY}", "var_name": "Authorization"}
    json_type = {"Content-Type": "application/json"}
    token = {
        "auth_type": "oauth2", "token_url": f"{service.url}/token",
        "client_id": "me", "client_secret": "$SECRET",
    }  # fmt: skip
    form = "application/x-www-form-urlencoded"
    service.tools = [
        a_tool("get", http("/echo/{id}/x?fixed=1", headers={"X-Fixed": "a"}, header_fields=["X-H"])),
        a_tool("post", http("/echo/p", http_method="POST", body_field="data")),
        a_tool("form", http("/echo/f", http_method="PUT", content_type=form)),
        a_tool("key", http("/echo/k", auth=key)),
        a_tool(
            "query", http("/echo/q", auth={**key, "api_key": "$KEY", "var_name": "k", "location": "query"})
        ),
        a_tool(
            "cookie", http("/echo/c", auth={**key, "api_key": "$KEY", "var_name": "k", "location": "cookie"})
        ),
        a_tool("basic", http("/echo/b", auth={"auth_type": "basic", "username": "$U", "password": "$KEY"})),
        a_tool("token", http("/protected", auth=token)),
        a_tool("text", http("/text")),
        a_tool("events", events()),
        a_tool("ticks", events(event_type="tick")),
        a_tool("posted", events(body_field="data", headers=json_type)),
        a_tool("formed", events(body_field="data")),
        a_tool("lines", streamed("/lines")),
        a_tool(
            "sent", streamed("/lines", http_method="POST", content_type="application/json", body_field="data")
        ),
        a_tool("bytes", streamed("/bytes")),
    ]
    service.pages["/text"] = JSONResponse(None, media_type="text/plain")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {"id": "a/b c&ü", "X-H": "h", "q": "x y+z", "n": 5, "many": ["a", "b"]}),
        ("post", {"data": {"a": [1, None, True]}, "q": "1"}),
        ("form", {"body": {"a": "x y", "b": "ü&="}}),
        ("key", {}), ("query", {"a": "1"}), ("cookie", {}), ("basic", {}), ("token", {}), ("text", {}),
        ("events", {"q": "1"}), ("ticks", {}), ("posted", {"data": {"a": 1}}),
        ("formed", {"data": {"a": "1"}}), ("lines", {}), ("sent", {"data": [1]}), ("bytes", {}),
    ]  # fmt: skip
    values = {"KEY": "k-1", "U": "me", "SECRET": "s3cr3t-value"}
    template = {
        "name": "shop", "call_template_type": "http", "url": f"{service.url}/utcp",
        "allowed_communication_protocols": ["http", "sse", "streamable_http"],
    }  # fmt: skip
    theirs = await by_utcp(template, calls, {f"shop_{name}": value for name, value in values.items()})
    service.tokens_given = 0
    async with open_manual(at=f"{service.url}/utcp", variables=values) as opened:
        assert [f"shop.{name}" for name in opened.tools] == theirs["registered"][0]["tools"]
        for (tool, arguments), their in zip(calls, theirs["results"], strict=True):
            ours = as_utcp(await opened.call(tool, **arguments))
            assert _comparable(ours) == _comparable(their["value"]), tool


def _comparable(value: Any) -> Any:
    """The two differ in whether `{"a": 1}` is written with a space."""
    if isinstance(value, dict) and "body" in value:
        body = value["body"]
        with contextlib.suppress(ValueError):
            body = json.loads(body)
        return {**value, "body": body}
    return [_comparable(item) for item in value] if isinstance(value, list) else value


async def test_what_utcps_models_write_is_read(
    open_manual: OpenManual, service: Service, tmp_path: Path
) -> None:
    """A manual that went through UTCP's own models has null for all that was left out."""
    tool = a_tool("t", {"call_template_type": "http", "url": f"{service.url}/echo/x"}, n="integer")
    script = (
        "import json,sys; from utcp.data.utcp_manual import UtcpManualSerializer as S;"
        "print(json.dumps(S().to_dict(S().validate_dict(json.load(sys.stdin)))))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(json.dumps(a_manual(tool)).encode())
    assert b'"const": null' in out
    async with open_manual(out.decode()) as opened:
        assert opened.tools["t"].input_schema["properties"] == {"n": {"type": "integer"}}
        assert (await opened.call("t", n=1)).structured["query"] == [["n", "1"]]


async def test_commands_and_texts_give_equal_results(open_manual: OpenManual) -> None:
    def cli(*commands: str) -> dict[str, Any]:
        return {"call_template_type": "cli", "commands": [{"command": command} for command in commands]}

    manual = a_manual(
        a_tool("echo", cli("echo \"got UTCP_ARG_a_UTCP_END\" 'and UTCP_ARG_b_UTCP_END'")),
        a_tool("json", cli("printf '%s' UTCP_ARG_a_UTCP_END")),
        a_tool("last", cli("echo one", "echo two")),
        a_tool("text", {"call_template_type": "text", "content": "plain text"}),
    )
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", {"a": "x; $(id) 'y' \"z\"", "b": "*"}),
        ("json", {"a": '{"n": [1, 2]}'}), ("json", {"a": "{broken"}), ("last", {}), ("text", {}),
    ]  # fmt: skip
    allowed = ["cli", "text"]
    template = {
        "name": "shop", "call_template_type": "text", "content": json.dumps(manual),
        "allowed_communication_protocols": allowed,
    }  # fmt: skip
    theirs = await by_utcp(template, calls)
    async with open_manual(manual, allowed_protocols=allowed) as opened:
        for (tool, arguments), their in zip(calls, theirs["results"], strict=True):
            assert as_utcp(await opened.call(tool, **arguments)) == their["value"], tool


@pytest.mark.parametrize("response_format", ["json", "text", None])
async def test_websocket_calls_give_equal_results(
    response_format: str | None, open_manual: OpenManual
) -> None:
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(json.dumps(json.loads(message)))

    async with serve(echo, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"
        template = {"call_template_type": "websocket", "url": url, "response_format": response_format}
        message = {"op": "add", "text": "UTCP_ARG_a_UTCP_ARG", "more": ["x UTCP_ARG_b_UTCP_ARG"]}
        string = '{"op": "UTCP_ARG_a_UTCP_ARG", "n": UTCP_ARG_b_UTCP_ARG}'
        manual = a_manual(
            a_tool("plain", template),
            a_tool("object", {**template, "message": message}),
            a_tool("string", {**template, "message": string}),
        )
        arguments = {"a": 'q"uoted ü', "b": 5}
        calls = [(name, arguments) for name in ("plain", "object", "string")]
        allowed = ["websocket"]
        leads = {
            "name": "shop", "call_template_type": "text", "content": json.dumps(manual),
            "allowed_communication_protocols": allowed,
        }  # fmt: skip
        theirs = await by_utcp(leads, calls)
        async with open_manual(manual, allowed_protocols=allowed) as opened:
            for (tool, _), their in zip(calls, theirs["results"], strict=True):
                assert as_utcp(await opened.call(tool, **arguments)) == their["value"], tool
