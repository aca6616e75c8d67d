"""The console in a real Chromium."""

from __future__ import annotations

import sys

import pytest

from servers.console import Scheme, axe, console_browser, fits
from servers.rest import RestWorkspace
from servers.words import SERVER, with_words

pytestmark = [pytest.mark.browser, pytest.mark.npm]

PAGES = (
    "", "/tools", "/tools?q=nothing-fits-this", "/tools/grow", "/calls", "/calls?outcome=timeout", "/sources",
    "/sources/tools", "/sources/words", "/sources/add", "/nothing-here",
)  # fmt: skip


async def test_pages_fit_every_width_and_are_usable_by_everybody(rest: RestWorkspace) -> None:
    schemes: tuple[Scheme, ...] = ("light", "dark")
    with_words(rest)
    rest.json("call", "say", "--text", "hi", "--json")
    async with console_browser(rest) as console:
        for scheme in schemes:
            page = await console.page(scheme=scheme)
            for path in PAGES:
                await page.goto(f"/console{path}")
                await page.get_by_role("main").wait_for()
                assert await axe(page) == [], (path, scheme)
        for width in (360, 768, 1280, 1920):
            page = await console.page(width=width)
            for path in PAGES:
                await page.goto(f"/console{path}")
                assert await fits(page), (path, width)
        console.problems[:] = [
            text for text in console.problems if "404" not in text
        ]  # the page that is not there


async def test_what_happens_elsewhere_appears_by_itself(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page()
        calls = page.locator(".figure", has_text="Calls")
        assert await calls.locator(".value").text_content() == "0"
        rest.json("call", "say", "--text", "hi", "--json")
        await calls.locator(".value", has_text="1").wait_for()
        for _ in range(11):
            assert console.served.call("hello").status_code == 200
        console.served.call("fail", why="a reason")
        await calls.locator(".value", has_text="13").wait_for()
        await page.locator(".figure", has_text="Failed").locator(".value", has_text="1 7.7 %").wait_for()
        # A tool that another process found is in the list without a reload, and what was typed stays.
        await page.goto("/console/tools")
        await page.get_by_label("Search tools").fill("")
        (rest.root / "tools" / "more.py").write_text(
            'from spindle import tool\n@tool\ndef newcomer() -> int:\n    """Comes later."""\n    return 1\n'
        )
        rest.json("tools", "--json")
        await page.get_by_role("link", name="newcomer", exact=True).wait_for()


async def test_search_is_used_by_keyboard_alone(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page()
        await page.keyboard.press("/")
        await page.keyboard.type("give everything back")
        option = page.get_by_role("option", name="echo")
        await option.wait_for()
        await page.keyboard.press("ArrowDown")
        assert await option.get_attribute("aria-selected") == "true"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/tools**")
        await page.keyboard.press("j")
        await page.wait_for_function("document.activeElement.textContent.includes('echo')")
        await page.keyboard.press("?")
        await page.get_by_role("heading", name="Keys").wait_for()


async def test_a_hostile_server_does_nothing_to_the_page(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "evil.py").write_text(
        "from spindle import tool\n@tool\ndef evil() -> int:\n"
        '    """<img src=x onerror=alert(1)><style>body{display:none}</style> \\u202edlrow"""\n    return 1\n'
    )
    async with console_browser(rest) as console:
        page = await console.page("/tools?q=evil")
        text = await page.locator("tr", has_text="evil").text_content()
        assert text is not None
        assert "<img src=x onerror=alert(1)>" in text
        assert "\u202e" not in text
        assert await page.locator("main img, main style").count() == 0


async def test_a_held_change_is_read_and_accepted(rest: RestWorkspace) -> None:
    with_words(rest)
    async with console_browser(rest) as console:
        page = await console.page("/sources")
        await page.get_by_text("changes wait").wait_for()
        await page.get_by_role("link", name="words").click()
        await page.get_by_role("cell", name="send it to everybody").wait_for()
        await page.get_by_role("button", name="Accept words.look_up").click()
        await page.get_by_text("ready", exact=True).wait_for()
        assert await page.get_by_role("heading", name="Changes that wait for you").count() == 0
        assert "everybody" in rest.json("show", "words.look_up", "--json")["description"]
        await page.goto("/console/tools")
        await page.get_by_role("link", name="grow", exact=True).click()
        await page.get_by_role("heading", name="grow").wait_for()


async def test_a_first_source_is_added_its_tools_seen_and_its_log_read(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "t.py").unlink()
    (rest.root / "words.py").write_text(SERVER)
    async with console_browser(rest) as console:
        page = await console.page()
        await page.get_by_role("heading", name="Welcome").wait_for()
        await page.get_by_role("link", name="Others").click()
        command = page.locator("form", has=page.get_by_role("button", name="Add the command"))
        await command.get_by_label("Name").fill("words")
        await command.get_by_label("Command line").fill("'unfinished")
        await command.get_by_role("button").click()
        await command.get_by_text("The command cannot be read").wait_for()
        await command.get_by_label("Command line").fill(f"{sys.executable} words.py")
        await command.get_by_role("button").click()
        await page.wait_for_url("**/console/sources/words")
        await page.get_by_text("words are ready").wait_for()
        await page.get_by_role("link", name="1 tool").click()
        await page.get_by_role("link", name="words.look_up", exact=True).click()
        await page.get_by_text("spindle call words.look_up").wait_for()
        rest.json("call", "words.look_up", "--json")
        await page.locator("#recent").get_by_text("ok").wait_for()
        await page.locator("#recent a").click()
        await page.get_by_role("heading", name="words.look_up").wait_for()
        # The browser notes every answer that refuses something.
        console.problems[:] = [text for text in console.problems if "status of 4" not in text]


async def test_a_link_leads_to_the_page_that_was_asked_for_before(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        context = await console.browser.new_context(base_url=console.url)

        async def by_link() -> str:
            """Follows a new link in a tab of its own, and returns the page that it leads to."""
            tab = await context.new_page()
            made = rest.spindle("console", "--server", console.served.url).stdout.strip()
            await tab.goto(made)
            await tab.get_by_role("navigation", name="Pages").wait_for()
            await context.clear_cookies()
            return tab.url.removeprefix(console.url)

        asking = await context.new_page()
        for asked, reached in (
            ("/console/tools?q=say", "/console/tools?q=say"),
            (None, "/console"),  # only once
            ("/console/enter?next=//evil.example/console/tools", "/console"),
        ):
            if asked is not None:
                await asking.goto(asked)
                await asking.get_by_role("heading", name="Sign in").wait_for()
            assert await by_link() == reached
        # What another script of this origin leaves there is data as well.
        for left in ("`${Date.now()} //evil.example`", "`${Date.now()}`", "'{'"):
            await asking.evaluate(f"localStorage.setItem('spindle-next', {left})")
            assert await by_link() == "/console"
