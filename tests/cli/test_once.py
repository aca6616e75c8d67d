"""`--from`: a source that is used once, without a workspace, and nothing is written."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from servers.http_server import HttpServer
from servers.rest import RestWorkspace
from servers.shell import MINI_SERVER, TOOLS, Workspace
from spindle.cli.once import name_of, read_place, settled

PYTHON = '''
import base64
from spindle import Block, Result, tool


@tool
def large():
    """Much."""
    return Result((Block("resource", data=base64.b64encode(b"x" * 400_000).decode(), mime_type="x/y"),))


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
'''


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; it, the home folder and that for temporary files stay empty."""
    folders = [tmp_path / "empty", tmp_path / "tmp", tmp_path / "home"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folders[0])
    for name in ("SPINDLE_KEY", "SPINDLE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(folders[1]))
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    yield folders[0]
    assert [os.listdir(folder) for folder in folders] == [[], [], []]


@pytest.fixture
def command(tmp_path: Path) -> str:
    """The command of an MCP server."""
    (tmp_path / "away").mkdir()
    return shlex.join(Workspace(tmp_path / "away").serve(*TOOLS))


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of an MCP server, a WebSocket service, an OpenAPI document and a UTCP manual."""
    loop, found, ready = asyncio.new_event_loop(), {}, threading.Event()
    stopped = asyncio.Event()

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async def live() -> None:
        async with HttpServer() as server, serve(echo, "127.0.0.1", 0) as service:
            found["mcp"] = server.url
            found["websocket"] = f"ws://127.0.0.1:{service.sockets[0].getsockname()[1]}/feed"
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    assert ready.wait(60)
    try:
        with RestWorkspace(tmp_path_factory.mktemp("once") / "rest").serve() as served:
            yield {**found, "openapi": f"{served.url}/openapi.json", "utcp": f"{served.url}/utcp"}
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(60)
        loop.close()


def test_a_command_is_started_and_ended(empty, command, spindle):
    done = spindle("tools", "--from", command)
    assert (done.code, done.err) == (0, "")
    assert [line.split("\t")[0] for line in done.out.splitlines()] == sorted(tool["name"] for tool in TOOLS)
    assert spindle("call", "--from", command, "echo", "text=hi", "--count=2").json == {
        "text": "hi",
        "count": 2,
    }
    assert spindle("show", "--from", command, "echo", "--json").json["input_schema"]["required"] == ["text"]
    assert spindle("search", "--from", command, "arguments").out.startswith("echo\tmcp\t")
    assert spindle("call", "--from", command, "fail").code == 1
    assert spindle("call", "--from", command, "echo", "--help").out.startswith(
        "spindle call echo --text=STRING"
    )
    pids = (Path(shlex.split(command)[-1]).with_name("pids")).read_text().split()
    assert len(pids) == 6
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.parametrize(
    ("kind", "tool", "words", "shown"),
    [
        ("mcp", "echo", ['{"text": "hi"}'], "hi"),
        ("websocket", "send", ['message:={"a": 1}'], '{"a":1}'),
        ("openapi", "echo", ["text=hi"], '"hi"'),
        ("utcp", "say", ['body:={"text": "hi"}'], "hi"),
    ],
)
def test_a_url_is_understood(empty, urls, spindle, kind, tool, words, shown):
    listed = spindle("tools", "--from", urls[kind], "--json")
    assert listed.code == 0, listed.err
    assert tool in {item["name"] for item in listed.json}
    assert {item["kind"] for item in listed.json} == {kind}
    done = spindle("call", "--from", urls[kind], tool, *words)
    assert done.code == 0, done.err
    assert shown in done.out


def test_a_document_is_read_from_a_file(empty, tmp_path, spindle):
    paths = {"/a": {"get": {"operationId": "list_a"}}}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}
    (tmp_path / "api.json").write_text(json.dumps({**document, "servers": [{"url": "http://127.0.0.1:1"}]}))
    assert spindle("tools", "--from", "../api.json").out.startswith("list_a\topenapi")
    assert spindle("call", "--from", "../api.json", "list_a").code == 7


def test_functions_of_a_python_file_are_tools(empty, tmp_path, spindle):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "greetings.py").write_text(PYTHON)
    place = str(tmp_path / "mine" / "greetings.py")
    assert spindle("call", "--from", place, "greet", "name=Ann").out == "Hello, Ann!\n"
    large = spindle("call", "--from", place, "large")
    assert large.out == "[resource, x/y, 400 kB, --save DIR keeps it]\n"
    block = spindle("call", "--from", place, "--json", "large").json["content"][0]
    assert len(block["data"]) > 500_000
    kept = spindle("call", "--from", place, "large", "--save", str(tmp_path / "kept"))
    assert kept.out == f"[resource, x/y, 400 kB, {tmp_path}/kept/large.bin]\n"
    assert os.listdir(tmp_path / "mine") == ["greetings.py"]


def test_a_client_gets_it_as_a_server_that_starts_anywhere(tmp_path, monkeypatch, spindle):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "greetings.py").write_text(PYTHON)
    monkeypatch.chdir(tmp_path / "mine")
    assert spindle("install", "claude-code", "--from", "greetings.py").code == 0
    entry = json.loads((tmp_path / "mine" / ".mcp.json").read_text())["mcpServers"]["greetings"]
    (tmp_path / "other").mkdir()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    asked = [("initialize", hello), ("tools/call", {"name": "greet", "arguments": {"name": "Ann"}})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked)
    ]
    client = subprocess.Popen(
        [entry["command"], *entry["args"]],
        cwd=tmp_path / "other", env={**os.environ, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None
    for line in lines:
        print(line, file=client.stdin, flush=True)
        answer = json.loads(client.stdout.readline())
    client.communicate()
    assert answer["result"]["content"][0]["text"] == "Hello, Ann!"
    assert spindle("install", "cursor", "--http", "--from", "greetings.py").code == 2
    assert "spindle install CLIENT" in spindle("serve", "--print-config", "cursor", "--from", "x").err


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("sh own.py .. package", "{sh} {here}/own.py {here}/.. package"),
        ("no-such-program ./missing", "no-such-program ./missing"),
        ("own.py", "{here}/own.py"),
    ],
)
def test_a_place_means_the_same_elsewhere(tmp_path, monkeypatch, place, meant):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").touch()
    (tmp_path / "package").mkdir()
    assert settled(place) == meant.format(sh=shutil.which("sh"), here=tmp_path)


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        ("", 2, "spindle: --from is empty"),
        ("npx 'x", 2, 'spindle: --from "npx \'x" cannot be read: no closing quotation'),
        (
            "no-such-program -y x",
            3,
            "spindle: 'no-such-program' is not on PATH\n  hint: if it is a package, let a ",
        ),
        ("http://127.0.0.1:1/mcp", 7, "spindle: "),
        ("missing.json", 2, "spindle: "),
    ],
)
def test_a_place_that_is_wrong_is_said(empty, spindle, place, code, message):
    done = spindle("tools", "--from", place)
    assert done.code == code, done.err
    assert done.err.startswith(message)
    assert "spindle sync" not in done.err
    assert json.loads(spindle("call", "--json", "--from", place, "x").out)["error"]["message"]


def test_variables_and_headers_reach_the_source(empty, urls, spindle, monkeypatch, tmp_path):
    monkeypatch.setenv("TOKEN", "geheim")
    header = "Authorization: Bearer ${TOKEN}="
    shown = spindle("call", "--from", urls["mcp"], "--header", header, "whoami").json
    assert shown["authorization"] == "Bearer geheim="
    server = tmp_path / "env_server.py"
    server.write_text(
        MINI_SERVER.read_text().replace("json.dumps(arguments, sort_keys=True)", "os.environ['KEY']")
    )
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    place = shlex.join([sys.executable, "-I", "-S", str(server), str(tmp_path / "tools.json")])
    done = spindle("call", "--env", "KEY=${TOKEN}", "--from", place, "echo", "text=x")
    assert done.out == "geheim\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "A=1"], "spindle: --env goes with --from"),
        (["--header", "A=1"], "spindle: --header goes with --from"),
        (["--from", "http://127.0.0.1:1/mcp", "--env", "A=1"], "spindle: --env goes with a command"),
        (["--from", "x y", "--header", "A=1"], "spindle: --header goes with a URL"),
        (["--from", "x y", "--env", "A"], "spindle: --env 'A' is not of the form KEY=VALUE"),
    ],
)
def test_options_of_another_kind_of_source_are_a_mistake(empty, spindle, words, message):
    done = spindle("tools", *words)
    assert (done.code, done.err.splitlines()[0]) == (2, message)


def test_what_is_not_there_is_looked_for_in_the_source(empty, command, tmp_path, spindle):
    done = spindle("call", "--from", command, "nothing")
    assert (done.code, done.err.splitlines()[1]) == (
        3,
        f"  hint: `spindle tools --from {shlex.quote(command)}` lists its tools",
    )
    (tmp_path / "bare.py").write_text("x = 1\n")
    done = spindle("tools", "--from", str(tmp_path / "bare.py"))
    assert (done.code, done.err.splitlines()[0]) == (3, f"spindle: {tmp_path}/bare.py has no tools")


def test_advice_is_about_the_source_and_not_a_workspace(empty, command, spindle):
    slow = spindle("call", "--from", command, "hang", "--timeout=0.05")
    assert (slow.code, slow.err.splitlines()[1]) == (6, "  hint: give it more time with --timeout")
    wrong = spindle("call", "--from", command, "echo", "zzzz=1")
    shown = f"  hint: `spindle call --from {shlex.quote(command)} echo --help` shows its parameters"
    assert (wrong.code, wrong.err.splitlines()[1]) == (4, shown)


def test_a_source_beside_it_is_a_mistake(empty, command, spindle):
    done = spindle("tools", "--from", command, "github")
    assert (done.code, done.err.splitlines()[0]) == (2, "spindle: --from is the only source")


def test_a_workspace_around_it_is_left_alone(workspace, command, spindle):
    workspace.write("tools/own.py", "from spindle import tool\n\n@tool\ndef own() -> str:\n    return ''\n")
    before = sorted(workspace.root.rglob("*"))
    assert "own" not in spindle("tools", "--from", command).out
    assert sorted(workspace.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
        ("npx -y @scope/name@1.2.3", "name"),
        ("uvx mcp-server-time --local-timezone UTC", "mcp-server-time"),
        ("uv tool run some.server", "some"),
        ("python3 -m mcp_server_git", "mcp_server_git"),
        ("/usr/local/bin/my-server --x", "my-server"),
        ("docker run -i --rm mcp/fetch", "fetch"),
        ("https://www.example.com/mcp", "example"),
        ("https://api.github.com/mcp", "api"),
        ("ws://127.0.0.1:9/", "source-127"),
        ("npx", "npx"),
        ("shop/openapi.yaml", "openapi"),
    ],
)
def test_it_has_a_name_for_messages(place, name):
    assert name_of(place, shlex.split(place)) == name


def test_a_slow_first_start_is_waited_for(empty):
    _, table, root = read_place("bash -c 'exec x' .")
    assert table == {"command": ["bash", "-c", "exec x", "."], "connect_timeout": 120.0}
    assert root == empty
