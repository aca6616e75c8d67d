"""The consent story in a real Chromium: a person presses Connect, agrees at the provider's page, and comes
back to tools that work. The provider is on another site, so that the session's cookie stays behind there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from servers.console import ConsoleBrowser, axe, console_browser, picture
from servers.oauth import User
from servers.rest import RestWorkspace
from servers.running import PATIENCE
from servers.signed_in import signed_in
from spindle import Principal

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.npm]


@pytest.fixture
def guarded(tmp_path: Path, guarded_url: str) -> RestWorkspace:
    rest = RestWorkspace(tmp_path / "guarded")
    rest.settings(
        f'[sources.work]\nurl = "{guarded_url}"\nauth = {{ type = "oauth", provider = "Work & Co" }}\n'
    )
    return rest


@asynccontextmanager
async def elsewhere(rest: RestWorkspace) -> AsyncIterator[ConsoleBrowser]:
    """A console under another name than the provider has: localhost and 127.0.0.1 are two sites."""
    async with console_browser(rest) as console:
        console.url = console.url.replace("127.0.0.1", "localhost")
        yield console
        # The provider has no icon for its pages.
        console.problems[:] = [text for text in console.problems if "404" not in text]


async def agree(page: Page, account: str = "ada", say: str = "Allow") -> None:
    """At the provider: log in, and decide."""
    await page.wait_for_url(re.compile(r"//127\.0\.0\.1:\d+/interaction/"))
    await page.get_by_label("Account").fill(account)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("button", name=say).click()


async def test_a_person_connects_consents_and_comes_back_to_tools_that_work(guarded: RestWorkspace) -> None:
    async with elsewhere(guarded) as console:
        page = await console.page("/sources")
        row = page.locator("tr", has_text="work")
        await row.get_by_text("needs your consent").wait_for()
        await row.get_by_role("link", name="work").click()
        await page.get_by_text("you have not connected").wait_for()
        assert await axe(page) == []
        await picture(page, "connect")
        # Somebody who says no comes back to the same, and can begin again.
        await page.get_by_role("button", name="Connect").click()
        await agree(page, say="Refuse")
        await page.get_by_text("did not let you in").wait_for()
        await page.get_by_role("link", name="Go back to the console").click()
        await page.wait_for_url("**/console/sources/work")
        await page.get_by_role("button", name="Connect").click()
        await page.get_by_role("button", name="Allow").click()
        await page.wait_for_url("**/console/sources/work")
        await page.get_by_text("you are connected").wait_for()
        await page.locator("#source").get_by_text("ready", exact=True).wait_for()
        await page.get_by_role("link", name="2 tools").click()
        await page.get_by_role("link", name="work.whoami", exact=True).click()
        await page.get_by_role("link", name="Try it").click()
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.locator("[data-outcome]").get_by_text("ada").first.wait_for()
        # Nothing was left to wait, and nothing leads anywhere else.
        await page.goto("/console/waiting")
        await page.get_by_text("Nothing waits for you.").wait_for()
        await page.goto("/callback?state=x&code=y&back=//evil.example")
        await page.get_by_text("This login is not known").wait_for()
        assert "localhost" in page.url
        console.problems[:] = [text for text in console.problems if "400" not in text]  # that was no link


async def test_a_call_that_waits_for_a_consent_goes_on_after_it(guarded: RestWorkspace) -> None:
    async with elsewhere(guarded) as console:
        page = await console.page("/waiting")
        await page.get_by_text("Nothing waits for you.").wait_for()
        # Somebody runs a flow whose tool nobody has connected yet.
        assert guarded.spindle("call", "work.whoami").returncode == 75
        await page.get_by_role("link", name="work needs your consent").click()
        await page.get_by_text("Work & Co asks for your consent").wait_for()
        assert await axe(page) == []
        await picture(page, "consent")
        here = page.url
        await page.get_by_role("button", name="Give consent").click()
        await agree(page)
        await page.wait_for_url(here)
        await page.locator("#pause-state", has_text="Its run is done").wait_for()
        run = await page.get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).text_content()
        assert "ada" in console.served.client.get(f"/runs/{run}").text


async def test_users_connect_themselves_and_nobody_else(tmp_path: Path, guarded_url: str, ann: User) -> None:
    (tmp_path / "spindle.toml").write_text(
        f'[sources.work]\nurl = "{guarded_url}"\nauth = {{ type = "oauth", provider = "Work" }}\n'
    )
    tokens = {"tokens": {name: {"token": f"token-of-{name}"} for name in ("ann", "ben")}}
    async with signed_in(tmp_path, tokens, token="token-of-ann") as (app, client, mark):
        assert "needs your consent" in (await client.get("/console/sources")).text
        answer = await client.post("/sources/work/connect", headers=mark)
        (consent,) = answer.json()["consents"]
        asked = dict(parse_qsl(urlsplit(consent["url"]).query))
        assert asked["redirect_uri"] == f"{client.base_url}/callback".replace("//callback", "/callback")
        back = f"/callback?{urlencode(await ann.follow(consent['url']))}"
        # Without the second request nothing is done: it may come from anywhere.
        first = await client.get(back)
        assert (first.status_code, "Go on" in first.text) == (200, True)
        ben = await app.auth.begin("work", Principal("ben"), redirect_uri=asked["redirect_uri"])
        given = urlencode(await ann.follow(ben.url))
        refused = await client.get(f"/callback?{given}&returned=1")
        assert (refused.status_code, "made for somebody else" in refused.text) == (403, True)
        nobody = httpx2.AsyncClient(base_url=client.base_url, timeout=PATIENCE)
        async with nobody:
            refused = await nobody.get(f"{back}&returned=1")
            assert refused.status_code == 403
        done = await client.get(f"{back}&returned=1&back=https://evil.example")
        assert (done.status_code, done.headers["location"]) == (303, "/console/sources/work")
        assert (await client.post("/sources/work/connect", headers=mark)).json()["connected"] is True
        unknown = await client.post("/sources/work/connect", headers=mark, json={"pause": "x"})
        assert unknown.status_code == 404
