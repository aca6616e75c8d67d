"""Nothing is lost in passing: every field that the protocol knows, sent by a server through Spindle to a
client and the other way round, in both eras, compared with what was sent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types._v2025_11_25 as v2025  # pyright: ignore[reportPrivateUsage]
import mcp_types._v2026_07_28 as v2026  # pyright: ignore[reportPrivateUsage]
import pytest
from mcp_types.methods import serialize_server_result

import spindle
from servers import warm
from servers.every_field import META, example
from servers.serving import Lines, piped
from spindle.settings import Settings

VERSIONS = {"handshake": "2025-11-25", "modern": "2026-07-28"}
SCHEMAS: dict[str, Any] = {"handshake": v2025, "modern": v2026}
EACH_SERVER = pytest.mark.parametrize("server", list(VERSIONS))
EACH_CLIENT = pytest.mark.parametrize("client", list(VERSIONS))
SCRIPT = Path(__file__).parent.parent / "servers" / "every_field_server.py"
OWN = "io.modelcontextprotocol/"
OURS = (OWN, "io.spindle/")
TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    "tracestate": "vendor=value",
    "baggage": "user=somebody",
}
ERROR = {"code": -32099, "message": "the server's own words", "data": {"reason": ["full", None], "free": 0}}
CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def answers_of(server: str) -> dict[str, Any]:
    """What a server of this era answers, with every field."""
    schema = SCHEMAS[server]
    info = example(schema.Implementation)
    capabilities = {
        "tools": {"listChanged": True},
        "resources": {},
        "prompts": {},
        "completions": {},
        "logging": {},
    }
    if server == "handshake":
        opening = example(
            v2025.InitializeResult,
            protocolVersion=VERSIONS[server],
            capabilities=capabilities,
            serverInfo=info,
            instructions="How to use it.",
        )
    else:
        opening = example(
            v2026.DiscoverResult,
            supportedVersions=[VERSIONS[server]],
            capabilities=capabilities,
            instructions="How to use it.",
            _meta={f"{OWN}serverInfo": info},
        )
    execution: Any = {"taskSupport": "optional"}
    every = example(schema.Tool, name="every_tool", execution=execution)
    listed = [every, *(tool(name) for name in ("reports", "fails", "asks"))]
    lists = {
        "tools/list": example(schema.ListToolsResult, tools=listed),
        "resources/list": example(schema.ListResourcesResult),
        "resources/templates/list": example(schema.ListResourceTemplatesResult),
        "prompts/list": example(schema.ListPromptsResult),
    }
    results = {
        "tools/call every_tool": example(schema.CallToolResult),
        "tools/call reports": example(schema.CallToolResult, isError=True),
        "resources/read": example(schema.ReadResourceResult),
        "prompts/get": example(schema.GetPromptResult),
        "completion/complete": example(schema.CompleteResult),
    }
    opened = "initialize" if server == "handshake" else "server/discover"
    found = {opened: opening, **lists, **results}
    answers: dict[str, Any] = {method: {"then": {"result": result}} for method, result in found.items()}
    answers["tools/call fails"] = {"then": {"error": ERROR}}
    answers["logging/setLevel"] = {"then": {"result": {}}}
    return answers


class Wire:
    """A client without a library, and what the server behind was sent."""

    def __init__(self, lines: Lines, client: str, heard: Path) -> None:
        self._lines = lines
        self._client = client
        self._heard = heard
        self._count = 0
        self.asked: list[Any] = []
        self.told: list[Any] = []

    async def open(self) -> Any:
        if self._client == "handshake":
            return (await self._lines.handshake(VERSIONS["handshake"], **CAPABILITIES))["result"]
        return (await self.request("server/discover"))["result"]

    async def request(self, method: str, answers: Any = None, **params: Any) -> Any:
        """The answer to a request. `answers` are the results that this client gives to requests."""
        self._count += 1
        if self._client == "modern":
            params["_meta"] = {
                **params.get("_meta", {}),
                f"{OWN}protocolVersion": VERSIONS["modern"],
                f"{OWN}clientInfo": {"name": "raw", "version": "1"},
                f"{OWN}clientCapabilities": CAPABILITIES,
            }
        self._lines.request(self._count, method, **params)
        while True:
            message = await self._lines.read()
            if message.get("id") == self._count and "method" not in message:
                return message
            if "id" in message and "method" in message:
                self.asked.append({"method": message["method"], "params": message.get("params")})
                result = (answers or {})[message["method"]]
                self._lines.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            elif "method" in message:
                self.told.append({"method": message["method"], "params": message.get("params")})

    def heard(self, method: str | None) -> list[Any]:
        """What the server was sent: requests of a method, or (None) answers to its own."""
        messages = [json.loads(line) for line in self._heard.read_text().splitlines()]
        return [message for message in messages if message.get("method") == method]


@contextlib.asynccontextmanager
async def wired(
    folder: Path, server: str, client: str, answers: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[tuple[Wire, Any]]:
    script, heard = folder / "script.json", folder / "heard.jsonl"
    script.write_text(json.dumps({"answers": {**answers_of(server), **(answers or {})}}))
    source = {
        "command": [warm.PYTHON, str(SCRIPT), str(script), str(heard)],
        "answers": ["elicitation", "sampling", "roots"],
        "prefix": False,
        "protocol": "handshake" if server == "handshake" else "2026-07-28",
        **more,
    }
    settings = Settings(folder, {"sources": {"every": source}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.catalog.sync()
        async with piped(app, names="full") as lines:
            wire = Wire(lines, client, heard)
            yield wire, await wire.open()


def expected(method: str, result: Any, client: str) -> Any:
    """What a client of this era can be told of a result: the fields that its schema knows."""
    modern = {"resultType": "complete"} if client == "modern" else {}
    if client == "modern" and method != "tools/call" and method not in ("prompts/get", "completion/complete"):
        modern |= {"ttlMs": 0, "cacheScope": "private"}
    return serialize_server_result(method, VERSIONS[client], {**result, **modern})


def without_stamp(result: Any) -> Any:
    """The result without the name of the server that answers, which is Spindle."""
    meta = {key: value for key, value in (result.get("_meta") or {}).items() if not key.startswith(OURS)}
    rest = {key: value for key, value in result.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def same(found: Any, sent: Any) -> None:
    assert json.dumps(found, sort_keys=True, indent=1) == json.dumps(sent, sort_keys=True, indent=1)


@EACH_SERVER
@EACH_CLIENT
@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ],
)
async def test_lists_pass_whole(tmp_path: Path, server: str, client: str, method: str, key: str) -> None:
    async with wired(tmp_path, server, client) as (wire, _):
        answer = await wire.request(method)
    sent = answers_of(server)[method]["then"]["result"]
    found = sorted(answer["result"][key], key=lambda item: item["name"])
    wanted = expected(method, {key: sorted(sent[key], key=lambda item: item["name"])}, client)[key]
    same(found, wanted)


@EACH_SERVER
@EACH_CLIENT
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "every_tool", "arguments": {"value": "x"}}),
        ("tools/call", {"name": "reports", "arguments": {}}),
        ("resources/read", {"uri": "test://every/field"}),
        ("prompts/get", {"name": "every_prompt", "arguments": {"a": "b"}}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "every_prompt", "title": "Every"},
                "argument": {"name": "a", "value": "b"},
                "context": {"arguments": {"c": "d"}},
            },
        ),
    ],
)
async def test_results_and_the_clients_meta_pass_whole(
    tmp_path: Path, server: str, client: str, method: str, params: Any
) -> None:
    meta = {**TRACE, **META}
    async with wired(tmp_path, server, client) as (wire, _):
        answer = await wire.request(method, **params, _meta={**meta, "progressToken": "mine"})
        (asked,) = wire.heard(method)
    answers = answers_of(server)
    sent = (answers.get(f"{method} {params.get('name')}") or answers[method])["then"]["result"]
    same(without_stamp(answer["result"]), expected(method, sent, client))
    arrived = asked["params"].pop("_meta")
    kept = {key: value for key, value in arrived.items() if not key.startswith(OURS)}
    assert kept.pop("progressToken", None) != "mine"
    same(kept, meta)
    same(asked["params"], params)


@EACH_SERVER
@EACH_CLIENT
async def test_an_error_of_the_server_keeps_its_code_and_data(
    tmp_path: Path, server: str, client: str
) -> None:
    async with wired(tmp_path, server, client) as (wire, _):
        answer = await wire.request("tools/call", name="fails", arguments={})
    same(answer["error"], ERROR)


@EACH_SERVER
@EACH_CLIENT
async def test_instructions_reach_the_client(tmp_path: Path, server: str, client: str) -> None:
    async with wired(tmp_path, server, client) as (_, opening):
        assert "How to use it." in opening["instructions"]
        assert "every" in opening["instructions"]


@EACH_SERVER
@EACH_CLIENT
async def test_what_a_server_leaves_out_stays_out(tmp_path: Path, server: str, client: str) -> None:
    bare = {"tools/call fails": {"then": {"result": {"content": [{"type": "text", "text": ""}]}}}}
    if server == "modern":
        bare["tools/call fails"]["then"]["result"]["resultType"] = "complete"  # type: ignore[index]
    async with wired(tmp_path, server, client, bare) as (wire, _):
        listed = await wire.request("tools/list")
        called = await wire.request("tools/call", name="fails", arguments={})
        (asked,) = wire.heard("tools/call")
    assert tool("fails") in listed["result"]["tools"]
    same(
        without_stamp(called["result"]),
        expected("tools/call", {"content": [{"type": "text", "text": ""}]}, client),
    )
    kept = [key for key in asked["params"].get("_meta", {}) if not key.startswith(OURS)]
    assert not kept


QUESTIONS = {
    "elicitation/create": {"handshake": "ElicitRequestFormParams", "modern": "ElicitRequestFormParams"},
    "sampling/createMessage": {
        "handshake": "CreateMessageRequestParams",
        "modern": "CreateMessageRequestParams",
    },
    "roots/list": {},
}
ANSWERS = {
    "elicitation/create": ("ElicitResult", {"action": "accept", "content": {"name": "a name"}}),
    "sampling/createMessage": ("CreateMessageResult", {}),
    "roots/list": ("ListRootsResult", {}),
}


def question_of(era: str, method: str) -> Any:
    name = QUESTIONS[method].get(era)
    if name is None:
        return {"method": method, "params": {}} if era == "modern" else {"method": method}
    # What a server of 2025-11-25 asks for as a task is not asked for in this way.
    return {
        "method": method,
        "params": example(getattr(SCHEMAS[era], name), task=None, toolChoice={"mode": "auto"}),
    }


def answer_to(era: str, method: str) -> Any:
    name, fixed = ANSWERS[method]
    content = {"content": example(SCHEMAS[era].TextContent)} if method == "sampling/createMessage" else {}
    roots = (
        {"roots": [{"uri": "file:///root", "name": "Root", "_meta": META}]} if method == "roots/list" else {}
    )
    return example(getattr(SCHEMAS[era], name), **content, **roots, **fixed)


@pytest.mark.parametrize("method", list(QUESTIONS))
async def test_questions_and_answers_pass_whole_while_a_call_waits(tmp_path: Path, method: str) -> None:
    question, answer = question_of("handshake", method), answer_to("handshake", method)
    asks = {"first": [question], "then": {"result": {"content": []}}}
    async with wired(tmp_path, "handshake", "handshake", {"tools/call asks": asks}) as (wire, _):
        await wire.request("tools/call", answers={method: answer}, name="asks", arguments={})
        (given,) = wire.heard(None)
    (asked,) = wire.asked
    same({key: value for key, value in asked.items() if value is not None}, question)
    same(given["result"], answer)


@pytest.mark.parametrize("method", list(QUESTIONS))
async def test_questions_and_answers_pass_whole_in_a_result(tmp_path: Path, method: str) -> None:
    question, answer = question_of("modern", method), answer_to("modern", method)
    asked = {"resultType": "input_required", "inputRequests": {"one": question}, "requestState": "st%te"}
    first = {"then": {"result": {**asked, "_meta": META}}}
    async with wired(tmp_path, "modern", "modern", {"tools/call asks": first}) as (wire, _):
        found = await wire.request("tools/call", name="asks", arguments={})
        again = {"inputResponses": {"one": answer}, "requestState": found["result"]["requestState"]}
        await wire.request("tools/call", name="asks", arguments={}, **again)
        _, repeated = wire.heard("tools/call")
    same(without_stamp(found["result"]), {**asked, "_meta": META})
    same(repeated["params"]["inputResponses"], {"one": answer})
    assert repeated["params"]["requestState"] == "st%te"


@EACH_SERVER
@EACH_CLIENT
async def test_notices_pass_whole(tmp_path: Path, server: str, client: str) -> None:
    progress = {"progress": 1, "total": 2.5, "message": "half way"}
    message = {"level": "warning", "logger": "every", "data": {"a": [None, 1]}}
    told = [
        {"method": "notifications/progress", "params": {"progressToken": 0, **progress}},
        {"method": "notifications/message", "params": message},
    ]
    complete = {"resultType": "complete"} if server == "modern" else {}
    answer = {"tools/call asks": {"first": told, "then": {"result": {"content": [], **complete}}}}
    async with wired(tmp_path, server, client, answer) as (wire, _):
        meta = {"progressToken": "mine", **({f"{OWN}logLevel": "debug"} if client == "modern" else {})}
        await wire.request("tools/call", name="asks", arguments={}, _meta=meta)
    found = {item["method"]: item["params"] for item in wire.told}
    same(found["notifications/progress"], {**progress, "progressToken": "mine"})
    same(found["notifications/message"], message)


async def test_keys_of_workspaces_cannot_be_forged(tmp_path: Path) -> None:
    forged = {"io.spindle/trail": "0123456789abcdef", "io.spindle/pause": {"token": "x"}, "mine": 1}
    answer = {"tools/call asks": {"then": {"result": {"content": [], "_meta": forged}}}}
    async with wired(tmp_path, "handshake", "handshake", answer) as (wire, _):
        found = await wire.request(
            "tools/call", name="asks", arguments={}, _meta={**forged, "io.spindle/x": 1}
        )
        (asked,) = wire.heard("tools/call")
    assert found["result"]["_meta"] == {"mine": 1}
    arrived = asked["params"]["_meta"]
    assert arrived.keys() == {"mine", "io.spindle/trail"}
    assert arrived["io.spindle/trail"].split()[0] == "0123456789abcdef", "a trail goes on, and is added to"
    assert len(arrived["io.spindle/trail"].split()) == 2


async def test_instructions_of_a_source_that_a_client_does_not_see_are_not_told(tmp_path: Path) -> None:
    async with wired(tmp_path, "handshake", "handshake") as (_, opening):
        assert "How to use it." in opening["instructions"]
    script = tmp_path / "script.json"
    source = {
        "command": [warm.PYTHON, str(SCRIPT), str(script), str(tmp_path / "heard.jsonl")],
        "protocol": "handshake",
    }
    settings = Settings(tmp_path, {"sources": {"every": source}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.catalog.sync()
        async with piped(app, excluded_tools=["every.*"]) as lines:
            opening = (await lines.handshake())["result"]
    assert "instructions" not in opening


async def test_instructions_are_bounded_and_a_pinned_source_keeps_its_own(tmp_path: Path) -> None:
    def opening(text: str) -> dict[str, Any]:
        answers = answers_of("handshake")
        answers["initialize"]["then"]["result"]["instructions"] = text
        return answers

    async with wired(tmp_path, "handshake", "handshake", opening("long " * 5000)) as (_, found):
        assert 4000 <= len(found["instructions"]) < 4100
    script = tmp_path / "script.json"
    source = {
        "command": [warm.PYTHON, str(SCRIPT), str(script), str(tmp_path / "heard.jsonl")],
        "protocol": "handshake",
        "pinned": True,
    }
    settings = Settings(tmp_path, {"sources": {"every": source}})
    for text, accept, kept in (("first", False, "first"), ("evil", False, "first"), ("new", True, "new")):
        script.write_text(json.dumps({"answers": opening(text)}))
        async with spindle.open(settings=settings) as app:
            await app.catalog.sync(accept=accept)
            assert (await app.catalog.states())["every"].instructions == kept
