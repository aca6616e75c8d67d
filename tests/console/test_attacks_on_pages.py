"""Whoever may see nothing, brings another server's cookie, has no mark, or gives things hostile names: every
screen, by its address."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from servers.signed_in import signed_in
from spindle import CallOptions, Principal
from spindle.console.screens import SCREENS
from spindle.rest import runs_document
from spindle.serving import admin_document

TOOLS = """
from spindle import tool

@tool(tags=["secret-tag"])
def secret_tool(word: str) -> str:
    "Says secret words."
    return f"secret {word}"

@tool(destructive=True)
def secret_order(name: str) -> str:
    "Orders secret things."
    return name
"""
FLOW = "description: a secret flow\nnodes:\n- {id: say, tool: secret_tool, params: {word: secret-param}}\n"
SETTINGS = '[sources.secret-source]\nkind = "python"\npath = "secret_tools"\napprove = "secret_order"\n'
TOKEN = "blind-and-many-letters"
BLIND: dict[str, Any] = {
    "tokens": {"blind": {"token": TOKEN, "groups": ["none"]}},
    "groups": {"none": {"exposed_tools": []}, "secret-group": {}},
}
NAMES = (
    "secret_tool", "secret_order", "secret-source", "secret-tag", "secret-group", "secret-flow",
    "Says secret", "a secret flow", "secret-param", "secret-thing",
)  # fmt: skip
QUERIES = (
    "q=secret", "source=secret-source", "tag=secret-tag", "group=secret-group", "hint=destructive",
    "who=local", "tool=secret_tool", "name=secret-flow", "status=paused", "kind=flow",
)  # fmt: skip
PARTS = (None, "section#list", "div#overview", "div#found", "main#main")


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A workspace of whose things all names have the same word."""
    for name, text in (
        ("secret_tools/t.py", TOOLS),
        ("flows/secret-flow.yaml", FLOW),
        ("spindle.toml", SETTINGS),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


async def test_whoever_may_see_nothing_learns_nothing_by_any_address(secrets: Path) -> None:
    async with signed_in(secrets, BLIND, token=TOKEN) as (app, client, mark):
        await app.call("secret_tool", word="x")
        await app.call("secret-flow")
        await app.run("secret_order", name="secret-thing")
        (pause,) = await app.pauses()
        known = {
            "/tools/{name}": "secret_tool", "/tools/{name}/try": "secret_tool",
            "/sources/{name}": "secret-source", "/calls/{key}": (await app.history())[0].key,
            "/waiting/{token}": pause.token, "/runs/{id}": pause.run_id, "/runs/{id}/compare": pause.run_id,
            "/flows/{file:path}": "secret-flow.yaml", "/flows/{file:path}/edit": "secret-flow.yaml",
        }  # fmt: skip
        for screen in SCREENS:
            real = known.get(screen.path, "")
            names = (real, "".join(reversed(real))) if real else ("",)
            for part in PARTS:
                shown = [await _page(client, screen.path, name, part) for name in names]
                # What is hidden is as what is not there.
                assert len(set(shown)) == 1, (screen.path, part)
                status, text = shown[0]
                assert (status == 403) == screen.admin, (screen.path, part)
                assert "secret" not in text.lower(), (screen.path, part)
        for query in QUERIES:
            for path in ("", "/find", "/tools", "/calls", "/runs", "/flows", "/sources", "/waiting"):
                text = (await client.get(f"/console{path}?{query}")).text
                # The page may say again what was asked for.
                assert [name for name in NAMES if name in text and name not in query] == [], (path, query)
        for path in (
            f"/runs/{pause.run_id}",
            f"/runs/{pause.run_id}/trace",
            "/admin/v1/sources",
            "/admin/v1/tokens",
        ):
            answer = await client.get(path)
            assert answer.status_code in (403, 404), path
            assert "secret" not in answer.text, path
        assert (await client.get("/pauses")).json() == {"waiting": [], "answered": []}
        assert (await client.get("/runs")).json()["runs"] == []
        for body in ({"answer": True}, {"refused": "no"}):
            refused = await client.post(f"/pauses/{pause.token}", json=body, headers=mark)
            assert refused.status_code == 404
        assert [one.token for one in await app.pauses()] == [pause.token]


async def _page(client: httpx2.AsyncClient, path: str, name: str, part: str | None) -> tuple[int, str]:
    """What a page says, without the name that was asked for, and what is new in every answer."""
    headers = {} if part is None else {"hx-request": "true", "hx-target": part}
    answer = await client.get(f"/console{re.sub(r'{.*?}', name, path)}?with={name}", headers=headers)
    text = answer.text.replace(name, "*") if name else answer.text
    return answer.status_code, re.sub(r'nonce="[^"]+"|name="live" content="[^"]*"', "", text)


async def test_every_change_is_refused_without_the_mark_of_its_page(secrets: Path) -> None:
    async with signed_in(secrets) as (app, client, mark):
        before = await app.store.access_version(), (secrets / "spindle.toml").read_text()
        paths = {
            **admin_document.document()["paths"],
            **runs_document.document("", wants_token=True)["paths"],
        }
        changes = [
            (method.upper(), re.sub(r"\{.*?\}", "secret_tool", path))
            for path, item in paths.items()
            for method in item
            if method in ("post", "put", "patch", "delete")
        ]
        assert len(changes) > 15
        for method, path in (*changes, ("POST", "/tools/secret_tool"), ("POST", "/console/leave")):
            for headers in ({}, {"x-spindle-csrf": ""}, {"x-spindle-csrf": mark["x-spindle-csrf"][::-1]}):
                for origin in ({}, {"origin": str(client.base_url).rstrip("/")}, {"origin": "null"}):
                    answer = await client.request(method, path, json={}, headers={**headers, **origin})
                    assert answer.status_code == 403, (method, path, headers, origin)
        assert await app.history() == []
        assert (await app.store.access_version(), (secrets / "spindle.toml").read_text()) == before


async def test_a_cookie_of_another_server_lets_nobody_in(
    secrets: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "spindle.toml").write_text("")
    async with signed_in(secrets) as (_, client, mark), signed_in(other) as (_, elsewhere, _):
        ((own, _),) = client.cookies.items()
        ((foreign, value),) = elsewhere.cookies.items()
        assert own != foreign
        for cookie in (
            f"{foreign}={value}",
            f"{own}={value}",
            f"{own}=; {own}={value}",
            f"__Host-{own}={value}",
        ):
            async with httpx2.AsyncClient(base_url=client.base_url) as stranger:
                page = await stranger.get("/console/tools", headers={"cookie": cookie})
                assert (page.status_code, page.headers["location"]) == (
                    303,
                    "/console/enter?next=%2Fconsole%2Ftools",
                )
                live = await stranger.get("/console/live", headers={"cookie": cookie})
                assert live.status_code == 401
                called = await stranger.get(
                    "/console", headers={"cookie": cookie, "hx-request": "true", **mark}
                )
                assert called.status_code == 401


async def test_of_two_who_answer_at_once_one_counts_and_the_other_hears_whose(secrets: Path) -> None:
    async with signed_in(secrets) as (app, client, mark):
        await app.run("secret_order", name="a")
        (pause,) = await app.pauses()
        answers = [{"answer": True}, {"refused": "no"}, {"answer": True}, {"refused": "never"}]
        said = await asyncio.gather(
            *(client.post(f"/pauses/{pause.token}", json=answer, headers=mark) for answer in answers)
        )
        assert sorted(one.status_code for one in said) == [200, 422, 422, 422]
        late = [one.json()["message"] for one in said if one.status_code != 200]
        assert all("was answered before, by the owner" in message for message in late), late
        assert ">Approve<" not in (await client.get(f"/console/waiting/{pause.token}")).text


BAD = "<img src=x onerror=alert(1)>\"'><script>\u202e{{ 7*7 }}"


HOSTILE_TOOLS = f"""
from spindle import tool

@tool(tags=[{BAD!r}])
def bad(text: str = {BAD!r}) -> str:
    {BAD!r}
    raise ValueError(text)

@tool
def wait(text: str) -> str:
    {BAD!r}
    return text
"""


async def test_hostile_names_stay_text_on_every_screen(tmp_path: Path) -> None:
    flow = "<img src=x onerror=alert(1)>{{ 7*7 }}.yaml"
    described = (
        f"description: {json.dumps(BAD)}\nnodes:\n- {{id: say, transform: {{a: {json.dumps(BAD)}}}}}\n"
    )
    files = {
        "tools/t.py": HOSTILE_TOOLS,
        f"flows/{flow}": described,
        "spindle.toml": '[sources.tools]\napprove = "wait"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    mallory = CallOptions(principal=Principal(BAD, frozenset({BAD})))
    async with signed_in(tmp_path) as (app, client, mark):
        assert (await app.call("bad", {"text": BAD}, mallory)).is_error
        await app.run("wait", {"text": BAD}, mallory)
        named, lists = quote(BAD, safe=""), {"exposed_tools": [BAD], "excluded_tools": [f"{BAD}*"]}
        for method, path, body in (
            ("PUT", f"/admin/v1/groups/{named}", lists),
            (
                "PUT",
                f"/admin/v1/quotas/{named}",
                {"calls": "5/minute", "users": [BAD], "groups": [BAD], "tools": [BAD]},
            ),
            ("POST", "/admin/v1/tokens", {"name": BAD, "user": BAD, "groups": [BAD]}),
            ("PUT", "/admin/v1/groups/plain", lists),
            ("PUT", "/admin/v1/quotas/plain", {"calls": "5/minute", "users": [BAD], "tools": [BAD]}),
            ("POST", "/admin/v1/tokens", {"name": "plain", "user": BAD, "groups": ["plain"]}),
        ):
            answer = await client.request(method, path, json=body, headers=mark)
            assert answer.status_code < 500, answer.text
        (pause,) = await app.pauses()
        known = {
            "/tools/{name}": "bad", "/tools/{name}/try": "bad", "/sources/{name}": "tools",
            "/calls/{key}": (await app.history())[-1].key, "/waiting/{token}": pause.token,
            "/runs/{id}": pause.run_id, "/runs/{id}/compare": pause.run_id,
            "/flows/{file:path}": quote(flow), "/flows/{file:path}/edit": quote(flow),
        }  # fmt: skip
        shown = 0
        for screen in SCREENS:
            path = re.sub(r"\{.*?\}", lambda _, screen=screen: known[screen.path], screen.path)
            for query in (
                "",
                f"?q={named}&name={named}&tool={named}&who={named}&with={pause.run_id}&before={named}&source={named}",
            ):
                page = await client.get(f"/console{path}{query}")
                assert page.status_code < 500, path
                for text in ("<img", "<script>", "\u202e", 'onerror=alert(1)>"', ">49"):
                    assert text not in page.text, (path, query, text)
                shown += "&lt;img src=x" in page.text
        assert shown > 20
