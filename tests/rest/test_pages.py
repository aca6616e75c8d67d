"""The pages of the REST API: what anybody sees, and a call through the page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from servers.browser import PATIENCE, running_browser
from servers.rest import RestWorkspace, Served

TOKEN = "tok-3n-of-many-letters"
HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def closed(rest: RestWorkspace):
    rest.settings('[serve]\nauth_token_env = "TOKEN"\n')
    with rest.serve(token=TOKEN, TOKEN=TOKEN) as running:
        yield running


def anonymous(served: Served, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{served.url}{path}", headers=headers, timeout=120)


def test_pages_need_no_token_and_hold_nothing_of_the_catalog(closed: Served) -> None:
    front = anonymous(closed, "/")
    assert front.json() == {
        "name": "Spindle",
        "about": "This server lets programs call the tools of one workspace over HTTP."
        " A tool is called by POST /tools/NAME with its arguments as JSON.",
        "docs": "/docs",
        "openapi": "/openapi.json",
        "utcp": "/utcp",
        "wants_token": True,
    }
    texts = [
        anonymous(closed, path, **HTML).text for path in ("/", "/docs", "/docs/docs.js", "/docs/docs.css")
    ]
    assert "try the tools" in texts[0]
    for text in texts:
        assert not re.search(r"\b(grow|wait_for|Say it as text)\b", text)
        # Nothing is loaded from elsewhere, and no text becomes markup.
        assert not re.search(r"https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    # What is of the catalog, and every call, still wants the token.
    assert anonymous(closed, "/openapi.json").status_code == 401
    assert httpx2.post(f"{closed.url}/tools/hello", timeout=120).status_code == 401
    assert httpx2.post(f"{closed.url}/docs", timeout=120).status_code == 401
    assert anonymous(closed, "/docs/../openapi.json").status_code == 401
    assert anonymous(closed, "/docs/nothing").status_code == 401


def test_pages_keep_to_the_other_rules(closed: Served) -> None:
    policy = anonymous(closed, "/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert anonymous(closed, "/docs", host="evil.example").status_code == 421
    assert anonymous(closed, "/docs", origin="https://evil.example").status_code == 403
    assert anonymous(closed, "/docs/").status_code == 307


@pytest.mark.browser
async def test_a_tool_is_called_through_the_page(rest: RestWorkspace, tmp_path: Path) -> None:
    hostile = (
        'from spindle import tool\n@tool\ndef evil(text: str):\n    """<img src=x onerror=alert(1)>"""\n'
    )
    (rest.root / "tools" / "evil.py").write_text(hostile)
    rest.settings('[serve]\nauth_token_env = "TOKEN"\n')
    with rest.serve(TOKEN=TOKEN) as served:
        async with running_browser() as browser:
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(PATIENCE)
            problems: list[str] = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("dialog", lambda dialog: problems.append(dialog.message))
            await page.goto(f"{served.url}/docs")
            await page.get_by_role("heading", name="This server wants a token.").wait_for()
            await page.get_by_label("Token").fill("wrong")
            await page.get_by_role("button", name="Use").click()
            await page.get_by_role("heading", name="does not accept this token").wait_for()
            await page.get_by_label("Token").fill(TOKEN)
            await page.get_by_role("button", name="Use").click()
            await page.get_by_role("link", name="evil").click()
            assert await page.get_by_text("<img src=x onerror=alert(1)>").count() >= 1
            await page.get_by_label("Search tools").fill("give everything")
            await page.get_by_text("1 of 10 tools").wait_for()
            await page.get_by_role("link", name="echo").click()
            # A required field, a number that is none, then a call with types kept.
            await page.get_by_role("button", name="Call").click()
            await page.get_by_text("This is required.").wait_for()
            await page.get_by_label("text").fill("hällo <b>")
            await page.get_by_label("count").fill("many")
            await page.get_by_role("button", name="Call").click()
            await page.get_by_text("This must be a number.").wait_for()
            await page.get_by_label("count").fill("3")
            await page.get_by_label("tags").fill('["a"]')
            await page.get_by_role("tab", name="JSON").click()
            value = await page.get_by_label("Arguments as JSON").input_value()
            assert value == '{\n  "text": "hällo <b>",\n  "count": 3,\n  "tags": [\n    "a"\n  ]\n}'
            await page.get_by_role("button", name="Call").click()
            await page.get_by_text("Done").wait_for()
            shown = await page.locator("pre").first.text_content()
            assert shown is not None
            assert '"text": "hällo <b>"' in shown
            assert '"count": 3' in shown
            # A failure says what to do, and an address leads to a tool.
            # It is the same page, so the token is still there; to give it again would make the form anew.
            await page.goto(f"{served.url}/docs#fail")
            await page.get_by_label("why").fill("because")
            await page.get_by_role("button", name="Call").click()
            await page.get_by_text("Status 422").wait_for()
            assert await page.get_by_text("because").count() >= 1
            assert problems == []
