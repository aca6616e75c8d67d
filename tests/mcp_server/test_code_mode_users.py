"""A program that waits, and its user: another user neither sees nor answers it, also when its server was
killed and another process serves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from mcp_server.test_mcp_access import connected
from servers import warm
from servers.running import PATIENCE
from servers.serving import ERAS, serve_command

TOOLS = """
from spindle import Context, tool

@tool
def drop(name: str, context: Context) -> str:
    '''Drop it.'''
    return f"dropped for {context.principal.id}" if context.approve(f"Drop {name}?") else "kept"
"""
SETTINGS = """
[serve]
mode = "code"
[serve.tokens]
ann = { token = "token-of-ann", groups = ["users"] }
bob = { token = "token-of-bob", groups = ["users"] }
[serve.groups.users]
exposed_tools = ["*"]
"""
CODE = "import tools\nmine = 'own ' + 'marker'\n[mine, await tools.drop(name='x')]"


@asynccontextmanager
async def rest_server(folder: Path) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        warm.SPINDLE, "-w", str(folder), "serve", "--rest", "--port", "0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (match := re.search(rb"serving .* on (\S+)", line := await process.stderr.readline())):
                assert line, "the server ended"
        yield match[1].decode()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_only_its_user_goes_on_with_a_program_whose_server_was_killed(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    place = f"store = '{request.getfixturevalue('postgres_url')}'\n" if store == "postgres" else ""
    (tmp_path / "spindle.toml").write_text(place + SETTINGS)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tools.py").write_text(TOOLS)
    async with (
        serve_command(tmp_path) as (url, process),
        connected(url, list(ERAS)[-1], "token-of-ann") as ann,
    ):
        waits = await ann.call_tool("run_code", {"code": CODE})
        assert waits.meta is not None
        pause = waits.meta["io.spindle/pause"]
        os.kill(warm.pid_of(process.pid), signal.SIGKILL)
        await process.wait()
    token, run = f"/pauses/{pause['token']}", f"/runs/{pause['run_id']}"
    async with rest_server(tmp_path) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:

        async def asked(who: str, method: str, path: str, body: object = None) -> httpx2.Response:
            headers = {"authorization": f"Bearer token-of-{who}"}
            return await http.request(method, path, headers=headers, json=body)

        yes = {"answer": {"approved": True}}
        for method, path, body in (
            ("GET", run, None), ("GET", f"{run}/trace", None), ("POST", f"{run}/resume", {}),
            ("POST", f"{run}/again", {}), ("POST", token, yes), ("POST", token, {"refused": "no"}),
        ):  # fmt: skip
            refused = await asked("bob", method, path, body)
            assert refused.status_code == 404, path
            assert "Drop" not in refused.text
        assert (await asked("bob", "GET", "/pauses")).json()["waiting"] == []
        assert (await asked("bob", "GET", "/runs")).json()["runs"] == []
        assert (await asked("ann", "GET", run)).status_code == 202
        assert (await asked("ann", "POST", token, yes)).status_code == 200
        async with asyncio.timeout(PATIENCE):
            while (ended := await asked("ann", "GET", run)).status_code == 202:
                await asyncio.sleep(0.05)
        assert ended.json() == {"value": ["own marker", "dropped for ann"]}, ended.text
        assert (await asked("bob", "GET", run)).status_code == 404
    if store == "sqlite":
        kept = b"".join(
            path.read_bytes() for path in (tmp_path / ".spindle").glob("state.db*") if path.is_file()
        )
        assert b"own marker" not in kept
