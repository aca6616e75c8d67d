"""Every screen in a real Chromium: usable by everybody, light and dark, within its window, and unmoved by
what hostile servers say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from servers.console import Scheme, axe, console_browser, fits
from servers.rest import RestWorkspace
from servers.screens import addresses, with_everything

pytestmark = [pytest.mark.browser, pytest.mark.npm]

EVIL = r"""
import json, sys

BAD = "<script>alert(1)</script><img src=x onerror=alert(2)><style>body{display:none}</style> \u202edlrow"
CSS = "red; } body { display: none } /* url(javascript:alert(4)) */"
schema = {"type": "object", "title": BAD, "properties": {
    BAD: {"type": "string", "description": BAD, "default": BAD},
    "__proto__": {"type": "string", "description": CSS},
    "choice": {"enum": [BAD, CSS, "javascript:alert(3)"]},
}}
tools = [
    {"name": "evil", "title": BAD, "description": BAD + CSS, "inputSchema": schema},
    {"name": "huge", "description": "x" * 10_000_000, "inputSchema": {"type": "object"}},
    {"name": BAD, "description": "A name that is none.", "inputSchema": {"type": "object"}},
]
print(BAD, file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    name = message.get("params", {}).get("name")
    said = {"content": [{"type": "text", "text": BAD + CSS}], "isError": name == "huge"}
    made = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": BAD,
                       "serverInfo": {"name": BAD, "version": CSS}},
        "tools/list": {"tools": tools},
        "tools/call": said,
    }.get(message["method"])
    answer = {"result": made} if made else {"error": {"code": -32601, "message": BAD}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


async def test_axe_finds_nothing_serious_on_any_screen_light_or_dark(tmp_path: Path) -> None:
    rest = with_everything(tmp_path / "shop")
    async with console_browser(rest) as console:
        paths = addresses(rest, console.served)
        schemes: tuple[Scheme, ...] = ("light", "dark")
        for scheme in schemes:
            page = await console.page(scheme=scheme)
            for path in paths:
                await page.set_viewport_size({"width": 1280, "height": 800})
                answer = await page.goto(f"/console{path}")
                assert answer is not None
                assert answer.status == 200, path
                assert await axe(page) == [], (path, scheme)
                for width in (360, 768, 1920):
                    await page.set_viewport_size({"width": width, "height": 800})
                    assert await fits(page), (path, width)


async def test_names_descriptions_and_results_of_a_hostile_server_do_nothing(rest: RestWorkspace) -> None:
    (rest.root / "evil.py").write_text(EVIL)
    rest.settings(f'[sources.evil]\ncommand = ["{sys.executable}", "evil.py"]\ntimeout = 300\n')
    # What hides a part of its text is held at first: here somebody accepts it all the same.
    synced = rest.spindle("sync", "evil", "--accept-all")
    assert "evil.evil" in synced.stdout, synced.stderr
    async with console_browser(rest) as console:
        for name in ("evil.evil", "evil.huge"):
            console.served.client.post(f"/tools/{name}", json={})
        page = await console.page()
        tools = [tool["name"] for tool in rest.json("tools", "--source", "evil", "--json")]
        assert "evil.evil" in tools
        call = rest.json("history", "--json")[0]["key"]
        paths = [
            "", "/tools?source=evil", "/tools?q=alert", "/tools/evil.evil", "/tools/evil.evil/try",
            "/sources", "/sources/evil", "/calls", f"/calls/{call}", "/runs", "/access/matrix", "/health",
            *(f"/tools/{name}" for name in tools if name == "evil.huge"),
        ]  # fmt: skip
        for path in paths:
            answer = await page.goto(f"/console{path}")
            assert answer is not None
            assert answer.status == 200, path
            assert len(await answer.body()) < 1_000_000, path
            await page.get_by_role("main").wait_for()
            assert await page.locator("main img, main script, main style, main iframe").count() == 0, path
            assert "\u202e" not in (await page.locator("body").text_content() or ""), path
            assert await page.evaluate("getComputedStyle(document.body).display") == "block", path
        await page.goto("/console/tools/evil.evil/try")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.locator("[data-outcome]").get_by_text("<script>alert(1)</script>").first.wait_for()
        assert await page.locator("main img, main script, main style").count() == 0
        await page.keyboard.press("/")
        await page.keyboard.type("alert")
        await page.locator("#found .hit, #found .none").first.wait_for()
        assert await page.locator("#found img, #found script, #found style").count() == 0
        console.problems[:] = [said for said in console.problems if "status of 4" not in said]
