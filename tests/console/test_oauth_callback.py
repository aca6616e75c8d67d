"""The page that users come back to, mounted in FastAPI, with a real provider behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
from fastapi import FastAPI, Request

import spindle
from servers.oauth import User
from servers.running import PATIENCE
from spindle import CallOptions, Finished, Paused, Principal
from spindle.domain.identity import LOCAL
from spindle.settings import Settings

ANN = Principal("ann")


@asynccontextmanager
async def opened(root: Path, url: str) -> AsyncIterator[spindle.Spindle]:
    sources = {"work": {"url": url, "auth": {"type": "oauth", "provider": "Work & Co"}}}
    settings = Settings(
        root, {"sources": sources, "auth": {"redirect_uri": "http://127.0.0.1/oauth/callback"}}
    )
    async with spindle.open(settings=settings) as app:
        yield app


def user_of(request: Request) -> Principal | None:
    name = request.headers.get("x-user")
    return Principal(name) if name else None


def browser(app: spindle.Spindle, *, checked: bool = True) -> httpx2.AsyncClient:
    web = FastAPI()
    web.mount("/oauth", spindle.callback_app(lambda: app, principal_of=user_of if checked else None))
    transport = httpx2.ASGITransport(app=web)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers={"x-user": "ann"})


async def ended(app: spindle.Spindle, run: str) -> str:
    """How the run ended, which goes on in the background."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await app.store.run(run)
            assert found is not None
            if found.status not in ("paused", "running"):
                return found.status
            await asyncio.sleep(0)


@pytest.mark.parametrize("checked", [True, False])
async def test_coming_back_completes_the_consent_and_goes_on(
    tmp_path: Path, guarded_url: str, ann: User, checked: bool
) -> None:
    async with opened(tmp_path, guarded_url) as app, browser(app, checked=checked) as web:
        # Where nobody says who comes back, the owner's own consent is the only one.
        who = ANN if checked else LOCAL
        paused = await app.run("work.whoami", {}, CallOptions(principal=who))
        assert isinstance(paused, Paused)
        given = await ann.follow(paused.pauses[0].details["url"])
        page = await web.get(f"/oauth/callback?{urlencode(given)}")
        assert page.status_code == 200
        assert "Work &amp; Co is connected" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "no-referrer"
        assert await ended(app, paused.run_id) == "done"
        done = await app.resume(paused.run_id)
        assert isinstance(done, Finished)
        assert '"subject": "ann"' in done.result.text
        again = await web.get(f"/oauth/callback?{urlencode(given)}")
        assert again.status_code == 400
        assert "works once" in again.text


async def test_a_user_who_says_no_ends_the_run(tmp_path: Path, guarded_url: str, ann: User) -> None:
    async with opened(tmp_path, guarded_url) as app, browser(app) as web:
        paused = await app.run("work.whoami", {}, CallOptions(principal=ANN))
        assert isinstance(paused, Paused)
        given = await ann.follow(paused.pauses[0].details["url"], say="no")
        page = await web.get(f"/oauth/callback?{urlencode(given)}")
        assert (page.status_code, "Not connected" in page.text) == (200, True)
        assert await ended(app, paused.run_id) == "failed"


@pytest.mark.parametrize(
    ("user", "status", "said"),
    [("eve", 403, "made for somebody else"), ("", 403, "Log in, and follow the link again")],
)
async def test_nobody_else_can_complete_it(
    tmp_path: Path, guarded_url: str, ann: User, user: str, status: int, said: str
) -> None:
    async with opened(tmp_path, guarded_url) as app, browser(app) as web:
        asked = await app.auth.begin("work", ANN)
        given = await ann.follow(asked.url)
        page = await web.get(f"/oauth/callback?{urlencode(given)}", headers={"x-user": user})
        assert (page.status_code, said in page.text) == (status, True)
        # The link is still good for the one it was made for.
        page = await web.get(f"/oauth/callback?{urlencode(given)}")
        assert page.status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=x",
        "state=",
        "state=" + "x" * 5000,
        "state=%3Cscript%3E&code=1",
        "state=unknown&error=%3Cb%3E",
    ],
)
async def test_a_link_that_is_none_is_answered_with_a_page(
    tmp_path: Path, guarded_url: str, query: str
) -> None:
    async with opened(tmp_path, guarded_url) as app, browser(app) as web:
        page = await web.get(f"/oauth/callback?{query}")
    assert page.status_code == 400
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "<b>" not in page.text
