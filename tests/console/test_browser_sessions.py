"""The way into the console: a link that works once, a cookie, and the mark of every change, against a real
`spindle serve`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import httpx2
import pytest

from servers.rest import RestWorkspace, Served

HTML = {"accept": "text/html"}


class Consoled(NamedTuple):
    """A server with a console."""

    served: Served
    rest: RestWorkspace

    def link(self) -> str:
        """Makes a link from another process."""
        made = self.rest.spindle("console", "--server", self.served.url)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def code(self) -> str:
        return self.link().partition("#")[2]


def browser(served: Served) -> httpx2.Client:
    return httpx2.Client(base_url=served.url, timeout=120, headers=HTML)


def enter(client: httpx2.Client, **form: str) -> httpx2.Response:
    origin = str(client.base_url).rstrip("/")
    return client.post("/console/enter", data=form, headers={"origin": origin})


@pytest.fixture(scope="module")
def consoled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consoled]:
    rest = RestWorkspace(tmp_path_factory.mktemp("consoled") / "rest")
    rest.settings("[serve]\nconsole = true\n")
    with rest.serve() as running:
        yield Consoled(running, rest)


def test_a_link_from_the_shell_signs_in_once(consoled: Consoled) -> None:
    link = consoled.link()
    assert link.startswith(f"{consoled.served.url}/console/enter#")
    code = link.partition("#")[2]
    with browser(consoled.served) as client, browser(consoled.served) as other:
        # Without a session there is only the way in, though this server wants no token.
        refused = client.get("/console/tools?q=x")
        assert (refused.status_code, refused.headers["location"]) == (
            303, "/console/enter?next=%2Fconsole%2Ftools%3Fq%3Dx",
        )  # fmt: skip
        assert client.get("/console", headers={"hx-request": "true"}).status_code == 401
        assert client.get("/console/live").status_code == 401
        page = client.get("/console/enter")
        assert "Sign in" in page.text
        assert "hello" not in page.text

        entered = enter(client, code=code, next="/console/tools")
        assert (entered.status_code, entered.headers["location"]) == (303, "/console/tools")
        cookie = entered.headers["set-cookie"]
        assert re.match(
            r"spindle-[0-9a-f]+=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$", cookie
        )
        shown = client.get("/console/tools")
        assert shown.status_code == 200
        assert "What can I call?" in shown.text
        assert ">hello</a>" in shown.text

        again = enter(other, code=code)
        assert again.status_code == 403
        assert "used before" in again.text
        assert "set-cookie" not in again.headers


def test_every_change_carries_the_mark_of_its_page(consoled: Consoled) -> None:
    with browser(consoled.served) as client:
        enter(client, code=consoled.code())
        page = client.get("/console").text
        found = re.search(r'name="csrf" content="(\w{32})"', page)
        assert found is not None
        mark = {"x-spindle-csrf": found[1]}
        # A page of another site can have the browser send its cookie, but not the mark.
        for path in ("/tools/echo", "/admin/v1/sources/tools/sync"):
            refused = client.post(path, json={"text": "x"})
            assert refused.status_code == 403, path
            assert "does not come from a page" in refused.json()["message"]
        assert (
            client.post("/tools/echo", json={"text": "x"}, headers={"x-spindle-csrf": "0" * 32}).status_code
            == 403
        )
        assert client.post("/tools/echo", json={"text": "x"}, headers=mark).json()["text"] == "x"
        # The owner is an administrator, whom the same server lets in with no token otherwise.
        assert client.get("/admin/v1/sources").status_code == 200
        assert client.post("/admin/v1/sources/tools/sync", headers=mark).status_code == 200

        assert client.post("/console/leave").status_code == 403
        left = client.post("/console/leave", headers=mark)
        assert left.headers["set-cookie"].startswith(next(iter(client.cookies.keys()), "spindle-"))
        assert "Max-Age=0" in left.headers["set-cookie"]


def test_a_session_that_was_left_is_over_for_everybody_who_kept_the_cookie(consoled: Consoled) -> None:
    with browser(consoled.served) as client, browser(consoled.served) as thief:
        enter(client, code=consoled.code())
        for name, value in client.cookies.items():
            thief.cookies.set(name, value)
        found = re.search(r'name="csrf" content="(\w{32})"', client.get("/console").text)
        assert found is not None
        assert thief.get("/console").status_code == 200
        client.post("/console/leave", headers={"x-spindle-csrf": found[1]})
        assert thief.get("/console").status_code == 303


def test_a_form_of_another_site_signs_nobody_in(consoled: Consoled) -> None:
    code = consoled.code()
    with browser(consoled.served) as client:
        for headers in ({"origin": "https://evil.example"}, {}, {"origin": "null"}):
            refused = client.post("/console/enter", data={"code": code}, headers=headers)
            assert refused.status_code == 403, headers
        assert client.get("/console", headers={"host": "evil.example"}).status_code == 421
        assert enter(client, code="0" * 43).status_code == 403
        assert enter(client, code="x" * 20_000).status_code == 413
        assert enter(client, token="anything").status_code == 403


ELSEWHERE = (
    "https://evil.example/", "https://evil.example/console/tools", "//evil.example", "//evil.example/console",
    "/\\evil.example", "\\\\evil.example", "/console\\evil", "/console/\\evil.example", "/%2fevil.example",
    "%2f%2fevil.example", "/%5cevil.example", "/consoles", "/console@evil.example", "/console.evil.example",
    "/docs", "console/tools", " /console", "/console/\r\nx: y", "/console/\t//evil.example",
    "javascript:alert(1)", "/console/\u2028", "/console/" + "x" * 2000,
)  # fmt: skip
"""Addresses that no link leads to after signing in."""


def test_whoever_signs_in_goes_on_with_a_page_of_the_console_alone(consoled: Consoled) -> None:
    with browser(consoled.served) as client:
        for further in ELSEWHERE:
            shown = client.get("/console/enter", params={"next": further})
            assert 'name="next" value="/console"' in shown.text, further
        entered = enter(client, code=consoled.code(), next="//evil.example")
        assert (entered.status_code, entered.headers["location"]) == (303, "/console")
        for further in ELSEWHERE:  # nor somebody who is in already
            gone = client.get("/console/enter", params={"next": further})
            assert (gone.status_code, gone.headers["location"]) == (303, "/console"), further
        # Whatever stands behind the first part, also encoded, is a path of this server.
        for further in (
            "/console/tools?q=a%2Fb",
            "/console/%2f%2fevil.example",
            "/console?next=//evil.example",
        ):
            gone = client.get("/console/enter", params={"next": further})
            assert gone.headers["location"] == further


def test_pages_run_nothing_but_their_own_scripts(consoled: Consoled) -> None:
    with browser(consoled.served) as client:
        enter(client, code=consoled.code())
        first, second = client.get("/console"), client.get("/console")
        policies = [page.headers["content-security-policy"] for page in (first, second)]
        assert policies[0] != policies[1]  # a nonce of its own
        for page, policy in zip((first, second), policies, strict=True):
            assert policy.startswith("default-src 'none'; script-src 'nonce-")
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert page.headers["cache-control"] == "no-store"
            assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|javascript:|https?://", page.text)
        files = set(re.findall(r'"(/console/static/[^"?]+)', first.text))
        assert len(files) >= 5
        for file in files:
            answer = client.get(file)
            assert answer.status_code == 200, file
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get("/console/static/../app.py").status_code in (303, 404)
        assert client.get("/console/static/%2e%2e/app.py").status_code == 404
        missing = client.get("/console/nothing")
        assert missing.status_code == 404
        assert "there is no such page" in missing.text


def test_a_user_with_a_token_sees_their_own_tools_until_it_is_revoked(rest: RestWorkspace) -> None:
    rest.settings(
        '[serve]\nconsole = true\n[serve.tokens.ann]\ntoken = "ann-and-many-letters"\ngroups = ["few"]\n'
        '[serve.groups.few]\nexposed_tools = ["hello"]\n'
    )
    with rest.serve(token="ann-and-many-letters") as served, browser(served) as client:
        assert "Or show your token" in client.get("/console/enter").text
        assert enter(client, token="wrong").status_code == 403
        assert enter(client, token="ann-and-many-letters").status_code == 303
        page = client.get("/console/tools").text
        assert ">hello</a>" in page
        assert "wait_for" not in page
        assert "administrator" not in page
        assert client.get("/console/find?q=wait").text.count("wait_for") == 0
        assert client.get("/admin/v1/sources").status_code == 403
        text = (rest.root / "spindle.toml").read_text("utf-8")
        (rest.root / "spindle.toml").write_text(text.replace("ann-and-many", "bob-and-many"), "utf-8")
        # Settings are read again with a request, at most once a second.
        for _ in range(600):
            if client.get("/console/tools").status_code == 303:
                break
            time.sleep(0.1)
        assert client.get("/console/tools").status_code == 303


def test_there_is_no_console_unless_it_is_wanted(rest: RestWorkspace) -> None:
    with rest.serve() as served, browser(served) as client:
        assert client.get("/console").status_code == 404
        assert client.get("/console/enter").status_code == 404
