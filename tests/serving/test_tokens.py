"""Tokens, groups and quotas of administrators: by the shell and the API, in force in servers that run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess
from spindle.serving.administration import Administration, Administrator
from spindle.serving.shared_access import SharedAccess
from spindle.stores.sqlite import SqliteStore


def as_(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def made(rest: RestWorkspace, *words: str) -> str:
    done = rest.spindle("token", "create", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline


def status(served: Served, token: str, tool: str = "say", **arguments: Any) -> int:
    arguments = arguments or {"text": "x"}
    return served.client.post(f"/tools/{tool}", json=arguments, headers=as_(token)).status_code


def test_a_token_is_good_at_once_and_good_for_nothing_once_it_is_revoked(rest: RestWorkspace) -> None:
    first = made(rest, "ci", "--user", "ann@example.com", "--group", "staff")
    assert first.startswith("spt_")
    with rest.serve() as served:
        assert served.call("say", text="x").status_code == 401
        assert status(served, first) == 200
        later = made(rest, "later")
        assert status(served, later) == 200
        assert rest.spindle("token", "revoke", "ci").returncode == 0
        wait_until(lambda: status(served, first) == 401)
        assert status(served, later) == 200
        rest.spindle("token", "revoke", "later")
        wait_until(lambda: status(served, later) == 401)
        assert served.call("say", text="x").status_code == 401  # and nobody is let in without one
        served.stop()
    listed = {token["name"]: token for token in rest.json("token", "list", "--json")}
    assert (listed["ci"]["state"], listed["ci"]["user"]) == ("revoked", "ann@example.com")
    assert first not in str(listed)
    raw = (rest.root / ".spindle" / "state.db").read_bytes()
    assert first.encode() not in raw
    calls = rest.json("history", "--json", "--limit", "10000")
    assert {call["principal"] for call in calls} == {"ann@example.com", "later"}
    changes = [
        (entry["action"], entry["target"]) for entry in rest.json("audit", "--json", "--action", "token")
    ]
    assert changes[::-1] == [
        ("token.create", "ci"),
        ("token.create", "later"),
        ("token.revoke", "ci"),
        ("token.revoke", "later"),
    ]


def test_a_token_expires(rest: RestWorkspace) -> None:
    short = made(rest, "short", "--expires", "0.2s")
    with rest.serve() as served:
        wait_until(lambda: status(served, short) == 401)
    assert rest.json("token", "list", "--json")[0]["state"] == "expired"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "a b"), "is no name"),
        (("create", "x", "--user", "local"), "uses itself"),
        (("create", "x", "--expires", "soon"), "90d"),
        (("create", "ann"), "is in spindle.toml"),
        (("revoke", "twice2"), "did you mean 'twice'"),
        (("create", "twice"), "there is a token 'twice' already"),
    ],
)
def test_mistakes_are_told(rest: RestWorkspace, words: tuple[str, ...], said: str) -> None:
    rest.settings('[serve.tokens]\nann = { token = "a-token-of-the-settings" }')
    made(rest, "twice")
    done = rest.spindle("token", *words)
    assert done.returncode
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_on_other_addresses_starts_with_a_token_in_the_store_alone(rest: RestWorkspace) -> None:
    refused = rest.spindle("serve", "--rest", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "spindle token create" in refused.stderr
    token = made(rest, "ci")
    with rest.serve("--host", "0.0.0.0") as served:
        url = served.url.replace("0.0.0.0", "127.0.0.1")
        assert served.client.post(f"{url}/tools/say", json={"text": "x"}).status_code == 401
        sent = served.client.post(f"{url}/tools/say", json={"text": "x"}, headers=as_(token))
        assert sent.status_code == 200


def test_groups_of_administrators_say_what_their_members_see(rest: RestWorkspace) -> None:
    token = made(rest, "ci", "--group", "talkers")
    with rest.serve() as served:
        assert status(served, token, "hello", name="x") == 200
        assert rest.spindle("group", "set", "talkers", "--expose", "sa*").returncode == 0
        wait_until(lambda: status(served, token, "hello", name="x") == 404)
        assert status(served, token) == 200
        rest.spindle("group", "remove", "talkers")
        wait_until(lambda: status(served, token, "hello", name="x") == 200)
    assert rest.spindle("group", "remove", "talkers").returncode
    assert rest.json("group", "list", "--json") == []


# --- the API


def test_only_administrators_use_the_api(rest: RestWorkspace) -> None:
    plain = made(rest, "plain")
    with rest.serve() as served:
        for path in ("", "/tokens", "/audit", "/nothing"):
            answer = served.client.get(f"/admin/v1{path}", headers=as_(plain))
            assert answer.status_code == 403
            assert "administrator" in answer.json()["hint"]
        assert served.client.get("/admin/v1/tokens").status_code == 401
        served.stop()
    refused = rest.json("audit", "--json", "--action", "admin")
    assert {entry["allowed"] for entry in refused} == {False}


def test_without_tokens_nobody_is_an_administrator(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        assert served.client.get("/admin/v1/tokens").status_code == 403


def test_the_api_makes_lists_and_revokes(rest: RestWorkspace) -> None:
    boss = made(rest, "boss", "--admin")
    with rest.serve(token=boss) as served:
        client = served.client
        index = client.get("/admin/v1").json()["paths"]
        assert "DELETE /admin/v1/tokens/NAME" in index
        answer = client.post("/admin/v1/tokens", json={"name": "ci", "groups": ["staff"], "expires_in": 3600})
        assert answer.status_code == 201
        assert answer.headers["cache-control"] == "no-store"
        token = answer.json()["token"]
        assert status(served, token) == 200
        assert client.post("/admin/v1/tokens", json={"name": "ci"}).status_code == 400
        listed = client.get("/admin/v1/tokens").json()["tokens"]
        assert [item["name"] for item in listed] == ["boss", "ci"]
        assert token not in str(listed)
        assert client.put("/admin/v1/groups/staff", json={"exposed_tools": ["hello"]}).status_code == 200
        assert status(served, token) == 404
        assert client.get("/admin/v1/groups").json()["groups"] == [
            {"name": "staff", "from": "administrators", "exposed_tools": ["hello"]}
        ]
        assert client.put("/admin/v1/quotas/few", json={"calls": "1000/hour"}).status_code == 200
        assert client.get("/admin/v1/quotas").json()["quotas"][0]["name"] == "few"
        assert client.delete("/admin/v1/quotas/few").status_code == 200
        assert client.delete("/admin/v1/groups/staff").status_code == 200
        assert client.delete("/admin/v1/tokens/ci").json()["state"] == "revoked"
        assert status(served, token) == 401
        (source,) = client.get("/admin/v1/sources").json()["sources"]
        assert (source["name"], source["error"]) == ("tools", None)
        assert client.post("/admin/v1/sources/tools/sync").status_code == 200
        entries = client.get("/admin/v1/audit?action=token&limit=2").json()["entries"]
        assert [(entry["action"], entry["principal"], entry["address"]) for entry in entries] == [
            ("token.revoke", "boss", "127.0.0.1"),
            ("token.create", "boss", "127.0.0.1"),
        ]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/tokens", {"name": 5}, 400),
        ("POST", "/tokens", {}, 400),
        ("POST", "/tokens", {"name": "x", "admin": "yes"}, 400),
        ("POST", "/tokens", {"name": "x", "what": 1}, 400),
        ("POST", "/tokens", {"name": "x", "expires_in": -1}, 400),
        ("POST", "/tokens", {"name": "../x"}, 400),
        ("POST", "/tokens", ["x"], 400),
        ("PUT", "/groups/g", {"exposed_tools": 5}, 400),
        ("PUT", "/quotas/q", {"calls": "many"}, 400),
        ("PUT", "/quotas/q", {}, 400),
        ("PUT", "/tokens", {}, 405),
        ("DELETE", "/tokens/none", None, 404),
        ("DELETE", "/quotas/none", None, 404),
        ("POST", "/sources/none/sync", None, 404),
        ("GET", "/audit?limit=x", None, 400),
        ("GET", "/audit?nothing=1", None, 400),
        ("GET", "/nothing", None, 404),
    ],
)
def test_mistakes_in_the_api_are_told(
    admin: tuple[Served, str], method: str, path: str, body: Any, expected: int
) -> None:
    served, token = admin
    answer = served.client.request(method, f"/admin/v1{path}", json=body, headers=as_(token))
    assert answer.status_code == expected, answer.text
    assert answer.json()["message"]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Any:
    rest = RestWorkspace(tmp_path_factory.mktemp("admin"))
    token = made(rest, "boss", "--admin")
    with rest.serve() as served:
        yield served, token


async def test_a_token_made_right_after_a_look_for_others_is_found(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        access = ServingAccess.of(ServeConfig(), {}, shared=True)
        shared = SharedAccess(store, access, lambda: None)
        access.look_for_token = shared.look_for_token
        await shared.load()
        await shared.look()
        made = Administration(store, ServeConfig)
        _, text = await made.create_token(Administrator("local", "shell"), "ci")
        assert await access.knows(text)


async def test_those_who_show_unknown_tokens_at_once_share_a_look(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        version = store.access_version

        looks = 0

        async def counted() -> int:
            nonlocal looks
            looks += 1
            return await version()

        store.access_version = counted
        access = ServingAccess.of(ServeConfig(), {}, shared=True)
        shared = SharedAccess(store, access, lambda: None)
        await shared.load()
        looks = 0
        await asyncio.gather(*(shared.look_for_token() for _ in range(100)))
        assert looks == 1
