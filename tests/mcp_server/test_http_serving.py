"""The HTTP transport itself: what is let in, what is refused and how, and how it compares with the SDK's own
transport over the same handlers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import RequestParams
from starlette.applications import Starlette

import spindle
from servers.running import PATIENCE, OpenSources, StdioServers, until
from servers.serving import serve_command, served
from spindle import Context, Principal, tool
from spindle.catalog.diff import SyncReport
from spindle.domain.serve import ServeConfig, TokenConfig
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CLIENT_CAPABILITIES as CAPABILITIES
from spindle.mcp_protocol.names import CLIENT_INFO, INVALID_REQUEST, LOG_LEVEL, PROTOCOL_VERSION
from spindle.mcp_server.connection import ClientConnection
from spindle.mcp_server.http import McpApp
from spindle.mcp_server.inbound import Inbound
from spindle.mcp_server.kernel import IDENTITY, Answer, ServedRequest
from spindle.mcp_server.server import CatalogServer
from spindle.mcp_server.tasks import EXTENSION
from spindle.serving.access import ServingAccess

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
META = {PROTOCOL_VERSION: "2026-07-28", CAPABILITIES: {}}


def rpc(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    return rpc("initialize", 0, protocolVersion=version, capabilities=capabilities, clientInfo=info)


def modern(method: str, name: str | None = None, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    headers = {**JSON, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if name is not None:
        headers["mcp-name"] = name
        params["name"] = name
    return rpc(method, _meta=META, **params), headers


async def handshake(http: httpx2.AsyncClient, url: str, **capabilities: Any) -> dict[str, str]:
    """The headers of a session that was opened."""
    opened = await http.post(url, json=initialize(**capabilities), headers=JSON)
    headers = {
        **JSON,
        "mcp-session-id": opened.headers["mcp-session-id"],
        "mcp-protocol-version": "2025-11-25",
    }
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(url, json=told, headers=headers)).status_code == 202
    return headers


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool
def work(context: Context) -> str:
    """Reports progress."""
    context.progress(1, 2, "half")
    return "done"


@contextlib.asynccontextmanager
async def shouting(tmp_path: Path, **serve: Any) -> AsyncGenerator[tuple[httpx2.AsyncClient, str]]:
    async with (
        spindle.open(tmp_path, tools=[shout, work]) as app,
        served(app, **serve) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        yield http, url


# --- beside the SDK's own transport


@contextlib.asynccontextmanager
async def both_transports(tmp_path: Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Clients of the same handlers behind our transport and behind the SDK's."""
    async with spindle.open(tmp_path, tools=[shout, work]) as app:
        catalog = CatalogServer(app, ServingAccess.of(ServeConfig(), {}))
        server = sdk_server(catalog)
        theirs = server.streamable_http_app(host="127.0.0.1")
        async with (
            server.session_manager.run(),
            _client(McpApp(catalog)) as mine,
            _client(theirs) as other,
        ):
            yield mine, other


def sdk_server(catalog: CatalogServer) -> Server[Any]:
    """The SDK's server over the same handlers."""
    server: Server[Any] = Server(
        IDENTITY["name"], version=IDENTITY["version"], instructions=catalog.kernel.instructions
    )
    server.extensions = {EXTENSION: {}}
    for method, answer in catalog.kernel.answers.items():
        if server.get_request_handler(method) is None:
            server.add_request_handler(method, RequestParams, _as_theirs(answer))
    # Clients of the handshake era are told that they hear of changes.
    told = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    options = server.create_initialization_options(told)
    server.create_initialization_options = lambda *_: options  # type: ignore[method-assign]
    return server


def _as_theirs(answer: Answer) -> Any:
    async def handle(ctx: Any, _: Any) -> Any:
        connection = ClientConnection.from_envelope(ctx.protocol_version, None, {})
        facts = Inbound(connection, Principal(), ctx.session._request_outbound)
        try:
            return await answer(ServedRequest(facts, ctx.method, dict(ctx.params or {})))
        except McpError as error:
            raise MCPError(error.code, error.message, error.data) from error

    return handle


def _client(app: McpApp | Starlette) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:9999", timeout=PATIENCE)


def answer_of(response: httpx2.Response) -> Any:
    """The answer, whichever way it came."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        events = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
        return [found for found in map(json.loads, filter(str.strip, events)) if "id" in found][-1]
    return response.json() if response.content else None


INFO = {"name": "test", "version": "1"}


def told(key: str, value: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A list of tools whose client says this of itself."""
    body, headers = modern("tools/list")
    body["params"]["_meta"] = {**META, key: value}
    return body, headers


