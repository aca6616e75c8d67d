"""Stories of the console in a real Chromium: a source that dies and comes back, and a flow in colour."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from servers.console import axe, console_browser
from servers.rest import RestWorkspace

pytestmark = [pytest.mark.browser, pytest.mark.npm]

SERVER = """
import json, os, pathlib, sys

pathlib.Path(__file__).with_name("pid.txt").write_text(str(os.getpid()))
if (pathlib.Path(__file__).parent / "dead.txt").exists():
    sys.exit("words have died")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    tool = {"name": "look_up", "description": "Look a word up.", "inputSchema": {"type": "object"}}
    made = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "words", "version": "1"}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "meaning"}]},
    }.get(message["method"])
    answer = {"result": made} if made else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
HOLD = """\
description: Say something, and wait until a file is there.
inputs:
  text: {type: string}
nodes:
- {id: speak, tool: echo, params: {text: "${text}"}}
- {id: hold, tool: wait_for, params: {name: go}}
edges:
- {from: speak, to: hold}
"""


async def test_a_source_dies_and_comes_back_while_it_is_watched(rest: RestWorkspace) -> None:
    (rest.root / "words.py").write_text(SERVER)
    rest.settings(f'[sources.words]\ncommand = ["{sys.executable}", "words.py"]\n')
    rest.json("sync", "--json")
    async with console_browser(rest) as console:
        page = await console.page("/sources")
        row = page.locator("tr", has_text="words")
        await row.get_by_text("ready", exact=True).wait_for()
        (rest.root / "dead.txt").touch()
        assert rest.spindle("sync", "words").returncode != 0  # another process finds it dead
        await row.locator(".status.bad").wait_for()
        await row.get_by_role("link", name="words").focus()  # what follows is done by keyboard alone
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/sources/words")
        await page.locator("#source .notice.bad").wait_for()
        (rest.root / "dead.txt").unlink()
        await page.get_by_role("button", name="Read again").focus()
        await page.keyboard.press("Enter")
        await page.locator("#source").get_by_text("ready", exact=True).wait_for()
        assert await page.locator("#source .notice.bad").count() == 0
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/console/sources")
        await row.get_by_text("ready", exact=True).wait_for()


async def test_a_program_killed_in_its_session_is_seen_at_once_and_so_is_its_return(
    rest: RestWorkspace,
) -> None:
    (rest.root / "words.py").write_text(SERVER)
    rest.settings(f'[sources.words]\ncommand = ["{sys.executable}", "words.py"]\n')
    rest.json("sync", "--json")
    async with console_browser(rest) as console:
        page, other = await console.page("/sources"), await console.page("/sources/words")
        row = page.locator("tr", has_text="words")
        await row.get_by_text("ready", exact=True).wait_for()
        assert console.served.call("words.look_up").status_code == 200
        await other.get_by_text("1 session open").wait_for()
        # Nothing is reloaded from here on: a page that were would lose this.
        for one in (page, other):
            await one.evaluate("window.same = true")
        os.kill(int((rest.root / "pid.txt").read_text()), signal.SIGKILL)
        await row.locator(".status.bad", has_text="connection lost").wait_for()
        await other.locator("#source .notice.bad").wait_for()
        assert await axe(page) == []
        assert console.served.call("words.look_up").status_code == 200  # another program is started
        await row.get_by_text("ready", exact=True).wait_for()
        await other.locator("#source .notice.bad").wait_for(state="detached")
        await other.get_by_text("1 session open").wait_for()
        for one in (page, other):
            assert await one.evaluate("window.same")


async def test_a_flow_is_run_by_keyboard_and_its_picture_takes_colour(rest: RestWorkspace) -> None:
    (rest.root / "flows").mkdir()
    (rest.root / "flows" / "hold-on.yaml").write_text(HOLD)
    async with console_browser(rest) as console:
        page = await console.page("/flows")
        await page.get_by_role("link", name="hold-on", exact=True).focus()
        await page.keyboard.press("Enter")
        await page.get_by_label("text", exact=True).focus()
        await page.keyboard.type("hello")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/runs/*")
        drawn = page.locator("svg.spindle-flow")
        await drawn.locator(".state.done", has_text="speak").first.wait_for()
        await drawn.locator(".state.running", has_text="hold").first.wait_for()
        (rest.root / "tools" / "go").touch()
        await drawn.locator(".state.done", has_text="hold").first.wait_for()
