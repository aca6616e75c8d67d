"""The buttons of a run, in a real Chromium: it is cancelled, and let go on."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from servers.asking import ORDER
from servers.console import axe, console_browser
from servers.rest import RestWorkspace
from servers.running import until

pytestmark = [pytest.mark.browser, pytest.mark.npm]


async def test_a_run_is_cancelled_and_let_go_on_where_it_was(holding: RestWorkspace) -> None:
    async with console_browser(holding) as console:
        page = await console.page("/flows/hold-on.yaml")
        await page.get_by_label("text", exact=True).fill("hello")
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.wait_for_url("**/console/runs/*")
        drawn, run = page.locator("svg.spindle-flow"), page.locator("#run")
        await drawn.locator(".state.running", has_text="hold").first.wait_for()
        assert await page.get_by_role("button", name="Let it go on").count() == 0
        # Who says no to the question changes nothing.
        await run.get_by_role("button", name="Cancel").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("End the run of hold-on?").wait_for()
        assert await axe(page) == []
        await dialog.locator("button:not([value=yes])").click()
        await dialog.wait_for(state="detached")
        assert not (holding.root / "tools" / "go.cancelled").exists()
        await run.get_by_role("button", name="Cancel").click()
        await dialog.locator("button[value=yes]").click()
        await run.get_by_text("cancelled", exact=True).first.wait_for()
        await until((holding.root / "tools" / "go.cancelled").exists)
        assert await run.get_by_role("button", name="Cancel").count() == 0
        assert await axe(page) == []
        # What was done is not done again. Whether the node that was cut off had an effect is not known, so
        # that a person is asked.
        (holding.root / "tools" / "go").touch()
        await run.get_by_role("button", name="Let it go on").click()
        await drawn.locator(".state.waiting", has_text="hold").first.wait_for()
        await run.get_by_role("link", name="Answer it").click()
        await page.get_by_role("button", name="Do it again").click()
        await page.locator("#pause-state", has_text="Its run is done").wait_for()
        await page.get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).click()
        await drawn.locator(".state.done", has_text="hold").first.wait_for()
        called = [call["tool"] for call in holding.json("history", "--json")]
        assert called.count("echo") == 1


async def test_two_browsers_that_approve_at_once_are_told_which_one_counts(approving: RestWorkspace) -> None:
    async with console_browser(approving) as console:
        assert console.served.client.post("/tools/order", json=ORDER).status_code == 202
        pages = [await console.page("/waiting") for _ in range(2)]
        for page, count in zip(pages, ("3", "5"), strict=True):
            await page.get_by_role("link", name="order is called only with approval").click()
            await page.get_by_text("Edit the arguments").click()
            lines = page.get_by_role("group", name="lines")
            await lines.get_by_role("textbox", name="count").fill(count)
        # Sent by their own scripts at the same moment, whatever the other page was told meanwhile.
        button = "document.querySelector('button[value=approve]').click()"
        await asyncio.gather(*(page.evaluate(button) for page in pages))
        shown: list[str] = []
        for page in pages:
            await page.locator("#pause-state", has_text="Its run is done").wait_for()
            shown.append(await page.locator("#pause-state").text_content() or "")
        ordered = json.loads((approving.root / "tools" / "ordered.json").read_text())
        given = ordered["lines"][0]["count"]
        assert given in (3, 5)
        for text in shown:  # both pages show the one that counted
            assert "approved with changes by the owner" in text
            assert f'"count": {given}' in text
            assert f'"count": {8 - given}' not in text
        console.problems[:] = [said for said in console.problems if "status of 4" not in said]
