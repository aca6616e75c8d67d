"""Flows in a real Chromium: edited, checked as one types, saved, run, and changed by somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.browser import PATIENCE
from servers.console import axe, console_browser, fits, picture
from servers.rest import RestWorkspace

pytestmark = [pytest.mark.browser, pytest.mark.npm]

NOTES = """\
name: notes
description: Say a text twice, unless it is short, and ask before it is sent.
inputs:
  text:
    type: string
    description: What to say.
nodes:
- id: first
  tool: echo
  params: {text: "${text}"}
- id: again
  tool: echo
  params: {text: "${first.text}, and again", count: 2}
- id: sorry
  transform:
    excuse: It could not be said.
- id: agreed
  ask: Shall it be sent?
- id: send
  tool: say
  params: {text: "${again.text}"}
edges:
- {from: first, to: again}
- {from: first, to: sorry, action: error}
- {from: again, to: agreed}
- {from: agreed, to: send}
mappings:
  first: {outputs: {echo: first}}
  again: {outputs: {echo: again}}
outputs:
  said: {value: "${say}", required: false}
"""
BROKEN = "nodes:\n- {id: a, tool: echo}\nedges:\n- {from: a, to: nowhere}\n"


def with_flows(rest: RestWorkspace) -> Path:
    """Adds a flow that runs and one that is broken."""
    folder = rest.root / "flows"
    folder.mkdir()
    (folder / "notes.yaml").write_text(NOTES)
    (folder / "broken.yaml").write_text(BROKEN)
    return folder


async def test_a_flow_is_edited_checked_and_saved_and_nobody_elses_work_is_lost(rest: RestWorkspace) -> None:
    from playwright.async_api import expect

    file = with_flows(rest) / "notes.yaml"
    async with console_browser(rest) as console:
        page = await console.page("/flows")
        await page.get_by_text("an edge names 'nowhere'").wait_for()
        await picture(page, "flows")
        await page.get_by_role("link", name="notes", exact=True).click()
        await page.locator("svg.spindle-flow").get_by_text("agreed", exact=True).wait_for()
        await picture(page, "flow")
        await page.get_by_role("link", name="Edit").click()
        area, state = page.get_by_label("The file notes.yaml"), page.locator("[data-state]")
        await state.get_by_text("No problems").wait_for()
        # A mistake is named with its line while one types, and the picture follows what can be read.
        text = await area.input_value()
        assert text == NOTES
        await area.fill(text.replace("tool: say", "tool: sya"))
        await state.get_by_text("1 error").wait_for()
        await page.get_by_role("button", name="line 20").click()
        assert await page.evaluate("getSelection().toString() || document.activeElement.selectionStart") != 0
        await picture(page, "flow-edit")
        assert await axe(page) == []
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("1 error and does not run like this").wait_for()
        await page.get_by_role("button", name="Cancel").click()
        assert file.read_text() == NOTES
        await area.fill(text.replace("- id: sorry", "- id: apology").replace("to: sorry", "to: apology"))
        await page.locator("[data-picture]").get_by_text("apology", exact=True).wait_for()
        await state.get_by_text("No problems").wait_for()
        await area.press("Control+s")
        await page.get_by_text("Saved flows/notes.yaml").wait_for()
        assert "apology" in file.read_text()
        # Somebody else changes it: what is typed here stays, and does not go over theirs by itself.
        mine = await area.input_value() + "# mine\n"
        await area.fill(mine)
        file.write_text(NOTES + "# theirs\n")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("was changed by somebody else").wait_for()
        assert file.read_text().endswith("# theirs\n")
        assert await area.input_value() == mine
        assert await axe(page) == []
        await page.get_by_role("button", name="Save mine over it").click()
        await page.locator("[data-conflict]").wait_for(state="hidden")
        # A note of the save before may still be shown; the form is busy from the click until the answer.
        await page.locator("form[data-editor]:not([aria-busy])").wait_for()
        assert file.read_text() == mine
        # A file that is not touched here follows by itself.
        file.write_text(NOTES)
        await page.evaluate("window.dispatchEvent(new Event('focus'))")
        await expect(area).to_have_value(NOTES, timeout=PATIENCE)
        # The browser notes every answer that refuses something.
        console.problems[:] = [said for said in console.problems if "status of 4" not in said]


async def test_flows_fit_every_width_and_are_usable_by_everybody(rest: RestWorkspace) -> None:
    with_flows(rest)
    paths = ("/flows", "/flows/notes.yaml", "/flows/broken.yaml", "/flows/notes.yaml/edit", "/flows/new")
    async with console_browser(rest) as console:
        light, dark = await console.page(scheme="light"), await console.page(scheme="dark")
        for path in paths:
            for page in (light, dark):
                await page.goto(f"/console{path}")
                await page.get_by_role("main").wait_for()
                assert await axe(page) == [], path
            for width in (360, 768, 1280, 1920):
                await light.set_viewport_size({"width": width, "height": 800})
                assert await fits(light), (path, width)
            await light.set_viewport_size({"width": 1280, "height": 800})


async def test_a_flow_is_made_by_keyboard_alone(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page("/flows")
        await page.get_by_text("There are no flows yet.").wait_for()
        await page.get_by_role("link", name="New flow").first.focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("No model is chosen").wait_for()
        await page.get_by_label("File").focus()
        await page.keyboard.type("greeting")
        await page.keyboard.press("Tab")  # Save
        await page.keyboard.press("Tab")  # the text
        assert await page.evaluate("document.activeElement.name") == "text"
        await page.keyboard.press("Control+s")
        await page.wait_for_url("**/console/flows/greeting.yaml")
        await page.get_by_label("name", exact=True).focus()
        await page.keyboard.type(" of ours")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/runs/*")
        assert (rest.root / "flows" / "greeting.yaml").is_file()
        console.problems[:] = [said for said in console.problems if "status of 404" not in said]
