"""Sources added at their page, and calls copied from a tool's page and made, in a real Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess

import pytest

from servers import warm
from servers.console import axe, console_browser
from servers.http_server import HttpServer
from servers.rest import RestWorkspace
from servers.running import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.npm]

WEATHER = {
    "name": "forecast",
    "description": "The weather of the coming days.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "Where."}},
        "required": ["text"],
    },
}
QUOTED = '''
from typing import Literal

from pydantic import BaseModel, Field

from spindle import tool


class Guest(BaseModel):
    name: str = Field(examples=["Ann O'Neill \\"the $HOME\\""])
    age: int


@tool(read_only=True)
def greet(guest: Guest, way: Literal["warm", "cold"], loud: bool, notes: list[str], rest: dict[str, int]):
    """Greet somebody."""
    return {"hello": guest.name, "way": way, "loud": loud, "notes": notes, "rest": rest}
'''


async def test_a_server_is_added_by_its_url_and_its_tool_called(rest: RestWorkspace) -> None:
    async with HttpServer() as server, console_browser(rest) as console:
        server.tools = [WEATHER]
        gone = server.url
        await server.stop()
        page = await console.page("/sources/add")
        form = page.locator("form", has=page.get_by_role("button", name="Add the URL"))
        await form.get_by_label("Name").fill("weather")
        await form.get_by_label("URL of an MCP server").fill(gone)
        await form.get_by_role("button").click()
        # Nobody is there yet: it is noted with what went wrong and what to do, and read once somebody is.
        await page.wait_for_url("**/console/sources/weather")
        problem = page.locator("#source .notice.bad")
        await problem.get_by_text("cannot reach 'weather'").wait_for()
        await problem.get_by_text("check that the server runs").wait_for()
        assert await axe(page) == []
        await server.start()
        await page.get_by_role("button", name="Read again").click()
        await page.locator("#source").get_by_text("ready", exact=True).wait_for()
        await problem.wait_for(state="detached")
        assert gone in (rest.root / "spindle.toml").read_text()
        await page.locator("#source").get_by_text(gone).wait_for()
        await page.get_by_role("link", name="1 tool").click()
        await page.get_by_role("link", name="Try weather.forecast").click()
        await page.get_by_label("text", exact=True).fill("Konstanz, by the lake")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.locator("[data-outcome]").get_by_text("Konstanz, by the lake").first.wait_for()
        assert server.calls("forecast") == 1
        # The same name again is refused, and what was typed stays.
        await page.goto("/console/sources/add")
        await form.get_by_label("Name").fill("weather")
        await form.get_by_label("URL of an MCP server").fill(gone)
        await form.get_by_role("button").click()
        await form.get_by_role("alert").get_by_text("There is a source 'weather' already").wait_for()
        assert await form.get_by_label("URL of an MCP server").input_value() == gone
        console.problems[:] = [said for said in console.problems if "status of 4" not in said]


async def test_every_form_of_a_copied_call_makes_it(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "greet.py").write_text(QUOTED)
    env = rest.env | {"PATH": f"{warm.FOLDER}{os.pathsep}{os.environ['PATH']}", "TOKEN": "any"}

    async def printed(*words: str, given: str = "") -> str:
        """Runs a program in the workspace, as a person does with what they copied."""
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=rest.root, env=env, input=given,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with console_browser(rest) as console:
        page = await console.page("/tools/greet")
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        texts: dict[str, str] = {}
        for label in ("Shell", "Python", "curl", "MCP"):
            await page.get_by_role("button", name=f"Copy for {label}").click()
            texts[label] = await page.evaluate("navigator.clipboard.readText()")
        name = 'Ann O\'Neill "the $HOME"'
        greeted = {"hello": name, "way": "warm", "loud": True, "notes": [], "rest": {}}
        assert json.loads(await printed("bash", "-c", f"{texts['Shell']} --json"))["structured"] == greeted
        assert await printed("python", "-c", texts["Python"]) == f"{greeted}\n"
        assert json.loads(await printed("bash", "-c", texts["curl"])) == greeted
        # An MCP client sends it as one line, once it has introduced itself.
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        said = [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            json.loads(texts["MCP"]),
        ]
        given = "".join(f"{json.dumps(message)}\n" for message in said)
        answers = [
            json.loads(line)
            for line in (await printed("spindle", "serve", "--stdio", given=given)).splitlines()
        ]
        (made,) = [answer["result"] for answer in answers if answer.get("id") == 1]
        assert made["structuredContent"] == greeted
        # All four are in the history.
        assert [call["tool"] for call in rest.json("history", "--json")] == ["greet"] * 4
