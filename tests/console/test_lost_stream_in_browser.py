"""Live pages whose stream is lost, in a real Chromium: they say so, keep what was typed, and catch up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from servers.console import axe, fits, interrupted_console
from servers.rest import RestWorkspace

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.npm]

LOST = "Connection lost. Trying again."


async def seen_calls(page: Page, count: int) -> None:
    """Waits until the list of a page has so many calls."""
    await page.get_by_text(f"{count} call{'s' if count != 1 else ''}, the newest first").wait_for()


async def test_a_stream_that_is_cut_comes_back_and_every_page_catches_up(rest: RestWorkspace) -> None:
    async with interrupted_console(rest) as (console, way):
        calls = await console.page("/calls")
        form = await calls.context.new_page()  # which shares the stream of the first
        await form.goto("/console/tools/echo/try")
        await form.get_by_label("text", exact=True).fill("half a sen")
        for page in (calls, form):
            await page.evaluate("window.same = true")  # nothing is reloaded from here on
            assert not await page.get_by_text(LOST).is_visible()
        way.cut()
        for page in (calls, form):
            await page.bring_to_front()
            await page.get_by_text(LOST).wait_for()
            assert await axe(page) == []
        await form.set_viewport_size({"width": 360, "height": 800})
        assert await fits(form)
        # What happens meanwhile is not heard of, and nobody is led away.
        assert (await asyncio.to_thread(console.served.call, "hello")).status_code == 200
        way.mend()
        for page in (calls, form):
            await page.get_by_text(LOST).wait_for(state="hidden")
        await calls.bring_to_front()
        await seen_calls(calls, 1)
        # And it is live again.
        assert (await asyncio.to_thread(console.served.call, "hello")).status_code == 200
        await seen_calls(calls, 2)
        assert await form.get_by_label("text", exact=True).input_value() == "half a sen"
        for page in (calls, form):
            assert await page.evaluate("window.same")


async def test_a_server_that_goes_away_and_returns_finds_its_pages_where_they_were(
    rest: RestWorkspace,
) -> None:
    async with interrupted_console(rest) as (console, way):
        page = await console.page("/calls")
        await page.evaluate("window.same = true")
        # A proxy says that nobody is there, upon which a browser gives up a stream for good.
        way.cut("answers")
        console.served.process.kill()
        await page.get_by_text(LOST).wait_for()
        rest.json("call", "say", "--text", "meanwhile", "--json")
        with rest.serve("--console") as other:
            way.mend(other.url)
            await page.get_by_text(LOST).wait_for(state="hidden")
            await seen_calls(page, 1)
            assert (await asyncio.to_thread(other.call, "hello")).status_code == 200
            await seen_calls(page, 2)
            assert await page.evaluate("window.same")
            # A session that is over by then leads to the way in, and from there to the same page.
            way.cut("answers")
            await page.get_by_text(LOST).wait_for()
            await page.context.clear_cookies()
            way.mend()
            await page.wait_for_url("**/console/enter?next=%2Fconsole%2Fcalls")
            made = rest.spindle("console", "--server", other.url)
            await page.goto(made.stdout.strip().replace(other.url, way.url))
            await page.get_by_role("navigation", name="Pages").wait_for()
