"""Access, health and settings in a real Chromium."""

from __future__ import annotations

import httpx2
import pytest

from servers.console import Scheme, axe, console_browser, fits, picture
from servers.rest import RestWorkspace
from servers.running import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.npm]

PAGES = (
    "/access", "/access/group", "/access/group?name=analysts", "/access/tokens", "/access/matrix",
    "/access/quotas",
    "/tools?group=support", "/health", "/health/settings?defaults=1",
)  # fmt: skip
SETTINGS = """
[serve]
instruction = "<script>alert(1)</script><style>body{display:none}</style> \\u202Egnihton"

[serve.groups.guest]
exposed_tools = ["hello"]

[serve.groups.support]
exposed_tools = ["say", "hello", "<img src=x onerror=alert(2)>*"]

[sources.gone]
url = "http://127.0.0.1:9/mcp?key=a-secret"

[retention.calls]
age = "30d"
"""


def prepared(rest: RestWorkspace) -> None:
    rest.settings(SETTINGS)
    rest.json("group", "set", "analysts", "--exclude", "say", "--json")


async def test_a_group_is_made_a_token_shown_once_used_and_revoked(rest: RestWorkspace) -> None:
    prepared(rest)
    async with console_browser(rest) as console:
        page = await console.page("/access")
        await page.get_by_text("Everybody on this machine comes in without a token").wait_for()
        # By keyboard alone, from the button to the new line in the list.
        await page.get_by_role("link", name="New group").focus()
        await page.keyboard.press("Enter")
        await page.get_by_label("Name", exact=True).fill("bots")
        await page.get_by_label("Tools that it sees").fill("sa*\nhello")
        await page.get_by_role("button", name="Make the group").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/access")
        await page.get_by_role("row", name="bots").get_by_text("2 of").wait_for()
        await page.get_by_role("link", name="See as bots").click()
        await page.get_by_text("as somebody in bots does").wait_for()
        assert await page.locator("tr[data-row]").count() == 2
        await page.goto("/console/access/matrix")
        row = page.get_by_role("row", name="hello")
        await row.get_by_label("sees it").first.wait_for()

        await page.goto("/console/access/tokens")
        await page.get_by_label("Name", exact=True).fill("bot-1")
        await page.get_by_label("Groups").fill("bots")
        await page.get_by_role("button", name="Make the token").click()
        token = await page.locator("[data-shown] pre", has_text="spt_").text_content() or ""
        await page.get_by_role("row", name="bot-1").get_by_text("good").wait_for()
        assert await axe(page) == []
        await picture(page, "token")
        await page.get_by_role("button", name="I have it").click()
        assert token not in await page.content()
        await page.reload()
        assert token not in await page.content()

        def called(name: str) -> int:
            sent = {"Authorization": f"Bearer {token}"}
            url = f"{console.served.url}/tools/{name}"
            return httpx2.post(url, json={"text": "x"}, headers=sent, timeout=PATIENCE).status_code

        assert (called("say"), called("echo")) == (200, 404)
        await page.get_by_role("button", name="Revoke bot-1").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await page.get_by_role("row", name="bot-1").get_by_text("revoked").wait_for()
        assert called("say") == 401


async def test_health_is_examined_and_settings_say_where_they_come_from(rest: RestWorkspace) -> None:
    prepared(rest)
    async with console_browser(rest) as console:
        page = await console.page("/health")
        await page.get_by_role("button", name="Examine everything").click()
        await page.locator("#examined").get_by_text("cannot reach").wait_for()
        await page.goto("/console/health/settings")
        await page.get_by_role("row", name="retention.calls.age").get_by_text("spindle.toml:15").wait_for()
        shown = await page.locator("main").text_content() or ""
        assert "<script>alert(1)" in shown
        assert "a-secret" not in shown
        assert "\u202e" not in shown
        assert await page.locator("main script, main style, main img").count() == 0
        schemes: tuple[Scheme, ...] = ("light", "dark")
        for scheme in schemes:
            page = await console.page(scheme=scheme, width=1920 if scheme == "dark" else 360)
            for path in PAGES:
                await page.goto(f"/console{path}")
                assert await axe(page) == [], (path, scheme)
                assert await fits(page), (path, scheme)


async def test_a_quota_is_made_changed_and_removed(rest: RestWorkspace) -> None:
    prepared(rest)
    async with console_browser(rest) as console:
        page = await console.page("/access/quotas")
        await page.get_by_text("There are no quotas.").wait_for()
        await page.get_by_label("Name", exact=True).fill("slow")
        await page.get_by_label("Calls, such as").fill("often")
        await page.get_by_role("button", name="Make the quota").click()
        await page.get_by_text("is not a rate").wait_for()
        await page.get_by_label("Calls, such as").fill("100/hour")
        await page.get_by_label("Groups").fill("analysts support")
        await page.get_by_role("button", name="Make the quota").click()
        row = page.get_by_role("row", name="slow")
        await row.get_by_text("100 calls an hour").wait_for()
        await picture(page, "quotas")
        await row.get_by_role("link", name="Edit slow").click()
        assert await page.get_by_label("Groups").input_value() == "analysts support"
        await page.get_by_label("Calls at once").fill("2")
        await page.get_by_role("button", name="Save the quota").click()
        await row.get_by_text("100 calls an hour, 2 at once").wait_for()
        (made,) = rest.json("quota", "list", "--json")
        assert (made["concurrency"], made["groups"]) == (2, ["analysts", "support"])
        await row.get_by_role("button", name="Remove slow").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await page.get_by_text("There are no quotas.").wait_for()
        console.problems[:] = [said for said in console.problems if "status of 4" not in said]
