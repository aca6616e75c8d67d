"""Waits with real processes: one that is killed while runs wait, and another that continues them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

from servers import warm
from servers.serving import serve_command

PATIENCE = 120.0
FLOW = """
nodes:
- {id: hook, wait: {webhook: true, schema: {type: object, required: [n]}}}
- {id: nap, wait: {for: 1h}}
- {id: say, tool: say, params: {text: "no ${hook.n}"}}
edges:
- {from: hook, to: nap}
- {from: nap, to: say}
"""
TOOL = """
from pathlib import Path

from spindle import tool

@tool
def say(text: str) -> str:
    with (Path(__file__).parent.parent / "said.txt").open("a") as file:
        file.write(text)
    return f"said {text}"
"""


async def spindle(folder: Path, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        warm.SPINDLE, "-w", str(folder), *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=folder,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    async with serve_command(folder) as (url, process):
        yield url.removesuffix("/mcp"), process


def let_the_hour_pass(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / ".spindle" / "state.db")) as db, db:
        changed = db.execute("UPDATE pauses SET expires_at = expires_at - 3600 WHERE state = 'waiting'")
        assert changed.rowcount == 1


def post(url: str, body: str) -> int:
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_a_server_that_is_killed_while_runs_wait_loses_none(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("")
    for name, text in (("flows/wait.yaml", FLOW), ("tools/say.py", TOOL)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    code, said = await spindle(tmp_path, "run", "wait")
    assert code == 75, said
    assert "waits for a call of its webhook" in said
    _, listed = await spindle(tmp_path, "--json", "pauses")
    (pause,) = json.loads(listed)
    address = pause["details"]["webhook"]

    async with serving(tmp_path) as (url, process):
        assert await asyncio.to_thread(post, f"{url}{address}", '{"m": 1}') == 400
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with serving(tmp_path) as (url, process):
        assert await asyncio.to_thread(post, f"{url}{address}", '{"n": 1}') == 202
        # It goes on to its second wait, in which the process is killed.
        async with asyncio.timeout(PATIENCE):
            while True:
                _, listed = await spindle(tmp_path, "--json", "pauses")
                waiting = [found for found in json.loads(listed) if "for" in found["details"]]
                if waiting:
                    break
                assert not (tmp_path / "said.txt").exists()
        process.send_signal(signal.SIGKILL)
        await process.wait()
    assert not (tmp_path / "said.txt").exists()
    async with serving(tmp_path) as (url, _):
        let_the_hour_pass(tmp_path)
        async with asyncio.timeout(PATIENCE):
            while True:
                _, listed = await spindle(tmp_path, "--json", "runs")
                (status,) = {run["status"] for run in json.loads(listed) if run["kind"] == "flow"}
                if status == "done":
                    break
                assert status != "failed"
        assert await asyncio.to_thread(post, f"{url}{address}", '{"n": 2}') == 404
    assert (tmp_path / "said.txt").read_text() == "no 1"
    code, said = await spindle(tmp_path, "resume", pause["run_id"])
    assert (code, "said no 1" in said) == (0, True)


async def test_a_command_continues_all_that_is_due(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("")
    for name, text in (("flows/nap.yaml", FLOW.replace("- {from: hook, to: nap}", "").replace(
        "nodes:", "start: nap\nnodes:").replace("${hook.n}", "1")), ("tools/say.py", TOOL)):  # fmt: skip
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert (await spindle(tmp_path, "run", "nap"))[0] == 75
    code, said = await spindle(tmp_path, "resume", "due")
    assert (code, "no run is due" in said) == (0, True)
    let_the_hour_pass(tmp_path)
    code, said = await spindle(tmp_path, "resume", "due")
    assert (code, "1 run continued" in said) == (0, True)
    assert (tmp_path / "said.txt").read_text() == "no 1"


async def test_a_workspace_that_is_kept_open_for_commands_continues_what_is_due(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("")
    nap = FLOW.replace("- {from: hook, to: nap}", "").replace("nodes:", "start: nap\nnodes:")
    for name, text in (("flows/nap.yaml", nap.replace("${hook.n}", "1")), ("tools/say.py", TOOL)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    code, said = await spindle(tmp_path, "up")
    assert code == 0, said
    try:
        assert (await spindle(tmp_path, "run", "nap"))[0] == 75
        let_the_hour_pass(tmp_path)
        async with asyncio.timeout(PATIENCE):
            while not (tmp_path / "said.txt").exists():
                await asyncio.sleep(0.05)
    finally:
        await spindle(tmp_path, "down")
    assert (tmp_path / "said.txt").read_text() == "no 1"
