"""Forms and lists in a real Chromium: every kind of field in step with its JSON, sources added by pasting,
calls copied, times of the reader, and a list that takes its time."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from servers.browser import PATIENCE
from servers.console import axe, console_browser
from servers.rest import RestWorkspace
from servers.words import SERVER

if TYPE_CHECKING:
    from playwright.async_api import Route

pytestmark = [pytest.mark.browser, pytest.mark.npm]

PAY = '''
from datetime import date
from typing import Literal

from pydantic import BaseModel

from spindle import tool


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str


class Transfer(BaseModel):
    kind: Literal["transfer"] = "transfer"
    iban: str
    urgent: bool = False


@tool(read_only=True)
def pay(by: Card | Transfer, amount: float, on: date, parts: dict[str, int] = {}, colour: Literal["red", "blue"] = "red"):
    """Pays, in a way that is chosen."""
    return {"by": by.model_dump(), "amount": amount, "on": on.isoformat(), "parts": parts, "colour": colour}
'''  # noqa: E501


async def test_every_kind_of_field_is_in_step_with_the_json_beside_it(rest: RestWorkspace) -> None:
    from playwright.async_api import expect

    (rest.root / "tools" / "pay.py").write_text(PAY)
    async with console_browser(rest) as console:
        page = await console.page("/tools/pay/try")
        written = page.get_by_label("JSON")
        # One way of a union after the other: what belongs to the first is gone.
        await page.get_by_role("button", name="Add: by").click()
        await page.get_by_label("Kind of by").select_option(label="Card")
        await page.get_by_label("number", exact=True).fill("4111")
        await page.get_by_label("Kind of by").select_option(label="Transfer")
        assert await page.get_by_label("number", exact=True).count() == 0
        await page.get_by_label("iban", exact=True).fill("DE02")
        await page.get_by_label("urgent", exact=True).select_option(label="true")
        await page.get_by_label("amount", exact=True).fill("12.5")
        await page.get_by_label("on", exact=True).fill("2026-01-31")
        await page.get_by_label("colour", exact=True).select_option(label="blue")
        sent = json.loads(await written.input_value())
        assert sent["by"]["iban"] == "DE02"
        assert "number" not in sent["by"]
        assert (sent["amount"], sent["on"], sent["colour"]) == (12.5, "2026-01-31", "blue")
        assert "parts" not in sent  # untouched, and left out
        # The other way round: the fields follow what is written, and stay while it cannot be read.
        other = {"by": {"kind": "card", "number": "42"}, "amount": 1, "on": "2027-02-03", "parts": {"a": 7}}
        await written.fill("{not yet")
        await expect(page.get_by_label("iban", exact=True)).to_have_value("DE02", timeout=PATIENCE)
        await written.fill(json.dumps(other))
        await expect(page.get_by_label("number", exact=True)).to_have_value("42", timeout=PATIENCE)
        await expect(page.get_by_label("on", exact=True)).to_have_value("2027-02-03", timeout=PATIENCE)
        assert await axe(page) == []
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_role("button", name="Text", exact=True).click()
        text = await page.locator("[data-outcome] pre").first.text_content()
        assert json.loads(text or "") == {**other, "by": other["by"], "amount": 1.0, "colour": "red"}


async def test_settings_of_another_client_are_pasted_and_a_call_is_copied(rest: RestWorkspace) -> None:
    (rest.root / "words.py").write_text(SERVER)
    pasted = {"mcpServers": {"words": {"command": sys.executable, "args": ["words.py"]}}}
    async with console_browser(rest) as console:
        page = await console.page("/sources/add")
        form = page.locator("form", has=page.get_by_role("button", name="Add the servers"))
        await form.get_by_role("textbox").fill("{")
        await form.get_by_role("button").click()
        await form.get_by_text("this is not JSON").wait_for()
        await form.get_by_role("textbox").fill(json.dumps(pasted))
        await form.get_by_role("button").click()
        await page.wait_for_url("**/console/sources")
        await page.locator("tr", has_text="words").get_by_text("ready", exact=True).wait_for()
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto("/console/tools/words.look_up")
        for heading, begin in (("Shell", "spindle call words.look_up"), ("curl", "curl -X POST ")):
            code = page.locator("h3", has_text=re.compile(f"^{heading}$")).locator("+ .code")
            await code.get_by_role("button").click()
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied == await code.locator("pre").text_content()
            assert copied.startswith(begin)


async def test_times_are_the_readers_own_and_a_list_that_takes_its_time_says_so(rest: RestWorkspace) -> None:
    rest.json("call", "say", "--text", "hi", "--json")
    async with console_browser(rest) as console:
        page = await console.page("/calls", timezone="Asia/Tokyo")
        shown = page.locator("#list time").first
        at = datetime.fromisoformat(await shown.get_attribute("datetime") or "")
        there = at.astimezone(ZoneInfo("Asia/Tokyo"))
        await page.locator(f"#list time[title$='{there:%H:%M:%S}']").first.wait_for()
        assert (await shown.get_attribute("title") or "").startswith(f"{there.day} {there:%b %Y}")
        # An answer that is held back: the page says that it waits, and then no more.
        may_go = asyncio.Event()
        line = page.locator(".loading")

        async def held(route: Route) -> None:
            await may_go.wait()
            await route.continue_()

        assert not await line.is_visible()
        await page.route("**/console/calls?*", held)
        await page.get_by_role("searchbox", name="Tool").fill("nothing-like-this")
        await line.wait_for()
        may_go.set()
        await page.get_by_text("No call fits.").wait_for()
        await line.wait_for(state="hidden")
