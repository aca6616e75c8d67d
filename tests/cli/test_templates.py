"""The templates of `spindle new`: each is made in a fresh folder and run as its own README says."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from servers import warm
from servers.odd_provider import OddProvider
from servers.pages import examples, run_page
from servers.running import PATIENCE
from servers.serving import text_of
from spindle.cli.new import TEMPLATES
from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn

ALL = ("agent", "basic", "flows", "mcp-server", "oauth-app")


@pytest.fixture
def environment() -> dict[str, str]:
    scripts = Path(sys.executable).parent
    kept = {key: value for key, value in os.environ.items() if key != "SPINDLE_TRUST"}
    return kept | {
        "PATH": os.pathsep.join([str(warm.FOLDER), str(scripts), os.environ["PATH"]]),
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


def made(folder: Path, template: str, environment: dict[str, str]) -> Path:
    """A new workspace, which its maker need not trust first."""
    command = [warm.SPINDLE, "new", "mine", "--template", template]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "mine"


def shell(workspace: Path) -> list[str]:
    """The blocks of a README that a reader types into a shell and that show nothing."""
    return [item.body for item in examples(workspace / "README.md") if item.language == "sh"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@asynccontextmanager
async def typed(
    block: str, workspace: Path, environment: dict[str, str], ready: bytes
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A block of a README with a server in it, until it says that it is ready."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", block, cwd=workspace, env=environment, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            said = b""
            while ready not in said:
                line = await process.stderr.readline()
                assert line, said.decode()
                said += line
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        draining = asyncio.create_task(process.stderr.read())
        async with asyncio.timeout(PATIENCE):
            await process.wait()
            await draining


def test_these_are_the_templates() -> None:
    assert tuple(sorted(path.name for path in TEMPLATES.iterdir() if path.is_dir())) == ALL


@pytest.mark.parametrize("template", ["flows", "mcp-server"])
def test_a_readme_does_what_it_says(folder: Path, environment: dict[str, str], template: str) -> None:
    workspace = made(folder, template, environment)
    assert run_page(workspace / "README.md", workspace, environment, [warm.PYTHON]) >= 1


@pytest.mark.parametrize("template", ALL)
def test_what_is_proposed_is_the_first_thing_to_do(
    folder: Path, environment: dict[str, str], template: str
) -> None:
    command = [warm.SPINDLE, "new", "mine", "--template", template]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if template == "oauth-app":
        assert done.stderr == "mine/README.md says how to run it\n"
        return
    assert done.stderr.startswith("try: cd mine && spindle ")
    proposed = done.stderr.removeprefix("try: ")
    tried = subprocess.run(
        ["bash", "-c", proposed], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (tried.returncode, tried.stderr.replace("✓", "").strip()[:8]) == (0, "")
    assert tried.stdout


# --- an agent


def answer(request: ModelRequest) -> Turn | str:
    """A model that looks it up, and says what it found."""
    if not request.tool_answers:
        return Turn(calls=[ToolCall("find_notes", {"word": "plumber"})])
    return f"You wrote: {request.tool_answers[0].text}"


def test_the_agent_of_the_template_looks_things_up(folder: Path, environment: dict[str, str]) -> None:
    workspace = made(folder, "agent", environment)
    with ModelServer(reply=answer) as model:
        # The provider's address and key; the name of the model is what the workspace says.
        environment |= model.environment()
        assert run_page(workspace / "README.md", workspace, environment, [warm.PYTHON]) == 2
        assert len(model.requests) == 4, "two tasks, each with a call of a tool"
        for request in model.requests:
            assert request.model == "claude-sonnet-5-5"
            assert {"add_note", "find_notes", "delete_note"} <= set(request.tool_names)
            assert "look after the user's notes" in request.instructions
        assert "about the kitchen" in model.requests[1].tool_answers[0].text


def test_the_agent_of_the_template_asks_before_it_destroys(folder: Path, environment: dict[str, str]) -> None:
    workspace = made(folder, "agent", environment)
    for words in (["call", "add_note", "--text", "old"],):
        subprocess.run(
            [warm.SPINDLE, *words], cwd=workspace, env=environment, check=True, capture_output=True
        )
    script = [Turn(calls=[ToolCall("delete_note", {"number": 1})]), "Deleted."]
    with ModelServer(*script) as model:
        environment |= model.environment()
        done = subprocess.run(
            [warm.PYTHON, "agent.py", "Delete note 1"], cwd=workspace, env=environment, input="y\n",
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "approve?" in done.stdout
    assert done.stdout.endswith("Deleted.\n")
    assert "→ delete_note" in done.stderr


# --- an MCP server


async def test_the_server_of_the_template_answers_over_stdio(
    folder: Path, environment: dict[str, str]
) -> None:
    workspace = made(folder, "mcp-server", environment)
    program, *words = shell(workspace)[0].split()
    server = StdioServerParameters(command=program, args=words, env=environment, cwd=str(workspace))
    async with Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("convert", {"amount": 1, "unit": "mi", "to": "m"})
    assert names == ["convert", "units"], "what is excluded is not served"
    assert text_of(result) == "1609.344"


async def test_the_server_of_the_template_lets_in_over_http_who_has_the_token(
    folder: Path, environment: dict[str, str]
) -> None:
    workspace = made(folder, "mcp-server", environment)
    block = shell(workspace)[1]
    port = free_port()
    assert "8321" in block
    url = f"http://127.0.0.1:{port}/mcp"
    async with typed(block.replace("8321", str(port)), workspace, environment, b"serving MCP on"):
        async with httpx2.AsyncClient() as web:
            assert (await web.post(url, json={})).status_code == 401
        token = re.search(r"AUTH_TOKEN=(\S+)", block)
        assert token is not None
        headers = {"authorization": f"Bearer {token[1]}"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }}  # fmt: skip
        accept = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers={**headers, **accept}) as web:
            found = await web.post(url, json=body)
        assert found.status_code == 200
        assert "Converts amounts" in found.text


# --- a web application


def mcp_answer(message: dict[str, Any], token: str) -> dict[str, Any]:
    """A server with one tool, which says whose token it was shown."""
    match message["method"]:
        case "initialize":
            info = {"name": "notes", "version": "1"}
            version = message["params"]["protocolVersion"]
            result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {
                "tools": [
                    {"name": "whoami", "description": "Say who you are.", "inputSchema": {"type": "object"}}
                ]
            }
        case "tools/call":
            result = {"content": [{"type": "text", "text": f"shown {token}"}]}
        case _:
            error = {"code": -32601, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def serve_mcp(request: Request) -> Response:
    if request.method != "POST":
        return Response(status_code=405)
    message = await request.json()
    if "id" not in message:
        return Response(status_code=202)
    return JSONResponse(mcp_answer(message, request.headers["authorization"].removeprefix("Bearer ")))


async def test_each_user_of_the_web_application_connects_and_is_shown_their_own(
    folder: Path, environment: dict[str, str]
) -> None:
    workspace = made(folder, "oauth-app", environment)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    (block,) = shell(workspace)
    assert "uvicorn app:web --port 8000" in block
    # What the README installs is there already, and the server is the test's.
    lines = [line for line in block.splitlines() if not line.startswith(("pip ", "export NOTES_URL"))]
    command = "\n".join(lines).replace("8000", str(port))
    async with OddProvider().running() as odd:
        odd.metadata = {"registration_endpoint": f"{odd.base}/register"}
        odd.serve_mcp = serve_mcp
        environment |= {"NOTES_URL": odd.url, "PUBLIC_URL": base}
        async with typed(command, workspace, environment, b"Uvicorn running"):
            for number, name in enumerate(("ann", "bob"), 1):
                async with httpx2.AsyncClient(base_url=base, follow_redirects=True, timeout=PATIENCE) as web:
                    assert "Log in" in (await web.get("/")).text
                    page = (await web.post("/login", data={"name": name})).text
                    link = re.search(r'<a href="([^"]+)">Connect', page)
                    assert link is not None, page
                    back = await web.get(link[1].replace("&amp;", "&"))
                    assert back.url.path == "/oauth/callback"
                    assert back.status_code == 200
                    page = (await web.get("/")).text
                    assert f"You are connected, {name}." in page
                    assert "notes.whoami" in page
                    assert f"shown odd-access-{number}" in (await web.post("/call/notes.whoami")).text
