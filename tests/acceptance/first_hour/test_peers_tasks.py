"""What users of other projects do in their first ten minutes, and the same here, in as few commands or fewer.

Ours run in `make test`; theirs, so that the comparison is fair, where their packages are installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers import warm
from servers.running import PATIENCE, REPOSITORY, missing

BENCH = REPOSITORY / ".venv-bench"
NODE24 = REPOSITORY / ".node" / "node24" / "node_modules"

GREETING = '''
from spindle import tool


@tool
def hello(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
'''
FASTMCP_GREETING = GREETING.replace(
    "from spindle import tool\n", "from fastmcp import FastMCP\n\nserver = FastMCP()\n"
)
FASTMCP_GREETING = FASTMCP_GREETING.replace("@tool", "@server.tool")


@dataclass(frozen=True)
class Task:
    """One thing to do, in the commands of another project and in ours."""

    peer: str
    what: str
    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    shows: str
    """What the last command prints, or the served tool answers."""
    served: str | None = None
    """The last command serves, and is asked over `mcp` or `rest`, until it is stopped."""


LIST = ("spindle tools --from mcp-server-time",)
CALL = ("spindle call --from mcp-server-time get_current_time timezone=UTC",)
TASKS = [
    Task(
        "fastmcp", "list a server's tools", ("fastmcp list --command mcp-server-time",), LIST, "convert_time"
    ),
    Task(
        "fastmcp",
        "call a tool of a server",
        (
            "fastmcp call --command mcp-server-time --target get_current_time "
            """--input-json '{{"timezone": "UTC"}}'""",
        ),
        CALL,
        r'"timezone": "UTC"',
    ),
    Task(
        "fastmcp",
        "call a function in a file",
        ("fastmcp call server.py hello name=Ada",),
        ("spindle call --from greeting.py hello name=Ada",),
        "Hello, Ada!",
    ),
    Task(
        "fastmcp",
        "serve a file of functions",
        ("fastmcp run server.py --transport http --port {port}",),
        ("spindle serve --from greeting.py --http --port {port}",),
        "Hello, Ada!",
        "mcp",
    ),
    Task(
        "fastmcp",
        "install a file into a client",
        ("fastmcp install mcp-json server.py",),
        ("spindle install cursor --from greeting.py --print",),
        r'"command"',
    ),
    Task(
        "mcporter",
        "list a server's tools",
        ("mcporter list --stdio mcp-server-time --name time",),
        LIST,
        "convert_time",
    ),
    Task(
        "mcporter",
        "call a tool of a server",
        ("mcporter call --stdio mcp-server-time get_current_time timezone=UTC",),
        CALL,
        r'"timezone": "UTC"',
    ),
    Task(
        "mcpo",
        "serve a server as REST",
        ("mcpo --port {port} -- mcp-server-time",),
        ("spindle serve --from mcp-server-time --rest --port {port}",),
        '"timezone":"UTC"',
        "rest",
    ),
    Task(
        "mcp-proxy",
        "serve a server over HTTP",
        ("mcp-proxy --port {port} mcp-server-time",),
        ("spindle serve --from mcp-server-time --http --port {port}",),
        r'\\"timezone\\": ?\\"UTC\\"',
        "mcp",
    ),
    Task(
        "pflow",
        "add a server, look at its tools, use one",
        (
            """pflow mcp add '{{"time": {{"command": "mcp-server-time"}}}}'""",
            "pflow mcp sync --all",
            "pflow mcp list",
            "pflow probe mcp-time-get_current_time timezone=UTC",
        ),
        (
            "spindle new .",
            "spindle add time -- mcp-server-time",
            "spindle call time.get_current_time timezone=UTC",
        ),
        r"""timezone\W+UTC""",
    ),
]
EACH_TASK = pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.peer}: {task.what}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "greeting.py").write_text(GREETING)
    (folder / "server.py").write_text(FASTMCP_GREETING)
    return folder


def environment(folder: Path, *programs: Path) -> dict[str, str]:
    """Of a user with an empty home, who has these folders of programs."""
    path = os.pathsep.join(str(each) for each in (*programs, warm.FOLDER, "/usr/bin", "/bin"))
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")}
    home = str(folder.parent)
    return kept | {"HOME": home, "PATH": path, "NO_COLOR": "1", "FASTMCP_CHECK_FOR_UPDATES": "off"}


def carry_out(task: Task, commands: tuple[str, ...], folder: Path, env: dict[str, str]) -> None:
    """Types the commands one after the other, and looks for what the task should show."""
    port = free_port()
    *before, last = [shlex.split(command.format(port=port)) for command in commands]
    for command in before:
        run(command, folder, env)
    if task.served is None:
        shown = run(last, folder, env)
    else:
        with running(last, folder, env):
            shown = asked_over_mcp(port) if task.served == "mcp" else asked_over_rest(port)
    assert re.search(task.shows, shown), shown


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def running(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        command, cwd=folder, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait(10 * PATIENCE)


def asked_over_mcp(port: int) -> str:
    """The answer of the tool that all tasks ask, in the words of the handshake era."""
    headers = {"Accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    url = f"http://127.0.0.1:{port}/mcp"
    with httpx2.Client(headers=headers, timeout=10 * PATIENCE, follow_redirects=True) as client:
        answer = once_it_listens(client, url, message("initialize", hello))
        if session := answer.headers.get("mcp-session-id"):
            client.headers["mcp-session-id"] = session
        client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools = client.post(url, json=message("tools/list", {})).text
        asked = {"name": "hello", "arguments": {"name": "Ada"}}
        if '"get_current_time"' in tools:
            asked = {"name": "get_current_time", "arguments": {"timezone": "UTC"}}
        return client.post(url, json=message("tools/call", asked)).text


def asked_over_rest(port: int) -> str:
    with httpx2.Client(timeout=10 * PATIENCE) as client:
        base = f"http://127.0.0.1:{port}"
        document: Any = once_it_listens(client, f"{base}/openapi.json").json()
        (path,) = [path for path in document["paths"] if path.endswith("get_current_time")]
        return client.post(base + path, json={"timezone": "UTC"}).text


def message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def once_it_listens(client: httpx2.Client, url: str, body: Any = None) -> httpx2.Response:
    ends = time.monotonic() + 10 * PATIENCE
    while True:
        try:
            return client.get(url) if body is None else client.post(url, json=body)
        except httpx2.ConnectError:
            assert time.monotonic() < ends, f"nobody listens at {url}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@EACH_TASK
def test_what_peers_do_is_done_here(task: Task, folder: Path) -> None:
    carry_out(task, task.ours, folder, environment(folder))


@pytest.mark.peers
@pytest.mark.npm
@EACH_TASK
def test_the_peers_do_it_as_the_table_says(task: Task, folder: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mcp-server-time").symlink_to(Path(sys.executable).with_name("mcp-server-time"))
    node, mcporter = NODE24 / "node" / "bin" / "node", NODE24 / "mcporter" / "dist" / "cli.js"
    places = {
        "mcpo": BENCH / "proxy",
        "mcp-proxy": BENCH / "proxy",
        "pflow": BENCH / "pflow",
        "fastmcp": BENCH,
    }
    program = places[task.peer] / "bin" / task.peer if task.peer in places else mcporter
    if not program.exists():
        missing(f"{task.peer} is not installed: run `make peers node`")
    front = programs / task.peer
    front.write_text(f'#!/bin/sh\nexec {"" if program != mcporter else node} {program} "$@"\n')
    front.chmod(0o755)
    carry_out(task, task.theirs, folder, environment(folder, programs))


def test_no_task_takes_more_commands_here_than_there() -> None:
    assert [task for task in TASKS if len(task.ours) > len(task.theirs)] == []


def test_the_page_shows_the_commands_that_are_tested() -> None:
    page = (REPOSITORY / "docs" / "coming-from" / "first-minutes.md").read_text("utf-8")
    assert table() in page, f"the page should have this table:\n{table()}"


def table() -> str:
    """The tasks, with the commands of both."""
    lines = ["| coming from | to | there | here |", "|---|---|---|---|"]
    for task in TASKS:
        there, here = (
            "<br>".join(f"`{each.format(port=8000)}`" for each in side) for side in (task.theirs, task.ours)
        )
        lines.append(f"| {task.peer} | {task.what} | {there} | {here} |")
    return "\n".join(lines) + "\n"
