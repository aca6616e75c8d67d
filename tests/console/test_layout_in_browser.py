"""Pages that stay where they are, in a real Chromium: while they load, and while things happen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from servers.console import console_browser, interrupted_console
from servers.rest import RestWorkspace
from servers.screens import addresses, with_everything

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.npm]

# Of all that moved without anybody touching the page: the browser's own measure, and the cells of lists that
# moved sideways.
WATCH = """
window.moved = { score: 0, cells: [], what: [] };
const note = (entries) => entries.filter((entry) => !entry.hadRecentInput).forEach((entry) => {
    window.moved.score += entry.value;
    for (const { node, previousRect, currentRect } of entry.sources) {
        const aside = Math.abs(previousRect.left - currentRect.left) >= 1;
        window.moved.what.push([node?.nodeName, node?.textContent?.slice(0, 40), previousRect, currentRect]);
        if (aside && node?.matches?.(".steady :is(th, td)")) window.moved.cells.push(node.textContent);
    }
});
const observer = new PerformanceObserver((list) => note(list.getEntries()));
observer.observe({ type: "layout-shift", buffered: true });
window.soFar = async () => {
    for (let frame = 0; frame < 3; frame += 1) await new Promise((next) => requestAnimationFrame(next));
    note(observer.takeRecords());
    return window.moved;
};
"""
MOST_AT_LOAD = 0.001
"""Of the browser's measure, which calls 0.1 good. A time that is told anew may be narrower."""
MOST = 0.05
"""While things happen: a list that grows moves what stands below it, and no more."""
NEW = 'from spindle import tool\n@tool\ndef another() -> int:\n    """Comes later."""\n    return 1\n'
SEEN = {
    "/tools": "another", "/calls": "say", "/runs": "lunch", "/flows": "twice", "/access": "newest",
    "/access/matrix": "another", "/waiting": "Where do we eat?",
}  # fmt: skip

# Two frames are drawn at once, unless nothing is drawn at all.
DRAWS = """() => new Promise((told) => {
    requestAnimationFrame(() => requestAnimationFrame(() => told("drawn")));
    setTimeout(told, 1000, "nothing is drawn");
})"""


async def moved(page: Page) -> dict[str, Any]:
    """Returns what moved on a page so far, drawn to its end."""
    return await page.evaluate("window.soFar()")


async def test_nothing_jumps_on_any_screen_while_it_loads_or_while_things_happen(tmp_path: Path) -> None:
    rest = with_everything(tmp_path / "shop")
    async with console_browser(rest) as console:
        paths = addresses(rest, console.served)
        first = await console.page()
        await first.context.add_init_script(WATCH)
        pages: dict[str, Page] = {}
        for path in paths:
            pages[path] = page = await first.context.new_page()
            await page.goto(f"/console{path}")
            await page.get_by_role("main").wait_for()
            assert await page.locator("#waiting-count").text_content() == "1"
            found = await moved(page)
            assert found["score"] < MOST_AT_LOAD, (path, found)
            assert found["cells"] == [], path
        # Calls, a run, a tool and a group that were not there; last what waits, which every page counts.
        console.served.call("say", text="a text that is longer than the others were " * 3)
        console.served.call("fail", why="a reason that is much longer than the others were " * 3)
        assert console.served.client.post("/flows/twice/runs", json={}).status_code == 202
        (rest.root / "tools" / "more.py").write_text(NEW)
        rest.json("tools", "--json")
        rest.json("group", "set", "newest", "--exclude", "order", "--json")
        assert console.served.call("lunch").status_code == 202
        for path, page in pages.items():
            await page.locator("#waiting-count", has_text="2").wait_for()
            if path in SEEN:
                await page.locator("#list").get_by_text(SEEN[path]).first.wait_for()
            found = await moved(page)
            assert found["score"] < MOST, (path, found)
            assert found["cells"] == [], path


async def test_half_a_page_is_not_drawn(rest: RestWorkspace) -> None:
    async with interrupted_console(rest) as (console, way):
        page = await console.page()
        await page.context.add_init_script(WATCH)
        way.holds_after = b"Kind: any"  # in the filters, whose widths depend on those that follow
        loading = asyncio.create_task(page.goto("/console/tools"))
        await way.held.wait()
        await page.locator("select[name=source]").wait_for(state="attached")
        assert await page.evaluate(DRAWS) == "nothing is drawn"
        way.go_on()
        await loading
        await page.get_by_role("link", name="grow", exact=True).wait_for()
        found = await moved(page)
        assert found["score"] < MOST_AT_LOAD, found
