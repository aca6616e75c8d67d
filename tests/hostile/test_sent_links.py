"""Links to a consent that are sent to somebody else: to use that person's account, or to give them one."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest
from starlette.requests import Request

import spindle
from servers.oauth import User
from servers.serving import listening_at
from spindle import Principal, Spindle
from spindle.domain.identity import LOCAL
from spindle.errors import AuthorizationRequired, ConfigurationError, PermissionDeniedError
from spindle.settings import Settings

ANN, MALLORY = Principal("ann"), Principal("mallory")


def user_of(request: Request) -> Principal | None:
    name = request.headers.get("x-user")
    return Principal(name) if name else None


@asynccontextmanager
async def serving(
    root: Path, guarded_url: str, *, knows_users: bool = False, **auth: str
) -> AsyncIterator[tuple[Spindle, str]]:
    """A workspace, and the address of the pages for its users' consents."""
    listening = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    source = {"url": guarded_url, "auth": {"type": "oauth", "provider": "Work & Co"}}
    raw: dict[str, Any] = {"sources": {"work": source}, "auth": {"redirect_uri": f"{base}/callback", **auth}}
    async with spindle.open(settings=Settings(root, raw)) as app:
        pages = spindle.callback_app(app, principal_of=user_of if knows_users else None)
        async with listening_at(pages, listening):
            yield app, base


@asynccontextmanager
async def browser() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


async def logins(app: Spindle) -> list[str]:
    return [info.principal for info in await app.auth.list("work")]


async def test_a_link_that_was_sent_to_somebody_else_gives_nothing_away(
    tmp_path: Path, guarded_url: str, ann: User
) -> None:
    async with serving(tmp_path, guarded_url) as (app, base), browser() as web:
        asked = await app.auth.begin("work", MALLORY)
        back = await ann.follow(asked.url)
        page = await web.get(f"{base}/callback?{urlencode(back)}")
        assert page.status_code == 403
        assert "made for somebody else" in page.text
        assert await logins(app) == []
        with pytest.raises(PermissionDeniedError, match="nothing shows that it is they"):
            await app.auth.complete(back["code"], back["state"], back["iss"])
        assert await logins(app) == []


async def test_an_application_says_who_comes_back(tmp_path: Path, guarded_url: str, ann: User) -> None:
    async with serving(tmp_path, guarded_url, knows_users=True) as (app, base), browser() as web:
        asked = await app.auth.begin("work", MALLORY)
        address = f"{base}/callback?{urlencode(await ann.follow(asked.url))}"
        assert (await web.get(address, headers={"x-user": "ann"})).status_code == 403
        assert (await web.get(address)).status_code == 403
        assert await logins(app) == []
        # The other way round: nobody fills in another's consent.
        asked = await app.auth.begin("work", ANN)
        address = f"{base}/callback?{urlencode(await ann.follow(asked.url))}"
        assert (await web.get(address, headers={"x-user": "mallory"})).status_code == 403
        assert (await web.get(address, headers={"x-user": "ann"})).status_code == 200
        assert await logins(app) == ["ann"]


async def test_the_owner_needs_no_proof_and_anyone_can_be_allowed(
    tmp_path: Path, guarded_url: str, ann: User
) -> None:
    for who, auth in ((LOCAL, {}), (MALLORY, {"consent": "anyone"})):
        async with serving(tmp_path / who.id, guarded_url, **auth) as (app, base), browser() as web:
            asked = await app.auth.begin("work", who)
            page = await web.get(f"{base}/callback?{urlencode(await ann.follow(asked.url))}")
            assert (page.status_code, await logins(app)) == (200, [who.id])


async def asked_by(app: Spindle, who: Principal) -> tuple[str, str]:
    """The link and the code that a user gets with a call."""
    with pytest.raises(AuthorizationRequired) as caught:
        await app.call("work.whoami", {}, spindle.CallOptions(principal=who))
    found = re.search(r"your code for the page is ([A-Z-]+)", caught.value.message)
    assert found is not None
    return caught.value.url, found[1]


async def typed(web: httpx2.AsyncClient, link: str, code: str) -> httpx2.Response:
    """What a user does at our page."""
    page = await web.get(link)
    assert page.status_code == 200
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    return await web.post(link.partition("?")[0], data={**fields, "code": code})


async def test_a_browser_is_known_again_after_the_code_was_typed(
    tmp_path: Path, guarded_url: str, ann: User
) -> None:
    async with serving(tmp_path, guarded_url, consent="browser") as (app, base), browser() as web:
        link, code = await asked_by(app, ANN)
        assert link.startswith(f"{base}/connect?ticket=")
        assert (await asked_by(app, ANN)) == (link, code)
        page = await web.get(link)
        assert "The user <strong>ann</strong> wants to use your account" in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert code not in page.text
        sent_on = await typed(web, link, code.lower().replace("-", " "))
        assert sent_on.status_code == 303
        back = await ann.follow(sent_on.headers["location"])
        page = await web.get(f"{base}/callback?{urlencode(back)}")
        assert (page.status_code, await logins(app)) == (200, ["ann"])
        assert (await web.get(link)).status_code == 400


async def test_the_way_around_the_page_leads_nowhere(tmp_path: Path, guarded_url: str, ann: User) -> None:
    async with serving(tmp_path, guarded_url, consent="browser") as (app, base), browser() as own:
        link, code = await asked_by(app, MALLORY)
        at_provider = (await typed(own, link, code)).headers["location"]
        async with browser() as web:
            # Ann follows the provider's own link, which Mallory took out of her browser.
            back = await ann.follow(at_provider)
            page = await web.get(f"{base}/callback?{urlencode(back)}")
            assert page.status_code == 403
            assert "not started in this browser" in page.text
            # A page of Mallory's sends the form from Ann's browser.
            ticket = urlsplit(link).query.removeprefix("ticket=")
            sent = {"ticket": ticket, "code": code, "mark": "guessed"}
            assert (await web.post(f"{base}/connect", data=sent)).status_code == 403
            assert not [name for name in web.cookies if name.startswith("spindle-consent")]
        assert await logins(app) == []


async def test_a_code_cannot_be_guessed(tmp_path: Path, guarded_url: str) -> None:
    async with serving(tmp_path, guarded_url, consent="browser") as (app, _), browser() as web:
        link, code = await asked_by(app, ANN)
        for _ in range(5):
            wrong = await typed(web, link, "BBBB-BBBB" if code != "BBBB-BBBB" else "CCCC-CCCC")
            assert wrong.status_code in (400, 403)
        assert (await web.get(link)).status_code == 400
        again, fresh = await asked_by(app, ANN)
        assert (again, fresh) != (link, code)


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"consent": "everybody"}, "must be one of user, browser, anyone"),
        ({"consent": "browser"}, "redirect_uri"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, auth: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        _ = Settings(tmp_path, {"auth": auth}).auth
