"""Four stories in a real Chromium with keys alone: nothing is clicked, and no element is given the focus."""

from __future__ import annotations

import json

import pytest

from servers.asking import ORDER
from servers.console import console_browser
from servers.keys import go_to, press_until
from servers.rest import RestWorkspace
from servers.words import with_words

pytestmark = [pytest.mark.browser, pytest.mark.npm]


async def test_a_tool_is_found_tried_and_called(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page()
        await page.keyboard.press("/")
        await page.keyboard.type("give everything back")
        await page.get_by_role("option", name="echo").first.wait_for()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/tools/echo")
        await page.keyboard.press("t")
        await page.get_by_role("heading", name="Try echo").wait_for()
        await press_until(page, page.get_by_label("text", exact=True))
        await page.keyboard.type("by hand")
        await press_until(page, page.get_by_role("button", name="Call", exact=True))
        await page.keyboard.press("Enter")
        await page.locator("[data-outcome]").get_by_text("by hand").first.wait_for()
        # Esc leads back, step by step, and the call is the first of the list.
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/console/tools/echo")
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/console/tools")
        await go_to(page, "Calls")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="echo").wait_for()
        await page.keyboard.press("r")
        await page.wait_for_url("**/tools/echo/try?call=*")
        await page.get_by_label("text", exact=True).wait_for()
        assert await page.get_by_label("text", exact=True).input_value() == "by hand"


async def test_a_held_change_is_found_and_accepted(rest: RestWorkspace) -> None:
    with_words(rest)
    async with console_browser(rest) as console:
        page = await console.page()
        await go_to(page, "Sources")
        await press_until(page, page.get_by_role("link", name="words", exact=True), "j")
        await page.keyboard.press("k")
        await press_until(page, page.get_by_role("link", name="words", exact=True), "j")
        await page.keyboard.press("Enter")
        await page.get_by_role("cell", name="send it to everybody").wait_for()
        await press_until(page, page.get_by_role("button", name="Accept words.look_up"))
        await page.keyboard.press("Enter")
        await page.locator("#source").get_by_text("ready", exact=True).wait_for()
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/console/sources")
        await page.keyboard.press("?")
        await page.get_by_role("heading", name="Keys").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("heading", name="Keys").wait_for(state="hidden")


async def test_an_approval_is_edited_and_given(approving: RestWorkspace) -> None:
    async with console_browser(approving) as console:
        page = await console.page()
        assert console.served.client.post("/tools/order", json=ORDER).status_code == 202
        await go_to(page, "Waiting")
        await press_until(page, page.get_by_role("link", name="order is called only with approval"), "j")
        await page.keyboard.press("Enter")
        await press_until(page, page.get_by_text("Edit the arguments"))
        await page.keyboard.press("Enter")
        count = page.get_by_role("group", name="lines").get_by_role("textbox", name="count")
        await press_until(page, count)
        await page.keyboard.press("Control+a")
        await page.keyboard.type("7")
        await press_until(page, page.get_by_role("button", name="Approve with changes"))
        await page.keyboard.press("Enter")
        await page.locator("#pause-state", has_text="approved with changes by the owner").wait_for()
        await page.locator("#pause-state", has_text="Its run is done").wait_for()
        ordered = json.loads((approving.root / "tools" / "ordered.json").read_text())
        assert ordered["lines"] == [{"item": "tea", "count": 7}]


async def test_a_flow_is_edited_checked_and_run_and_its_picture_takes_colour(holding: RestWorkspace) -> None:
    file = holding.root / "flows" / "hold-on.yaml"
    whole = file.read_text()
    speak, begin, more = whole.partition("- {id: hold")
    file.write_text(speak)
    async with console_browser(holding) as console:
        page = await console.page()
        await go_to(page, "Flows")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/flows/hold-on.yaml")
        await press_until(page, page.get_by_role("link", name="Edit"))
        await page.keyboard.press("Enter")
        area, state = page.get_by_label("The file hold-on.yaml"), page.locator("[data-state]")
        await state.get_by_text("No problems").wait_for()
        await press_until(page, area)
        await page.keyboard.press("Control+End")
        # Checked while one types: the edge leads to a node that is not there.
        await page.keyboard.type((begin + more).replace("to: hold}\n", "to: held}"))
        await state.get_by_text("1 error").wait_for()
        for _ in "eld}":
            await page.keyboard.press("Backspace")
        await page.keyboard.type("old}\n")
        await page.locator("[data-picture]").get_by_text("hold", exact=True).wait_for()
        await state.get_by_text("No problems").wait_for()
        await page.keyboard.press("Control+s")
        await page.get_by_text("Saved flows/hold-on.yaml").wait_for()
        assert file.read_text() == whole
        await press_until(
            page, page.get_by_role("main").get_by_role("link", name="hold-on.yaml"), "Shift+Tab"
        )
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/flows/hold-on.yaml")
        await press_until(page, page.get_by_label("text", exact=True))
        await page.keyboard.type("hello")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/runs/*")
        drawn = page.locator("svg.spindle-flow")
        await drawn.locator(".state.done", has_text="speak").first.wait_for()
        await drawn.locator(".state.running", has_text="hold").first.wait_for()
        (holding.root / "tools" / "go").touch()
        await drawn.locator(".state.done", has_text="hold").first.wait_for()
        await page.locator("#run").get_by_text("done", exact=True).first.wait_for()
        # The run again, of the same flow as it is.
        first = page.url
        await page.keyboard.press("r")
        await page.wait_for_url(lambda url: "/console/runs/" in url and url != first)
        await drawn.locator(".state.done", has_text="hold").first.wait_for()
