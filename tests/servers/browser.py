"""A real browser, driven by the tests."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from servers.running import missing

if TYPE_CHECKING:
    from playwright.async_api import Browser

PATIENCE = 180_000
"""Milliseconds; only ever waited for in full when something is wrong."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    if CHROMIUM is None:
        missing("there is no Chromium here: `make services` installs one")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        await started.close()
