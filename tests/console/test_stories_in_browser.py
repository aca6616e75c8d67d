"""Stories of the console in a real Chromium: a source that dies and comes back, and a flow in colour."""

from __future__ import annotations

import os
import signal

import pytest

from servers.console import axe, console_browser
from servers.rest import RestWorkspace

pytestmark = [pytest.mark.browser, pytest.mark.npm]


async def test_a_source_dies_and_comes_back_while_it_is_watched(worded: RestWorkspace) -> None:
    async with console_browser(worded) as console:
        page = await console.page("/sources")
        row = page.locator("tr", has_text="words")
        await row.get_by_text("ready", exact=True).wait_for()
        (worded.root / "dead.txt").touch()
        assert worded.spindle("sync", "words").returncode != 0  # another process finds it dead
        await row.locator(".status.bad").wait_for()
        await row.get_by_role("link", name="words").focus()  # what follows is done by keyboard alone
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/sources/words")
        await page.locator("#source .notice.bad").wait_for()
        (worded.root / "dead.txt").unlink()
        await page.get_by_role("button", name="Read again").focus()
        await page.keyboard.press("Enter")
        await page.locator("#source").get_by_text("ready", exact=True).wait_for()
        assert await page.locator("#source .notice.bad").count() == 0
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/console/sources")
        await row.get_by_text("ready", exact=True).wait_for()


async def test_a_program_killed_in_its_session_is_seen_at_once_and_so_is_its_return(
    worded: RestWorkspace,
) -> None:
    async with console_browser(worded) as console:
        page, other = await console.page("/sources"), await console.page("/sources/words")
        row = page.locator("tr", has_text="words")
        await row.get_by_text("ready", exact=True).wait_for()
        assert console.served.call("words.look_up").status_code == 200
        await other.get_by_text("1 session open").wait_for()
        # Nothing is reloaded from here on: a page that were would lose this.
        for one in (page, other):
            await one.evaluate("window.same = true")
        os.kill(int((worded.root / "pid.txt").read_text()), signal.SIGKILL)
        await row.locator(".status.bad", has_text="connection lost").wait_for()
        await other.locator("#source .notice.bad").wait_for()
        assert await axe(page) == []
        assert console.served.call("words.look_up").status_code == 200  # another program is started
        await row.get_by_text("ready", exact=True).wait_for()
        await other.locator("#source .notice.bad").wait_for(state="detached")
        await other.get_by_text("1 session open").wait_for()
        for one in (page, other):
            assert await one.evaluate("window.same")


async def test_a_session_is_ended_by_hand_and_the_next_call_opens_another(worded: RestWorkspace) -> None:
    async with console_browser(worded) as console:
        page = await console.page("/sources/words")
        assert console.served.call("words.look_up").status_code == 200
        await page.get_by_text("1 session open").wait_for()
        await page.locator("#log").get_by_text("words are ready").wait_for()
        first = (worded.root / "pid.txt").read_text()
        await page.get_by_role("button", name="Reconnect").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("Calls that run in words end.").wait_for()
        await dialog.get_by_role("button", name="Reconnect").click()
        await page.get_by_text("words gets a new session with the next call").wait_for()
        await page.get_by_text("1 session open").wait_for(state="detached")
        assert console.served.call("words.look_up").status_code == 200
        await page.get_by_text("1 session open").wait_for()
        assert (worded.root / "pid.txt").read_text() != first


async def test_a_flow_is_run_by_keyboard_and_its_picture_takes_colour(holding: RestWorkspace) -> None:
    async with console_browser(holding) as console:
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
        (holding.root / "tools" / "go").touch()
        await drawn.locator(".state.done", has_text="hold").first.wait_for()
