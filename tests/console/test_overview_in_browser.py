"""The overview of a workspace at work, in a real Chromium."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import pytest

import spindle
from servers.asking import ORDER
from servers.console import axe, console_browser, picture
from servers.rest import RestWorkspace
from servers.words import SERVER
from spindle.domain.call import CallRecord

pytestmark = [pytest.mark.browser, pytest.mark.npm]

SOURCES = """
[sources.dictionary]
command = ["python3", "words.py"]

[sources.stock]
url = "http://127.0.0.1:9/mcp"
"""
FLOW = """\
description: Pack what was ordered, once it is there.
nodes:
- {id: pack, tool: wait_for, params: {name: go}}
"""
MINUTES = 58


async def an_hour_of_calls(root: Path) -> tuple[int, int]:
    """Writes the records of an hour, and returns how many they are, and how many of them failed."""
    now, count, failed, chance = time.time(), 0, 0, random.Random(7)
    async with spindle.open(root) as app:
        for minute in range(MINUTES):
            busy = math.sin(math.pi * minute / MINUTES) + chance.uniform(0, 0.5)
            for number in range(3 + round(14 * busy)):
                is_failed = 20 < minute < 44 and chance.random() < 0.05
                error = {"category": "timeout", "message": "no answer"} if is_failed else None
                record = CallRecord(
                    f"call-{count}", "dictionary.look_up", "dictionary", "local", {"word": "hen"},
                    "timeout" if error else "ok", now - 60 * (MINUTES + 1 - minute) + number,
                    chance.uniform(0.04, 0.08 + 0.1 * busy), 1, error,
                )  # fmt: skip
                await app.store.save_call(record)
                count, failed = count + 1, failed + is_failed
    return count, failed


async def test_an_hour_of_work_is_seen_at_a_glance(approving: RestWorkspace) -> None:
    root = approving.root
    (root / "words.py").write_text(SERVER)
    (root / "flows").mkdir()
    (root / "flows" / "pack.yaml").write_text(FLOW)
    approving.settings((root / "spindle.toml").read_text() + SOURCES)
    approving.spindle("sync")  # one of the sources is away
    count, failed_ones = await an_hour_of_calls(root)
    async with console_browser(approving) as console:
        page = await console.page("/flows/pack.yaml")
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.wait_for_url("**/console/runs/*")
        assert console.served.client.post("/tools/order", json=ORDER).status_code == 202
        await page.goto("/console")
        calls, failed = (page.locator(".figure", has_text=name) for name in ("Calls", "Failed"))
        # Beside them, what this test itself has called.
        shown = int((await calls.locator(".value").first.text_content() or "").replace(",", ""))
        assert count <= shown <= count + 2
        assert (await failed.locator(".value").first.text_content() or "").startswith(f"{failed_ones} ")
        assert await calls.locator("svg rect").count() >= MINUTES - 1
        await page.get_by_text("1 of 4 needs attention").wait_for()
        await page.get_by_role("link", name="order is called only with approval").wait_for()
        await page.get_by_role("link", name="pack").wait_for()
        assert await axe(page) == []
        await picture(page, "overview")
        (root / "tools" / "go").touch()
        await page.get_by_text("No runs are in progress.").wait_for()
        await page.goto("/console/health/settings")
        await page.get_by_role("row", name="sources.stock.url").wait_for()
        await picture(page, "settings")
