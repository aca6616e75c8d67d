"""Every page of a console that this process serves: whole, in parts that a page asks for again, and live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from servers.running import PATIENCE
from servers.signed_in import SignedIn
from servers.signed_in import signed_in as entered
from spindle.console.screens import SCREENS

TOOLS = """
from spindle import tool

@tool
def echo(text: str) -> str:
    "Say it again."
    return text

@tool(destructive=True)
def delete(name: str) -> str:
    "Delete something."
    return f"deleted {name}"
"""


FLOW = "nodes:\n- {id: say, tool: echo, params: {text: hello}}\n"


@pytest.fixture
async def signed_in(tmp_path: Path) -> AsyncIterator[SignedIn]:
    for folder, name, text in (("tools", "t.py", TOOLS), ("flows", "greet.yaml", FLOW)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "spindle.toml").write_text('[sources.tools]\napprove = "delete"\n')
    async with entered(tmp_path) as found:
        yield found


async def test_every_screen_is_a_page(signed_in: SignedIn) -> None:
    app, client, _ = signed_in
    await app.call("echo", text="hello")
    await app.run("delete", name="a")
    (pause,) = await app.pauses()
    key = (await app.history())[0].key
    named = {"/tools/{name}": "echo", "/sources/{name}": "tools", "/calls/{key}": key,
             "/waiting/{token}": pause.token, "/flows/{file:path}": "greet.yaml",
             "/flows/{file:path}/edit": "greet.yaml", "/tools/{name}/try": "echo",
             "/runs/{id}": pause.run_id, "/runs/{id}/compare": pause.run_id}  # fmt: skip
    for screen in SCREENS:
        path = re.sub(r"\{[\w:]+\}", named.get(screen.path, ""), screen.path)
        page = await client.get(f"/console{path}", params={"with": pause.run_id})
        assert page.status_code == 200, path
        # What the field for searching and the button for examining show is no page of its own.
        is_part = screen.path in ("/find", "/health/examined")
        assert page.text.startswith("<!doctype html>") != is_part, path
        assert ("</nav>" in page.text) != is_part, path
    searched = await client.get("/console/tools", params={"q": "echo"}, headers={"hx-request": "true"})
    assert ">echo</a>" in searched.text
    for missing in ("/console/nothing", "/console/tools/nobody", "/console/calls/x", "/console/waiting/x"):
        page = await client.get(missing)
        assert page.status_code == 404, missing
        part = await client.get(missing, headers={"hx-request": "true"})
        assert (part.status_code, "</nav>" in part.text) == (404, False)


async def test_a_call_that_only_waited_has_no_latency(signed_in: SignedIn) -> None:
    app, client, _ = signed_in
    await app.run("delete", name="a")
    latency = (await client.get("/console")).text.partition("Latency, median")[2].partition("</div>")[0]
    assert '<p class="value">\u2013</p>' in latency
    await app.call("echo", text="hello")
    latency = (await client.get("/console")).text.partition("Latency, median")[2].partition("</div>")[0]
    assert "95 % within" in latency


async def test_a_page_hears_of_what_changes(signed_in: SignedIn) -> None:
    app, client, mark = signed_in
    async with client.stream("GET", "/console/live") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        called = asyncio.create_task(client.post("/tools/echo", json={"text": "now"}, headers=mark))
        async with asyncio.timeout(PATIENCE):
            # The first look may have been after the call: then it is the next one's turn.
            async for line in lines:
                if line.startswith("data: ") and "calls" in line.split():
                    break
                if line == ":" and called.done():
                    called = asyncio.create_task(app.call("echo", text="again"))
        assert (await called) is not None


async def test_what_waits_is_answered_and_the_session_is_left(signed_in: SignedIn) -> None:
    app, client, mark = signed_in
    outcome = await app.run("delete", name="a")
    (pause,) = await app.pauses()
    assert pause.run_id == outcome.run_id
    answered = await client.post(f"/pauses/{pause.token}", json={"answer": {"approved": True}}, headers=mark)
    assert answered.status_code in (200, 202), answered.text
    again = await client.post(f"/pauses/{pause.token}", json={"answer": {"approved": True}}, headers=mark)
    assert again.status_code == 422
    assert "answered before" in again.text
    left = await client.post("/console/leave", headers=mark)
    assert left.status_code == 204
    assert (await client.get("/console")).status_code == 303
