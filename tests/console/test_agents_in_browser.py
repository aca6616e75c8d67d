"""Models at work, in a real Chromium: the conversation of an agent, its fork, and a flow out of words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.console import axe, console_browser, fits, picture
from servers.rest import RestWorkspace
from spindle.testing import ModelServer, ToolCall, Turn

pytestmark = [pytest.mark.browser, pytest.mark.npm]

DRAFT = '{"name": "brief", "nodes": [{"id": "speak", "tool": "echo", "params": {"text": "good morning"}}]}'


@pytest.fixture
def model(rest: RestWorkspace) -> Iterator[ModelServer]:
    """A model that all processes of the workspace ask."""
    rest.settings('[agent]\nmodel = "openai-chat:scripted"\n')
    with ModelServer() as server:
        rest.env |= server.environment()
        yield server


async def test_a_conversation_has_its_calls_folded_in_and_is_forked_from_a_step(
    rest: RestWorkspace, model: ModelServer
) -> None:
    said = "<b>twelve hens</b>"
    model.feed(Turn("I look first.", [ToolCall("echo", {"text": said})]), "There are twelve hens.")
    asked = rest.spindle("agent", "How many hens are there?")
    assert asked.returncode == 0, asked.stderr
    model.feed("Twelve, and a cock.")
    async with console_browser(rest) as console:
        page = await console.page("/runs?kind=agent")
        await page.locator("tr[data-row] a").first.click()
        talk = page.locator(".talk")
        spoken = [" ".join(text.split()) for text in await talk.locator(".said").all_text_contents()]
        assert spoken == ["How many hens are there?", "I look first.", "There are twelve hens."]
        # The call is one line until it is opened, and what came back is text.
        call = talk.locator("li.call")
        result = call.get_by_text(said).first
        assert await call.locator("summary").inner_text() == "ok echo"
        assert not await result.is_visible()
        assert await axe(page) == []
        await call.locator("summary").click()
        await result.wait_for()
        assert await call.locator("b").count() == 0
        assert await axe(page) == []
        await page.set_viewport_size({"width": 360, "height": 800})
        assert await fits(page)
        await page.set_viewport_size({"width": 1280, "height": 800})
        first = page.url
        await page.get_by_label("After step").select_option("1")
        await page.get_by_label("Message").fill("And who else?")
        await page.get_by_role("button", name="Fork the run").click()
        await page.wait_for_url(lambda url: "/console/runs/" in url and url != first)
        await talk.get_by_text("Twelve, and a cock.").wait_for()
        assert await talk.get_by_text("There are twelve hens.").count() == 0
        assert model.requests[-1].prompt == "And who else?"
        # The call was not made again, and the first conversation is what it was.
        assert [call["tool"] for call in rest.json("history", "--json")] == ["echo"]
        await page.goto(first)
        await talk.get_by_text("There are twelve hens.").wait_for()
        assert await talk.get_by_text("And who else?").count() == 0


async def test_words_become_a_draft_that_is_shown_and_drawn_before_it_is_saved_or_run(
    rest: RestWorkspace, model: ModelServer
) -> None:
    model.feed(DRAFT)
    async with console_browser(rest) as console:
        page = await console.page("/flows")
        await page.get_by_role("link", name="New flow").first.click()
        await page.get_by_label("In your words").fill("say good morning")
        await page.get_by_role("button", name="Draft it").click()
        await page.get_by_text("Nothing is saved yet.").wait_for()
        area = page.get_by_label("The flow", exact=True)
        assert "tool: echo" in await area.input_value()
        assert await page.get_by_label("File").input_value() == "brief.yaml"
        await page.locator("[data-picture]").get_by_text("speak", exact=True).wait_for()
        await page.locator("[data-state]").get_by_text("No problems").wait_for()
        assert not (rest.root / "flows").exists()
        assert rest.json("history", "--json") == []
        assert await axe(page) == []
        await picture(page, "ask")
        await area.fill((await area.input_value()).replace("good morning", "good evening"))
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url("**/console/flows/brief.yaml")
        assert "good evening" in (rest.root / "flows" / "brief.yaml").read_text()
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.wait_for_url("**/console/runs/*")
        await page.locator("#run-result").get_by_text("good evening").first.wait_for()
        console.problems[:] = [said for said in console.problems if "status of 404" not in said]
