"""The example with a page in React, gone through in a real browser with a real provider."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers.browser import PATIENCE, running_browser
from servers.oauth import running_mcp_server, running_provider
from servers.running import REPOSITORY, missing

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

EXAMPLE = REPOSITORY / "examples" / "oauth-react"
pytestmark = [pytest.mark.browser, pytest.mark.npm]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The example, served by a process of its own, with a provider and a guarded MCP server behind it."""
    if not (EXAMPLE / "dist").is_dir():
        missing("the page is not built: run `make node`")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    shutil.copy(EXAMPLE / "spindle.toml", workspace)
    listening = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with running_provider() as provider, running_mcp_server(provider.issuer) as mcp_url:
        environment = {
            **os.environ,
            "EXAMPLE_WORKSPACE": str(workspace),
            "NOTES_URL": mcp_url,
            "PUBLIC_URL": base,
            "SPINDLE_HOME": str(tmp_path / "home"),
        }
        fd = listening.fileno()
        command = [sys.executable, "-m", "uvicorn", "server:web", "--no-access-log", "--fd", str(fd)]
        server = subprocess.Popen(command, cwd=EXAMPLE, env=environment, pass_fds=[fd])
        try:
            yield base
        finally:
            server.terminate()
            server.wait(300)
            listening.close()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as started:
        yield started


@contextlib.asynccontextmanager
async def visitor(browser: Browser, address: str, name: str) -> AsyncIterator[Page]:
    """A user with a browser of their own, logged in at the example."""
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_label("Your name").fill(name)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("button", name="Who am I there?").click()
    yield page
    await context.close()


async def consent(page: Page, account: str | None, *, say: str) -> Page:
    """Follow the Connect button, log in at the provider unless it knows the user already, and decide."""
    async with page.context.expect_page() as opened:
        await page.get_by_role("link", name="Connect Notes").click()
    tab = await opened.value
    if account is not None:
        await tab.get_by_label("Account").fill(account)
        await tab.get_by_role("button", name="Log in").click()
    await tab.get_by_role("button", name=say).click()
    return tab


async def test_two_users_connect_their_accounts_and_see_their_own_results(
    browser: Browser, address: str
) -> None:
    async with visitor(browser, address, "ann") as ann, visitor(browser, address, "ben") as ben:
        # Each is asked while the other's consent is pending too.
        await ann.get_by_role("link", name="Connect Notes").wait_for()
        for page, account in ((ben, "ben-at-notes"), (ann, "ann-at-notes")):
            tab = await consent(page, account, say="Allow")
            await tab.get_by_role("heading", name="Notes is connected").wait_for()
            shown = await page.locator("pre").text_content(timeout=PATIENCE)
            assert json.loads(shown or "")["subject"] == account
        # Once connected, nothing is asked again.
        await ann.get_by_role("button", name="Who am I there?").click()
        await ann.get_by_text("ann-at-notes").wait_for()
        assert await ann.get_by_role("link", name="Connect Notes").count() == 0


async def test_a_user_who_says_no_is_told_so_and_can_try_again(browser: Browser, address: str) -> None:
    async with visitor(browser, address, "cid") as page:
        tab = await consent(page, "cid-at-notes", say="Refuse")
        await tab.get_by_role("heading", name="Not connected").wait_for()
        await page.get_by_role("alert").wait_for()
        await page.get_by_role("button", name="Who am I there?").click()
        await consent(page, None, say="Allow")
        await page.get_by_text("cid-at-notes").wait_for()


async def test_a_link_made_for_one_user_does_not_work_for_another(browser: Browser, address: str) -> None:
    async with visitor(browser, address, "ann") as ann, visitor(browser, address, "eve") as eve:
        link = await ann.get_by_role("link", name="Connect Notes").get_attribute("href")
        tab = await eve.context.new_page()
        await tab.goto(link or "")
        await tab.get_by_label("Account").fill("eve-at-notes")
        await tab.get_by_role("button", name="Log in").click()
        await tab.get_by_role("button", name="Allow").click()
        await tab.get_by_role("heading", name="This link was made for somebody else").wait_for()
        # The link still works for the one it was made for.
        await consent(ann, "ann-at-notes", say="Allow")
        await ann.get_by_text("ann-at-notes").wait_for()
