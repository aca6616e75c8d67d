"""The worked cases of flows, with real servers as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import spindle
from servers.http_server import HttpServer, Reply
from servers.oauth import User
from servers.running import program
from spindle import CallOptions, Finished, Paused, Principal, tool
from spindle.errors import RateLimitedError
from spindle.flows import Flow, FlowOutput, Retry, ToolNode


@tool(read_only=True)
def summarise(text: str) -> dict[str, Any]:
    """Make a list of files short."""
    files = [line for line in text.splitlines() if line.strip()]
    return {"summary": f"{len(files)} files: {', '.join(sorted(Path(file).name for file in files))}"}


@tool
def wait_a_bit(reason: str) -> dict[str, Any]:
    """Put it aside for later."""
    return {"postponed": reason}


@tool
def ask_for_login(reason: str) -> dict[str, Any]:
    """Tell somebody that a login is needed."""
    return {"login": reason}


def triage(retry: Retry | None = None) -> Flow:
    """Search code → summarise → send a message, with a way out for two kinds of failure."""
    search = ToolNode(
        "fs.search_files", id="search", params={"pattern": "**/*.py"}, inputs={"path": "folder"}
    )
    short = ToolNode("summarise", params={"text": "${search.content ?? ${search}}"})
    send = ToolNode("chat.send", params={"channel": "dev", "text": "${summary}"}, retry=retry)
    later = ToolNode("wait_a_bit", id="later", params={"reason": "${send.error.message}"})
    login = ToolNode("ask_for_login", id="login", params={"reason": "${send.error.category}"})
    search >> short >> send
    send - "rate_limited" >> later
    send - "auth_failed" >> login
    # Each is of one branch, and the others are not taken.
    places = {"sent": "${send.ts}", "postponed": "${later.postponed}", "login": "${login.login}"}
    outputs = {name: FlowOutput(place, required=False) for name, place in places.items()}
    return Flow(search, name="triage", inputs={"folder": {"type": "string"}}, outputs=outputs)


def send_tool() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "name": "send",
        "inputSchema": {
            "type": "object",
            "properties": {"channel": text, "text": text},
            "required": ["channel", "text"],
        },
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.py", "deep/b.py", "notes.txt"):
        (folder / name).touch()
    return folder


@pytest.mark.npm
@pytest.mark.parametrize(
    ("faults", "retry", "expected"),
    [
        ([], None, {"sent": "17.5"}),
        ([Reply(429)], None, {"postponed": "429"}),
        ([Reply(401)], None, {"login": "auth"}),
        ([Reply(429), Reply(429)], Retry(3), {"sent": "17.5"}),
    ],
    ids=["it is sent", "rate limited", "not logged in", "sent at the third attempt"],
)
async def test_search_summarise_send(
    tmp_path: Path, project: Path, faults: list[Reply], retry: Retry | None, expected: dict[str, str]
) -> None:
    async with HttpServer("modern") as chat:
        chat.tools = [send_tool()]
        result = {"content": [{"type": "text", "text": "ok"}], "structuredContent": {"ts": "17.5"}}
        chat.answer_with("send", {**result, "resultType": "complete"})
        chat.next("send", *faults)
        (tmp_path / "spindle.toml").write_text(
            f"""
            [sources.fs]
            command = {json.dumps([program("mcp-server-filesystem"), str(project)])}
            [sources.chat]
            url = "{chat.url}"
            retry = {{attempts = 1}}
            """
        )
        async with spindle.open(tmp_path, tools=[summarise, wait_a_bit, ask_for_login]) as app:
            outcome = await app.run_flow(triage(retry), folder=str(project))
            assert isinstance(outcome, Finished)
            assert outcome.result.structured.keys() == expected.keys()
            for key, value in expected.items():
                assert value in outcome.result.structured[key]
            _, _, events = await app.flows.trace(outcome.run_id)
        sent = [seen.message["params"]["arguments"] for seen in chat.seen if seen.tool == "send"]
        assert sent == [{"channel": "dev", "text": "2 files: a.py, b.py"}] * max(
            len(faults), 1 if not retry else 3
        )
        assert events[2].attempts == len(sent)


@pytest.mark.npm
async def test_without_an_edge_the_flow_fails_with_the_error_itself(tmp_path: Path, project: Path) -> None:
    async with HttpServer("modern") as chat:
        chat.tools = [send_tool()]
        chat.always("send", Reply(429, {"Retry-After": "7"}))
        (tmp_path / "spindle.toml").write_text(
            f'[sources.chat]\nurl = "{chat.url}"\nretry = {{attempts = 1}}\n'
        )
        async with spindle.open(tmp_path) as app:
            flow = Flow(ToolNode("chat.send", params={"channel": "dev", "text": "x"}))
            with pytest.raises(RateLimitedError) as caught:
                await app.run_flow(flow)
        assert caught.value.retry_after == 7


async def test_a_flow_is_served_over_mcp(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(
        "from spindle import tool\n@tool\ndef upper(text: str) -> str:\n    return text.upper()\n"
    )
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "shout.yaml").write_text(
        "version: 1\ndescription: Shout.\n"
        "inputs: {word: {type: string}}\n"
        "nodes:\n- {id: u, tool: upper, params: {text: '${word}!'}}\n"
        "- {id: again, tool: upper, params: {text: '${u}!'}}\n"
        "edges: [{from: u, to: again}]\noutputs: {loud: {value: '${again}', type: string}}\n"
    )
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "spindle", "serve", "--stdio", "--trust"], cwd=str(tmp_path)
    )
    async with Client(server, read_timeout_seconds=60) as client:
        names = {found.name: found for found in (await client.list_tools()).tools}
        assert names["shout"].input_schema["required"] == ["word"]
        result = await client.call_tool("shout", {"word": "hey"}, progress_callback=progress)
    assert result.structured_content == {"loud": "HEY!!"}
    assert told == [(1, "u"), (2, "again")]


def test_flows_cost_nothing_where_there_are_none(tmp_path: Path) -> None:
    code = "import sys, spindle.cli.main; print(*[m for m in sys.modules if m.startswith('spindle.flows')])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.split() == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_consent_pauses_a_flow_and_it_goes_on_in_another_process(
    tmp_path: Path, guarded_url: str, store: str, postgres_url: str
) -> None:
    seen: list[str] = []

    @tool
    def before(text: str) -> str:
        seen.append(text)
        return text.upper()

    lines = [
        "[auth]",
        'redirect_uri = "http://127.0.0.1/callback"',
        "[sources.work]",
        f'url = "{guarded_url}"',
    ]
    lines += ['auth = { type = "oauth", provider = "Work" }']
    address = [f'store = "{postgres_url}"'] if store == "postgres" else []
    (tmp_path / "spindle.toml").write_text("\n".join([*address, *lines]))
    first, last = ToolNode("before"), ToolNode("work.whoami", id="who")
    first >> last
    flow = Flow(first, name="consent", outputs={"who": "${who}", "before": "${before}"})
    ann = Principal("ann")
    async with spindle.open(tmp_path, tools=[before]) as app:
        outcome = await app.run_flow(flow, {"text": "a"}, CallOptions(ann))
        assert isinstance(outcome, Paused)
        (pause,) = outcome.pauses
        assert (pause.kind, pause.details["provider"]) == ("consent", "Work")
    async with User("ann") as user, spindle.open(tmp_path, tools=[before]) as app:
        given = await user.follow(pause.details["url"])
        await app.auth.complete(given["code"], given["state"], given.get("iss"), principal=ann)
        (done,) = await app.runner.resume_consent("work", ann)
        assert isinstance(done, Finished)
        assert done.result.structured["who"]["subject"] == "ann", "a server's JSON text is its value"
        assert done.result.structured["before"] == "A"
        run, _, _ = await app.flows.trace(outcome.run_id)
    assert seen == ["a"]
    assert run.status == "done"
