"""Clients of others, each as its users run it, with a thousand tools."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from servers.running import PATIENCE, REPOSITORY, StdioServers, missing
from servers.serving import SPINDLE, serve_command

NODE24 = REPOSITORY / ".node" / "node24" / "node_modules"
BENCH_PYTHON = REPOSITORY / ".venv-bench" / "bin" / "python"
PYTHON_CLIENTS = ("fastmcp_client.py", "pydantic_ai_client.py")

EACH_WAY = pytest.mark.parametrize("over", ["http", "stdio"])


@pytest.fixture
def workspace(tmp_path: Path, stdio_server: StdioServers) -> Path:
    command = json.dumps(stdio_server(extra_tools=971)["command"])
    (tmp_path / "spindle.toml").write_text(f"[sources.s]\ncommand = {command}\n")
    return tmp_path


async def run(*command: str, folder: Path) -> Any:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={**os.environ, "NO_COLOR": "1"},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(3 * PATIENCE):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-2000:] + out.decode()[-2000:]
    return json.loads(out)


@pytest.mark.npm
@EACH_WAY
async def test_the_inspector_lists_and_calls(workspace: Path, over: str) -> None:
    node, inspector = NODE24 / "node" / "bin" / "node", NODE24 / ".bin" / "mcp-inspector"
    if not inspector.exists():
        missing("the Inspector is not installed: run `make node`")
    tool = ("--method", "tools/call", "--tool-name", "s_echo", "--tool-arg", "text=hello")
    if over == "stdio":
        command = (
            str(node),
            str(inspector),
            "--cli",
            SPINDLE,
            "-w",
            str(workspace),
            "serve",
            "--stdio",
            "--trust",
        )
        listed = await run(*command, "--method", "tools/list", folder=workspace)
        called = await run(*command, *tool, folder=workspace)
    else:
        async with serve_command(workspace) as (url, _):
            command = (str(node), str(inspector), "--cli", url, "--transport", "http")
            listed = await run(*command, "--method", "tools/list", folder=workspace)
            called = await run(*command, *tool, folder=workspace)
    assert len(listed["tools"]) == 1000
    assert called["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.peers
@EACH_WAY
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
async def test_fastmcp_and_an_agent_of_pydantic_ai_list_and_call(
    workspace: Path, client: str, over: str
) -> None:
    if not BENCH_PYTHON.exists():
        missing("fastmcp and pydantic-ai are not installed: run `make peers`")
    command = (str(BENCH_PYTHON), str(Path(__file__).with_name(client)))
    words = (SPINDLE, "s_echo", "hello")
    if over == "stdio":
        found = await run(*command, str(workspace), *words, folder=workspace)
    else:
        async with serve_command(workspace) as (url, _):
            found = await run(*command, url, *words, folder=workspace)
    assert found == {"tools": 1000, "text": "hello"}
