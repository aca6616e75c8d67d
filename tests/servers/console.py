"""A console in a real browser: signed in, with an eye on all that goes wrong, and judged by axe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from servers.browser import PATIENCE, running_browser
from servers.interrupted import InterruptedWay
from servers.running import missing

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Request

    from servers.rest import RestWorkspace, Served

AXE = Path(__file__).parents[2] / ".node" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = Path(__file__).parents[2] / "docs" / "assets" / "console"
Scheme = Literal["light", "dark"]


@dataclass
class ConsoleBrowser:
    """A browser that knows the way in."""

    browser: Browser
    served: Served
    rest: RestWorkspace
    url: str
    """Where the browser finds the console."""
    problems: list[str] = field(default_factory=list[str])

    async def page(
        self,
        path: str = "",
        *,
        scheme: Scheme = "light",
        width: int = 1280,
        height: int = 800,
        timezone: str = "UTC",
    ) -> Page:
        """A page of the console in a session of its own."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale="en-GB",
            timezone_id=timezone,
            base_url=self.url,
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        page.on("request", self._asked)
        page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        made = self.rest.spindle("console", "--server", self.served.url)
        assert made.returncode == 0, made.stderr
        await page.goto(made.stdout.strip().replace(self.served.url, self.url))
        await page.get_by_role("navigation", name="Pages").wait_for()
        if path:
            await page.goto(f"/console{path}")
        return page

    def _asked(self, request: Request) -> None:
        """Notes what a page of the console wants from elsewhere: it has to work without internet."""
        own = (self.url, "data:", "blob:")
        if request.is_navigation_request() or request.url.startswith(own):
            return
        if request.frame.url.startswith(self.url):
            self.problems.append(f"asked for {request.url}")


@contextlib.asynccontextmanager
async def console_browser(rest: RestWorkspace, *words: str) -> AsyncIterator[ConsoleBrowser]:
    """A server with a console, and a browser to look at it. Fails if a script or a rule of a page did."""
    with rest.serve("--console", *words) as served:
        async with running_browser() as browser:
            made = ConsoleBrowser(browser, served, rest, served.url)
            yield made
            assert made.problems == []


@contextlib.asynccontextmanager
async def interrupted_console(rest: RestWorkspace) -> AsyncIterator[tuple[ConsoleBrowser, InterruptedWay]]:
    """The same, where the way between the two can be cut. What the browser says of that is no problem."""
    async with console_browser(rest) as console, InterruptedWay(console.url) as way:
        console.url = way.url
        yield console, way
        console.problems[:] = [said for said in console.problems if "Failed to load resource" not in said]


async def axe(page: Page) -> list[dict[str, Any]]:
    """Returns what axe finds serious or critical on a page as it is."""
    if not AXE.is_file():
        missing("axe-core is not here: `make node` installs it")
    await page.evaluate(AXE.read_text("utf-8"))
    found = await page.evaluate("axe.run()")
    return [
        {"id": item["id"], "help": item["help"], "nodes": [node["html"][:200] for node in item["nodes"][:5]]}
        for item in found["violations"]
        if item["impact"] in ("serious", "critical")
    ]


async def fits(page: Page) -> bool:
    """True if nothing of a page is wider than its window."""
    return await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


AT_HOME = r"""python => {
    document.querySelector(".rail .foot strong").textContent = "shop";
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const text = walk.currentNode;
        text.data = text.data.replaceAll(python, "python")
            .replace(/\/[^\s]*pytest[^\s/]*\/(?:popen-gw\d+\/)?[^\s/]+\/\w+/g, "/home/ada/shop");
    }
}"""


async def picture(page: Page, name: str) -> None:
    """Makes a picture of `docs/console.md` again, if SPINDLE_PICTURES is set. The workspace of the test,
    its folder and those of this machine are shown as a user's."""
    if os.environ.get("SPINDLE_PICTURES"):
        SHOTS.mkdir(parents=True, exist_ok=True)
        await page.evaluate(AT_HOME, sys.executable)
        await page.screenshot(path=SHOTS / f"{name}.png")
