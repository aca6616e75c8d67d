"""What waits for a person, in a real Chromium: two browsers at once, forms, and hostile texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.asking import ORDER, asking
from servers.console import axe, console_browser, fits

pytestmark = [pytest.mark.browser, pytest.mark.npm]


async def test_an_approval_is_edited_and_given_in_two_browsers_at_once(tmp_path: Path) -> None:
    rest = asking(tmp_path / "shop")
    text = (rest.root / "spindle.toml").read_text()
    rest.settings(text.partition("[serve.tokens]")[0])
    async with console_browser(rest) as console:
        first, second = await console.page("/waiting"), await console.page("/waiting", width=360)
        await first.get_by_text("Nothing waits for you.").wait_for()
        assert console.served.call("order", **ORDER).status_code == 202
        for page in (first, second):  # it appears by itself
            await page.get_by_role("link", name="order is called only with approval").click()
            await page.get_by_role("button", name="Approve").wait_for()
            await page.get_by_text("Edit the arguments").click()
        # What is typed is on both sides, and stays when something else happens.
        await first.get_by_role("group", name="lines").get_by_role("textbox", name="count").fill("7")
        assert '"count": 7' in await first.get_by_label("JSON").input_value()
        changed = {"order": {"customer": "ben", "lines": [{"item": "tea", "count": 5}]}}
        await second.get_by_label("JSON").fill(json.dumps(changed))
        assert await second.get_by_label("customer").input_value() == "ben"
        await first.get_by_role("group", name="lines").get_by_role("textbox", name="count").fill("many")
        await first.get_by_role("button", name="Approve with changes").click()
        problem = first.locator(".field-problem:visible")
        await problem.first.wait_for()
        assert "many" in (await problem.first.text_content() or "")
        await first.get_by_role("group", name="lines").get_by_role("textbox", name="count").fill("7")
        assert await axe(first) == []
        await first.get_by_role("button", name="Approve with changes").click()
        # The other is told who was first, and has nothing left to press.
        for page in (first, second):
            state = page.locator("#pause-state", has_text="approved with changes by the owner")
            await state.wait_for()
            await page.get_by_role("button", name="Approve").wait_for(state="hidden")
            await page.locator("#pause-state", has_text="Its run is done").wait_for()
            assert await fits(page)
        ordered = json.loads((rest.root / "tools" / "ordered.json").read_text())
        assert ordered == {"customer": "ann", "lines": [{"item": "tea", "count": 7}], "express": None}
        console.problems[:] = [text for text in console.problems if "400" not in text]  # the wrong number


async def test_a_question_is_a_form_and_hostile_words_are_words(tmp_path: Path) -> None:
    rest = asking(tmp_path / "shop")
    (rest.root / "tools" / "evil.py").write_text(
        "from spindle import Context, tool\n@tool\ndef evil(context: Context) -> str:\n"
        '    """Asks."""\n'
        '    return context.ask("<img src=x onerror=alert(1)> \\u202egnihton"\n'
        '        " </textarea><script>alert(2)</script>")\n'
    )
    rest.settings("[serve]\nconsole = true\n")
    async with console_browser(rest) as console:
        console.served.call("lunch")
        page = await console.page("/waiting")
        assert await page.locator("#waiting-count").text_content() == "1"
        await page.get_by_role("link", name="Where do we eat?").click()
        await page.get_by_label("place").fill("the harbour")
        await page.get_by_label("seats").fill("4")
        await page.get_by_label("when").select_option("evening")
        assert json.loads(await page.get_by_label("JSON").input_value()) == {
            "place": "the harbour", "seats": 4, "when": "evening",
        }  # fmt: skip
        await page.keyboard.press("Tab")
        await page.get_by_role("button", name="Answer", exact=True).focus()
        await page.keyboard.press("Enter")
        await page.locator("#pause-state", has_text="answered by the owner").wait_for()

        console.served.call("evil")
        await page.goto("/console/waiting")
        await page.get_by_role("link", name="onerror").click()
        title = page.locator("#chosen-title")
        shown = await title.text_content() or ""
        assert "<img src=x" in shown
        assert "\u202e" not in shown
        assert await page.locator("main img, main script").count() == 0
        await page.get_by_label("Reason for refusing").fill("<b>no</b>")
        await page.get_by_role("button", name="Refuse").click()
        await page.locator("#pause-state", has_text="<b>no</b>").wait_for()
