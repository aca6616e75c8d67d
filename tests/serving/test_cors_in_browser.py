"""A page of another origin calls the tools, in a real browser."""

from __future__ import annotations

import asyncio
import http.server
import threading
from pathlib import Path

import pytest

from servers.browser import running_browser
from servers.rest import RestWorkspace

CALL = """async ([url, token]) => {
    const sent = await fetch(url + "/tools/say", {
        method: "POST", body: JSON.stringify({text: "from a page"}),
        headers: {"Content-Type": "application/json", "Authorization": "Bearer " + token, "Mcp-Name": "x"}});
    const refused = await fetch(url + "/tools/say", {method: "POST", body: "{}",
        headers: {"Content-Type": "application/json"}});
    return [await sent.text(), refused.status, refused.headers.get("WWW-Authenticate")];
}"""


@pytest.mark.browser
def test_a_page_of_an_allowed_origin_calls_and_another_does_not(rest: RestWorkspace, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("<!doctype html><title>x</title>")
    asyncio.run(_tried(rest, pages))


async def _tried(rest: RestWorkspace, pages: Path) -> None:
    def handler(*given: object) -> http.server.SimpleHTTPRequestHandler:
        return http.server.SimpleHTTPRequestHandler(*given, directory=str(pages))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:  # type: ignore[arg-type]
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = web.server_address[1]
        rest.settings(
            f'[serve]\nauth_token = "a-token-of-a-page"\nallowed_origins = ["http://127.0.0.1:{port}"]'
        )
        with rest.serve() as served:
            async with running_browser() as browser:
                page = await browser.new_page()
                await page.goto(f"http://127.0.0.1:{port}/")
                told = await page.evaluate(CALL, [served.url, "a-token-of-a-page"])
                assert told == ["from a page", 401, 'Bearer realm="spindle"']
                await page.goto(f"http://localhost:{port}/")
                with pytest.raises(Exception, match="Failed to fetch"):
                    await page.evaluate(CALL, [served.url, "a-token-of-a-page"])
        web.shutdown()