MODERN_REQUESTS: dict[str, tuple[Any, dict[str, str]]] = {
    "discover": modern("server/discover"),
    "list": modern("tools/list"),
    "call": modern("tools/call", "shout", arguments={"text": "hi"}),
    "no arguments": modern("tools/call", "shout"),
    "unknown tool": modern("tools/call", "nobody", arguments={}),
    "unknown method": modern("no/such"),
    "ping is gone": modern("ping"),
    "no envelope": (
        rpc("tools/list"),
        {**JSON, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"},
    ),
    "unknown version": (
        modern("tools/list")[0],
        {**JSON, "mcp-protocol-version": "2030-01-01", "mcp-method": "tools/list"},
    ),
    "no method header": (modern("tools/list")[0], {**JSON, "mcp-protocol-version": "2026-07-28"}),
    "another name": (
        modern("tools/call", "shout")[0],
        {**modern("tools/call", "shout")[1], "mcp-name": "work"},
    ),
    "wrong parameters": modern("tools/call", arguments={}),
    "wrong arguments": modern("tools/call", "shout", arguments=[1]),
    "a wrong cursor": modern("tools/list", cursor=5),
    "another's cursor": modern("tools/list", cursor="x"),
    "resources": modern("resources/list"),
    "templates": modern("resources/templates/list"),
    "prompts": modern("prompts/list"),
    "handshake": modern("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=INFO),
    "the level is gone": modern("logging/setLevel", level="error"),
    "subscribing is gone": modern("resources/subscribe", uri="x:y"),
    "a task that is none": modern("tasks/get", taskId="none"),
    "malformed capabilities": told(CAPABILITIES, {"elicitation": 5}),
    "capabilities that are no object": told(CAPABILITIES, "all"),
    "capabilities with nulls": told(CAPABILITIES, {"roots": None, "sampling": {"tools": None}, "new": 1}),
    "a malformed client": told(CLIENT_INFO, {"name": 5}),
    "a client": told(CLIENT_INFO, {**INFO, "icons": [{"src": "x"}], "new": 1}),
    "an unknown level": told(LOG_LEVEL, "loud"),
    "a level": told(LOG_LEVEL, "debug"),
    "a version that is no text": told(PROTOCOL_VERSION, 5),
    "a token that is none": told("progressToken", True),
    "a token that is a list": told("progressToken", []),
    "completion": modern(
        "completion/complete", ref={"type": "ref/prompt", "name": "x"}, argument={"name": "a", "value": ""}
    ),
    "a malformed completion": modern("completion/complete", ref={"type": "ref/other"}, argument={}),
    "an empty answer": modern("tools/call", "shout", arguments={"text": "hi"}, inputResponses={}),
    "a malformed answer": modern("tools/call", "shout", inputResponses={"a": {"action": "maybe"}}),
    "a notification": (
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {**JSON, "mcp-protocol-version": "2026-07-28"},
    ),
    "a batch": ([modern("ping")[0]], modern("ping")[1]),
    "an answer": ({"jsonrpc": "2.0", "id": 1, "result": {}}, modern("ping")[1]),
    "a boolean as id": ({**modern("tools/list")[0], "id": True}, modern("tools/list")[1]),
}


@pytest.mark.parametrize("name", list(MODERN_REQUESTS))
async def test_a_request_of_2026_gets_the_answer_that_the_sdk_gives(tmp_path: Path, name: str) -> None:
    body, headers = MODERN_REQUESTS[name]
    async with both_transports(tmp_path) as (mine, other):
        ours = await mine.post("/mcp", json=body, headers=headers)
        theirs = await other.post("/mcp", json=body, headers=headers)
    assert ours.status_code == theirs.status_code
    assert comparable(ours) == comparable(theirs)


HANDSHAKE_REQUESTS: dict[str, Any] = {
    "list": rpc("tools/list"),
    "call": rpc("tools/call", name="shout", arguments={"text": "hi"}),
    "unknown tool": rpc("tools/call", name="nobody"),
    "unknown method": rpc("no/such"),
    "ping": rpc("ping", "text as id"),
    "wrong parameters": rpc("tools/call", arguments=7),
    "no parameters": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "no parameters where some are needed": {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
    "a task that is none": rpc("tasks/get", taskId="none"),
    "a wrong cursor": rpc("tools/list", cursor=5),
    "another's cursor": rpc("tools/list", cursor="x"),
    "resources": rpc("resources/list"),
    "templates": rpc("resources/templates/list"),
    "prompts": rpc("prompts/list", cursor=None),
    "subscribing": rpc("resources/subscribe", uri=5),
    "listening": rpc("subscriptions/listen", notifications={}),
    "a resource that is none": rpc("resources/read", uri="x:y"),
    "a prompt that is none": rpc("prompts/get", name="x", arguments={"a": "b"}),
    "a prompt with a wrong argument": rpc("prompts/get", name="x", arguments={"a": 5}),
    "malformed meta": rpc("tools/list", _meta=5),
    "no meta": rpc("tools/list", _meta=None),
    "a token that is none": rpc("tools/list", _meta={"progressToken": 1.5}),
    "a task": rpc("tools/call", name="shout", arguments={"text": "hi"}, task={"ttl": "60"}),
    "a malformed task": rpc("tools/call", name="shout", arguments={"text": "hi"}, task={"ttl": "long"}),
    "another handshake": initialize("2024-11-05", roots={"listChanged": True}),
    "a handshake of no version": initialize("1.0"),
    "a malformed handshake": initialize(elicitation=5),
    "a handshake with nulls": initialize(roots=None, sampling={"tools": None}, new=1),
    "a handshake without a client": rpc("initialize", protocolVersion="2025-11-25", capabilities={}),
    "set the level": rpc("logging/setLevel", level="error"),
    "an unknown level": rpc("logging/setLevel", level="loud"),
    "discover": rpc("server/discover"),
    "progress": rpc("tools/call", name="work", _meta={"progressToken": "p"}),
    "a notification": {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    "an answer": {"jsonrpc": "2.0", "id": 1, "result": {}},
}


@pytest.mark.parametrize("name", list(HANDSHAKE_REQUESTS))
async def test_a_request_of_a_session_gets_the_answer_that_the_sdk_gives(tmp_path: Path, name: str) -> None:
    answers = []
    async with both_transports(tmp_path) as clients:
        for client in clients:
            headers = await handshake(client, "/mcp")
            response = await client.post("/mcp", json=HANDSHAKE_REQUESTS[name], headers=headers)
            answers.append((response.status_code, comparable(response)))
            assert (await client.delete("/mcp", headers=headers)).status_code == 200
            assert (await client.post("/mcp", json=rpc("ping"), headers=headers)).status_code == 404
    assert answers[0] == answers[1]


def comparable(response: httpx2.Response) -> Any:
    """The answer, without the words of what is no request: each transport has its own for those."""
    answer = answer_of(response)
    if isinstance(answer, dict) and "error" in answer and answer["error"]["code"] == INVALID_REQUEST:
        return {"id": answer.get("id"), "code": INVALID_REQUEST}
    return answer


# --- what is refused


async def test_what_is_not_a_request_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with shouting(tmp_path, max_body_size=2000) as (http, url):
        headers = await handshake(http, url)
        checks: list[tuple[int, Any]] = [
            (404, http.get(url.replace("/mcp", "/other"))),
            (405, http.put(url, headers=headers)),
            (405, http.get(url, headers={**JSON, "mcp-protocol-version": "2026-07-28"})),
            (406, http.get(url, headers={**headers, "accept": "application/json"})),
            (406, http.post(url, json=rpc("ping"), headers={**headers, "accept": "text/html"})),
            (415, http.post(url, content=b"x", headers={**headers, "content-type": "text/plain"})),
            (400, http.post(url, content=b"{broken", headers=headers)),
            (400, http.post(url, content=b"[" * 1900, headers=headers)),
            (400, http.post(url, json=[rpc("ping")], headers=headers)),
            (400, http.post(url, json={"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, headers=headers)),
            (400, http.post(url, json={**rpc("ping"), "params": [1]}, headers=headers)),
            (400, http.post(url, json=rpc("ping"), headers=JSON)),
            (404, http.post(url, json=rpc("ping"), headers={**headers, "mcp-session-id": "guessed"})),
            (413, http.post(url, json=rpc("ping", x="x" * 3000), headers=headers)),
        ]
        for status, request in checks:
            response = await request
            assert response.status_code == status
            assert "Traceback" not in response.text
        assert (await http.post(url, json=rpc("ping"), headers=headers)).json()["result"] == {}


async def test_a_body_without_a_length_is_limited_too(tmp_path: Path) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    async with shouting(tmp_path, max_body_size=2000) as (http, url):
        response = await http.post(url, content=endless(), headers=JSON)
        assert response.status_code == 413


async def test_a_token_is_wanted_on_every_path(tmp_path: Path) -> None:
    async with shouting(tmp_path, auth_token="right") as (http, url):
        for path in ("/mcp", "/", "/other"):
            refused = await http.post(url.replace("/mcp", path), json=initialize(), headers=JSON)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer")
        http.headers["authorization"] = "Bearer right"
        await handshake(http, url)


async def test_another_page_and_another_name_are_refused(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (http, url):
        evil = {**JSON, "origin": "http://evil.example"}
        assert (await http.post(url, json=initialize(), headers=evil)).status_code == 403
        renamed = {**JSON, "host": "evil.example"}
        assert (await http.post(url, json=initialize(), headers=renamed)).status_code == 421


async def test_a_session_serves_only_who_opened_it(tmp_path: Path) -> None:
    tokens = {name: TokenConfig(token=f"the token of {name}") for name in ("ann", "bob")}
    async with shouting(tmp_path, tokens=tokens) as (http, url):
        http.headers["authorization"] = "Bearer the token of ann"
        headers = await handshake(http, url)
        assert (await http.post(url, json=rpc("ping"), headers=headers)).status_code == 200
        http.headers["authorization"] = "Bearer the token of bob"
        assert (await http.post(url, json=rpc("ping"), headers=headers)).status_code == 404
        assert (await http.delete(url, headers=headers)).status_code == 404


# --- streams


async def test_only_what_has_something_to_say_before_its_answer_becomes_a_stream(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (http, url):
        headers = await handshake(http, url)
        plain = await http.post(url, json=rpc("tools/call", name="work"), headers=headers)
        assert plain.headers["content-type"] == "application/json"
        asked = rpc("tools/call", name="work", _meta={"progressToken": 7})
        streamed = await http.post(url, json=asked, headers=headers)
        assert streamed.headers["content-type"] == "text/event-stream"
        events = [json.loads(line[5:]) for line in streamed.text.splitlines() if line.startswith("data:")]
        only_json = await http.post(url, json=asked, headers={**headers, "accept": "application/json"})
    assert events[0]["params"] == {"progressToken": 7, "progress": 1, "total": 2, "message": "half"}
    assert events[-1]["result"]["content"][0]["text"] == "done"
    assert only_json.json()["result"] == events[-1]["result"]


async def test_a_session_has_one_stream_of_its_own(tmp_path: Path) -> None:
    async with shouting(tmp_path) as (http, url):
        headers = await handshake(http, url)
        async with http.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            await anext(stream.aiter_lines())
            assert (await http.get(url, headers=headers)).status_code == 409


async def test_what_is_told_while_a_session_has_no_stream_begins_the_next(tmp_path: Path) -> None:
    async with spindle.open(tmp_path, tools=[shout]) as app:
        await app.sync()  # or the server does when it starts, and tells of it
        async with served(app) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
            headers = await handshake(http, url)
            for _ in range(3):
                app.catalog.tell(SyncReport(""))
            # What was told is on its way before this is answered.
            assert (await http.post(url, json=rpc("ping"), headers=headers)).status_code == 200
            told: list[str] = []
            async with http.stream("GET", url, headers=headers) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data:") and line[5:].strip():
                        told.append(json.loads(line[5:])["method"])
                    if "notifications/resources/list_changed" in told:
                        break
    # Each once, though it was told three times.
    assert told == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    ]


async def test_a_client_of_2026_that_hangs_up_takes_its_call_with_it(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    body, headers = modern("tools/call", "s_wait", arguments={})
    async with (
        open_sources({"s": stdio_server()}) as app,
        served(app) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        call = asyncio.create_task(http.post(url, json=body, headers=headers))
        await until(lambda: stdio_server.calls("wait") == 1)
        call.cancel()
        await until(
            lambda: any(item.get("method") == "notifications/cancelled" for item in stdio_server.recorded())
        )


async def test_a_cancelled_request_of_a_session_ends_with_an_error(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with (
        open_sources({"s": stdio_server()}) as app,
        served(app) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        headers = await handshake(http, url)
        asked = rpc("tools/call", 5, name="s_wait")
        call = asyncio.create_task(http.post(url, json=asked, headers=headers))
        await until(lambda: stdio_server.calls("wait") == 1)
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await http.post(url, json=told, headers=headers)).status_code == 202
        assert answer_of(await call)["error"]["code"] == -32800


# --- the end


async def test_a_call_that_runs_when_the_server_is_told_to_stop_is_answered(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "spindle.toml").write_text("")
    (tools / "slow.py").write_text(
        "import pathlib, time\n"
        "from spindle import tool\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "@tool\n"
        "def slow() -> str:\n"
        "    (HERE / 'entered').touch()\n"
        "    while not (HERE / 'released').exists():\n"
        "        time.sleep(0.01)\n"
        "    return 'done'\n"
    )
    body, headers = modern("tools/call", "slow", arguments={})
    async with (
        serve_command(tmp_path) as (url, process),
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        call = asyncio.create_task(http.post(url, json=body, headers=headers))
        await until(lambda: (tools / "entered").exists())
        process.terminate()
        (tools / "released").touch()
        assert (await call).json()["result"]["content"][0]["text"] == "done"
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
