"""Spans from a client's `_meta` to the source, and what leaves with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from openai import AsyncOpenAI
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import spindle
from servers import warm
from servers.rest import RestWorkspace
from servers.running import PATIENCE
from servers.serving import ERAS, listening_at, served
from spindle import Agent
from spindle.domain.serve import ServeConfig
from spindle.listening.server import address_of, listen
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.settings import Settings
from spindle.telemetry import exporting, tracing
from spindle.testing import ModelServer, ToolCall, Turn, workspace

SERVER = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
server = MCPServer("told")

@server.tool()
def seen(ctx: Context) -> str:
    meta = ctx.request_context.meta or {}
    return str(meta.get("traceparent"))

@server.tool()
def broken() -> str:
    raise ValueError("a secret detail")

server.run()
"""
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.active = tracing.Tracing(provider)
    yield exporter
    tracing.active = None


def named(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


@pytest.mark.parametrize("mode", ERAS.values(), ids=ERAS)
async def test_a_call_is_a_chain_of_spans_from_the_client_to_the_upstream(
    tmp_path: Path, spans: InMemorySpanExporter, mode: Any
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    source = {"command": [warm.PYTHON, str(tmp_path / "server.py")]}
    settings = Settings(tmp_path, {"sources": {"up": source}, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.sync()
        async with served(app) as url, Client(url, mode=mode) as client:
            meta: Any = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            result = await client.call_tool("up_seen", {}, meta=meta)
            failed = await client.call_tool("up_broken", {})
    found = named(spans)
    chain = [
        found[name]
        for name in ("tools/call up_seen", "execute_tool up.seen", "attempt up.seen", "tools/call seen")
    ]
    assert [span.context.trace_id for span in chain if span.context] == [int(TRACE, 16)] * 4
    assert [parent_of(span) for span in chain] == [int(PARENT, 16), *(id_of(span) for span in chain[:3])]
    assert [span.kind.name for span in chain] == ["SERVER", "INTERNAL", "INTERNAL", "CLIENT"]
    text = result.content[0].text  # type: ignore[union-attr]
    assert text == f"00-{TRACE}-{id_of(chain[3]):016x}-01"
    facts = dict(chain[0].attributes or {})
    assert facts["mcp.method.name"] == "tools/call"
    assert facts["gen_ai.tool.name"] == "up_seen"
    assert facts["network.transport"] == "tcp"
    assert ("mcp.session.id" in facts) == (mode == "legacy"), "where there are sessions"
    assert failed.is_error
    assert dict(found["tools/call up_broken"].attributes or {})["error.type"] == "tool_error"
    assert "secret" not in str([span.to_json() for span in spans.get_finished_spans()])


async def test_a_request_over_rest_is_a_span_of_the_server(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "all.py").write_text(
        "from spindle import tool\n\n@tool\ndef say(text: str) -> str:\n    return text\n"
    )
    access = ServingAccess.of(ServeConfig(port=0), {})
    async with spindle.open(tmp_path) as app:
        await app.sync()
        with listen("127.0.0.1", 0) as listening:
            async with (
                listening_at(make_app(app, access), listening),
                httpx2.AsyncClient(base_url=address_of(listening, "127.0.0.1"), timeout=PATIENCE) as http,
            ):
                headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
                done = await http.post("/tools/say", json={"text": "hi"}, headers=headers)
                assert done.text == "hi"
                assert (await http.post("/tools/nothing", json={})).status_code == 404
    requests = [span for span in spans.get_finished_spans() if span.name == "POST /tools/{name}"]
    assert [span.kind.name for span in requests] == ["SERVER", "SERVER"]
    assert parent_of(requests[0]) == int(PARENT, 16)
    assert parent_of(named(spans)["execute_tool say"]) == id_of(requests[0])
    assert dict(requests[0].attributes or {})["http.route"] == "/tools/{name}"


async def test_a_flow_and_its_nodes_are_spans(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    async with spindle.open(settings=Settings(tmp_path, {"store": ":memory:"}), tools=[greet]) as app:
        await app.run_flow("greet --name x >> greet --name y")
    found = named(spans)
    flow = next(span for name, span in found.items() if name.startswith("invoke_workflow"))
    nodes = [span for name, span in found.items() if name.startswith("node ")]
    assert len(nodes) == 2
    assert {parent_of(node) for node in nodes} == {id_of(flow)}
    calls = [span for span in spans.get_finished_spans() if span.name == "execute_tool greet"]
    assert {parent_of(call) for call in calls} == {id_of(node) for node in nodes}


async def test_an_agent_its_questions_to_the_model_and_its_calls_are_spans(
    spans: InMemorySpanExporter,
) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with ModelServer() as server, AsyncOpenAI(base_url=server.openai_url, api_key="any") as client:
        model = OpenAIChatModel("gpt-scripted", provider=OpenAIProvider(openai_client=client))
        server.feed(Turn("let me see", [ToolCall("add", {"a": 1, "b": 2})]), "3")
        async with workspace([add]) as app:
            await Agent(app, model, name="helper").run("add them")
    found = named(spans)
    agent = found["invoke_agent helper"]
    chats = [span for span in spans.get_finished_spans() if span.name == "chat gpt-scripted"]
    assert [parent_of(chat) for chat in chats] == [id_of(agent)] * 2
    assert [chat.kind.name for chat in chats] == ["CLIENT", "CLIENT"]
    assert parent_of(found["execute_tool add"]) == id_of(agent)
    assert {span.context.trace_id for span in found.values() if span.context} == {
        agent.context.trace_id if agent.context else 0
    }


def test_a_trace_in_meta_is_text_or_it_is_none() -> None:
    assert tracing.from_meta({"traceparent": "x", "baggage": 5, "other": "y"}) == {"traceparent": "x"}
    assert tracing.from_meta({"traceparent": "x" * 10_000}) == {}
    assert tracing.from_meta("text") == {}


async def test_off_the_work_is_returned_as_it_is() -> None:
    assert tracing.active is None

    async def work() -> int:
        return 5

    same = work()
    assert tracing.call("x", "y", same) is same
    assert tracing.headers() == {}
    params = {"name": "x"}
    assert tracing.sent_on(params) is params
    assert await same == 5


def test_nothing_of_opentelemetry_is_imported_while_it_is_off(rest: RestWorkspace) -> None:
    code = (
        "import asyncio, sys, spindle\n"
        "async def go():\n"
        "    async with spindle.open() as app: await app.call('say', text='x')\n"
        "asyncio.run(go())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    import subprocess

    done = subprocess.run(
        [warm.PYTHON, "-c", code], cwd=rest.root, env=rest.env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_the_libraries_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    notes: list[str] = []
    exporting.switch_on({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, notes.append)
    assert "spindle-tools[telemetry]" in notes[0]
    assert tracing.active is None
