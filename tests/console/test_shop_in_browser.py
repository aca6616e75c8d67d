"""A workspace that has been at work for an hour, in a real Chromium: what each screen says of it. Most
pictures of `docs/console.md` are made here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.console import ConsoleBrowser, axe, console_browser, picture
from servers.rest import RestWorkspace
from servers.shop import MINUTES, REFUND, an_hour_of_calls, shop
from spindle.testing import ModelServer, ToolCall, Turn

pytestmark = [pytest.mark.browser, pytest.mark.npm]


@pytest.fixture
def busy(tmp_path: Path) -> RestWorkspace:
    return shop(tmp_path / "shop")


@pytest.fixture
def model(busy: RestWorkspace) -> Iterator[ModelServer]:
    """A model that all processes of the shop ask."""
    busy.settings((busy.root / "spindle.toml").read_text() + '\n[agent]\nmodel = "openai-chat:scripted"\n')
    with ModelServer() as server:
        busy.env |= server.environment()
        yield server


async def overview_and_what_waits(console: ConsoleBrowser, count: int, failed_ones: int) -> None:
    page = await console.page("/flows/send-order.yaml")
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.wait_for_url("**/console/runs/*")
    assert console.served.client.post("/tools/refund", json=REFUND).status_code == 202
    await page.goto("/console")
    calls, failed = (page.locator(".figure", has_text=name) for name in ("Calls", "Failed"))
    # Beside them, what this test itself has called.
    shown = int((await calls.locator(".value").first.text_content() or "").replace(",", ""))
    assert count <= shown <= count + 2
    assert (await failed.locator(".value").first.text_content() or "").startswith(f"{failed_ones} ")
    assert await calls.locator("svg rect").count() >= MINUTES - 1
    await page.get_by_text("2 of 4 need attention").wait_for()
    await page.get_by_role("link", name="send-order").wait_for()
    assert await axe(page) == []
    await picture(page, "overview")
    await page.get_by_role("link", name="refund is called only with approval").click()
    await page.locator("#list").get_by_text('{"order": "A-1038", "amount": 24.9').wait_for()
    await page.get_by_text("The exact arguments").wait_for()
    assert await axe(page) == []
    await picture(page, "waiting")
    (console.rest.root / "tools" / "packed").touch()
    # The flow asks a question: one value, which has a name for everybody and needs no JSON beside it.
    await page.get_by_role("link", name="Is this price all right?").click()
    await page.get_by_role("textbox", name="Value").fill("yes")
    assert not await page.get_by_label("JSON").is_visible()
    assert await axe(page) == []
    await page.get_by_role("button", name="Answer").click()
    await page.locator("#pause-state", has_text="Its run is done").wait_for()


async def sources_and_tools(console: ConsoleBrowser) -> None:
    page = await console.page("/sources")
    books = page.get_by_role("row", name="books")
    await books.locator(".status.bad", has_text="failing").wait_for()
    await books.get_by_text("cannot reach 'books'").wait_for()
    await picture(page, "sources")
    await page.get_by_role("link", name="courier", exact=True).click()
    await page.get_by_role("cell", name="send a copy of the address").wait_for()
    assert (
        await page.locator(".diff").get_by_text("⋯").count() >= 2
    )  # on both sides, where lines are left out
    await picture(page, "change")
    await page.goto("/console/tools")
    await page.get_by_role("row", name="courier.track").get_by_text("held").wait_for()
    assert await page.locator(".pager").inner_text() == "9 tools"
    await picture(page, "tools")
    await page.get_by_label("Search tools").fill("money back")
    await page.locator("#list tr[data-row]").first.get_by_role("link", name="refund", exact=True).wait_for()
    await page.get_by_role("link", name="refund", exact=True).click()
    await page.locator(".tags").get_by_text("may destroy").wait_for()
    await page.goto("/console/tools/place_order")
    await page.get_by_role("cell", name="By courier, on the next day.").wait_for()
    await picture(page, "tool")
    await page.goto("/console/tools/courier.book_pickup/try")
    await page.get_by_label("parcel", exact=True).fill("DE-70412")
    await page.get_by_role("button", name="Save in a flow").click()
    dialog = page.get_by_role("dialog")
    await dialog.locator("select[name=flow]").select_option("send-order.yaml")
    await dialog.locator("select[name=after] option").first.wait_for(state="attached")
    assert await dialog.get_by_label("After its node").input_value() == "pickup"
    await picture(page, "save")


async def calls(console: ConsoleBrowser, failed_ones: int) -> None:
    page = await console.page("/calls")
    await page.locator("#list").get_by_text('{"status": "waiting"}').first.wait_for()
    await picture(page, "calls")
    await page.get_by_label("Outcome").select_option("timeout")
    await page.get_by_text(f"{failed_ones} calls, the newest first").wait_for()
    await page.locator("#list tr[data-row] a").first.click()
    await page.get_by_text("no answer within 30 s").wait_for()
    await page.get_by_text('"parcel": "DE-70412"').wait_for()


async def access_and_health(console: ConsoleBrowser) -> None:
    page = await console.page("/access")
    await page.get_by_role("row", name="warehouse").get_by_text("6 of 9").wait_for()
    await page.get_by_role("row", name="bookkeeping").get_by_text("7 of 9").wait_for()
    await picture(page, "access")
    await page.goto("/console/access/matrix")
    cells = page.get_by_role("row", name="courier.track").get_by_role("cell")
    assert [await cell.locator("[aria-label], .sr").count() > 0 for cell in await cells.all()]
    await picture(page, "matrix")
    await page.goto("/console/health")
    await page.get_by_role("button", name="Examine everything").click()
    await page.locator("#examined").get_by_text("cannot reach").wait_for()
    await page.locator("#health").get_by_text("1 changed definition held back until accepted").wait_for()
    await picture(page, "health")
    await page.goto("/console/health/settings")
    await page.get_by_role("row", name="sources.books.url").wait_for()
    await picture(page, "settings")


async def test_every_screen_says_what_happened_in_an_hour(busy: RestWorkspace) -> None:
    count, failed_ones = await an_hour_of_calls(busy.root)
    async with console_browser(busy) as console:
        await overview_and_what_waits(console, count, failed_ones)
        await sources_and_tools(console)
        await calls(console, failed_ones)
        await access_and_health(console)


async def test_a_conversation_shows_its_question_its_call_and_its_answer(
    busy: RestWorkspace, model: ModelServer
) -> None:
    answer = "Three orders wait: A-1041 (Ada), A-1042 (Grace) and A-1043 (Linus)."
    model.feed(Turn("I look the orders up.", [ToolCall("find_orders", {"status": "waiting"})]), answer)
    asked = busy.spindle("agent", "Which orders wait to be packed?")
    assert asked.returncode == 0, asked.stderr
    async with console_browser(busy) as console:
        page = await console.page("/runs?kind=agent")
        await page.locator("tr[data-row] a").first.click()
        await page.locator(".talk summary", has_text="find_orders").click()
        await page.locator(".talk").get_by_text(re.compile('"customer": ?"Grace"')).wait_for()
        headings = await page.locator("main h2").all_inner_texts()
        assert headings == ["Conversation", "Result", "Inputs", "Calls", "Go on from a step"]
        assert await axe(page) == []
        await picture(page, "agent")
