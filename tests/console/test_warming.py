"""What is made ready before somebody looks at a page."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx2

import spindle
from servers.running import PATIENCE
from servers.serving import served
from spindle.cli.served_console import make_console
from spindle.console.rendering import Pages, environment
from spindle.console.screens import SCREENS
from spindle.console.warming import Warming
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess

FIRST = ("frame.html", "overview.html")


class NotedPages(Pages):
    """Pages that note which templates are compiled ahead, and stop at the first until they may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def compile(self, template: str) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(PATIENCE)
        super().compile(template)
        self.compiled.append(template)


class NotedGate(threading.Event):
    """A gate that notes that somebody waits at it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed_to_somebody = threading.Event()
        self.set()

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.is_closed_to_somebody.set()
        return super().wait(timeout)


def test_every_template_is_compiled_ahead_and_those_of_the_first_page_before_the_others() -> None:
    pages = NotedPages()
    pages.may_go_on.set()
    warming = Warming(pages, FIRST)
    warming.begin()
    assert warming.thread is not None
    warming.thread.join(PATIENCE)
    assert pages.compiled[:2] == list(FIRST)
    assert {"enter.html", *(screen.template for screen in SCREENS)} <= set(pages.compiled)


def test_nothing_is_compiled_ahead_while_pages_are_made() -> None:
    pages, gate = NotedPages(), NotedGate()
    warming = Warming(pages, FIRST, gate)
    warming.begin()
    assert warming.thread is not None
    assert pages.has_begun.wait(PATIENCE)
    with warming.paused():
        with warming.paused():
            pages.may_go_on.set()
        assert gate.is_closed_to_somebody.wait(PATIENCE)
        assert pages.compiled == ["frame.html"]
    warming.thread.join(PATIENCE)
    assert FIRST[1] in pages.compiled


async def test_pages_are_made_ready_as_soon_as_somebody_opens_a_link(tmp_path: Path) -> None:
    access = ServingAccess.of(ServeConfig(port=0, console=True), {})
    async with spindle.open(tmp_path) as app:
        console = make_console(app, access)
        async with served(app, access=access, console=console) as url, httpx2.AsyncClient() as client:
            assert console.warming.thread is None
            page = await client.get(url.replace("/mcp", "/console/enter"), timeout=PATIENCE)
            assert page.status_code == 200
            assert console.warming.thread is not None
            await asyncio.to_thread(console.warming.thread.join, PATIENCE)
    compiled = {template.name for template in environment().cache.values()}  # type: ignore[union-attr]
    assert set(FIRST) < compiled
