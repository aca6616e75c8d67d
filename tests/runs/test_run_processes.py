"""Runs that outlive the processes that work on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runs.conftest import Open, Workspace
from servers import warm
from servers.leases import end_leases
from servers.running import PATIENCE, until
from spindle import Finished, Paused
from spindle.errors import ClientError

PROCESS = Path(__file__).parent / "run_process.py"


@pytest.fixture(params=["sqlite", "postgres"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    if request.param == "postgres":
        made.store = f'store = "{request.getfixturevalue("postgres_url")}"\n'
    made.write()
    return made


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE * 2):
            return json.loads(await self._process.stdout.readline())

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(warm.pid_of(self._process.pid), signal.SIGKILL)
        await self._process.wait()


@contextlib.asynccontextmanager
async def started(workspace: Workspace, *words: str) -> AsyncIterator[Process]:
    made = await asyncio.create_subprocess_exec(
        warm.PYTHON, str(PROCESS), str(workspace.root), *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    process = Process(made)
    try:
        yield process
    finally:
        await process.kill()


async def test_a_run_survives_the_kill_of_the_process_that_paused_it(
    workspace: Workspace, opened: Open
) -> None:
    async with started(workspace, "run", "report", '{"topic": "cats"}') as process:
        said = await process.says()
        await process.kill()
    (token,) = said["paused"]
    assert workspace.effects == ["cats one", "cats two"]
    async with started(workspace, "resume", token, '"blue"') as process:
        assert await process.says() == {"finished": "did cats one / did cats two / did cats blue"}
    assert workspace.effects == ["cats one", "cats two", "cats blue"]
    async with opened() as app:
        with pytest.raises(ClientError, match="was answered before"):
            await app.resume(token, "blue")


SLOW = """

@tool
async def slow(context: Context) -> str:
    first = await context.call("effect", name="one")
    answer = context.ask("Go on?")
    second = await context.call("effect", name=f"two {answer}")
    await context.call("block")
    third = await context.call("effect", name="three")
    return f"{first.text} / {second.text} / {third.text}"


@tool(idempotent=True)
async def block() -> None:
    if not (EFFECTS.parent / "go").exists():
        (EFFECTS.parent / "blocked").touch()
        await asyncio.Event().wait()
"""


async def test_a_run_survives_the_kill_of_the_process_that_resumed_it(
    workspace: Workspace, opened: Open
) -> None:
    workspace.write(SLOW)
    async with opened() as app:
        outcome = await app.run("slow")
        assert isinstance(outcome, Paused)
        (pause,) = outcome.pauses
    async with started(workspace, "resume", pause.token, '"yes"') as process:
        await until((workspace.root / "blocked").exists)
        await process.kill()
    assert workspace.effects == ["one", "two yes"]
    async with opened() as app:
        with pytest.raises(ClientError, match="answered before") as caught:
            await app.resume(pause.token, "yes")
        assert f"`spindle resume {outcome.run_id}` takes it over" in (caught.value.hint_for("shell") or "")
        with pytest.raises(ClientError, match="another process executes"):
            await app.resume(outcome.run_id)
    (workspace.root / "go").touch()
    async with opened() as later:
        await end_leases(later.store)
        done = await later.resume(outcome.run_id)
        assert isinstance(done, Finished)
        assert done.result.text == "did one / did two yes / did three"
    assert workspace.effects == ["one", "two yes", "three"]


async def test_fifty_resumes_from_two_processes_go_on_once(workspace: Workspace, opened: Open) -> None:
    async with opened() as app:
        outcome = await app.run("report", topic="cats")
        assert isinstance(outcome, Paused)
        token = outcome.pauses[0].token
    async with (
        started(workspace, "race", token, '"blue"', "25") as one,
        started(workspace, "race", token, '"blue"', "25") as other,
    ):
        assert [await one.says(), await other.says()] == ["ready", "ready"]
        one.go()
        other.go()
        said = [*await one.says(), *await other.says()]
    assert len(said) == 50
    assert [item for item in said if "finished" in item] == [
        {"finished": "did cats one / did cats two / did cats blue"}
    ]
    assert [item for item in said if "error" in item] == [{"error": "client"}] * 49
    assert workspace.effects == ["cats one", "cats two", "cats blue"]


async def test_what_is_stored_of_a_run_is_not_readable(workspace: Workspace, opened: Open) -> None:
    planted = "planted-7c1e"
    async with opened() as app:
        outcome = await app.run("report", topic=planted)
        assert isinstance(outcome, Paused)
        await app.resume(outcome.pauses[0].token, f"{planted} answer")
    for table in ("runs", "run_events", "pauses"):
        rows = rows_of(workspace, table)
        assert rows
        assert planted not in str(rows).replace("\\x", "")


def rows_of(workspace: Workspace, table: str) -> list[Any]:
    if workspace.store:
        from urllib.parse import parse_qs, urlsplit

        import psycopg

        url = urlsplit(workspace.store.split('"')[1])
        (schema,) = parse_qs(url.query)["schema"]
        with psycopg.connect(url._replace(query="").geturl()) as database:
            return database.execute(f'SELECT * FROM "{schema}".{table}'.encode()).fetchall()
    import sqlite3

    with contextlib.closing(sqlite3.connect(workspace.root / ".spindle" / "state.db")) as database:
        return database.execute(f"SELECT * FROM {table}").fetchall()
