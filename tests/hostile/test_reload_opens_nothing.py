"""Settings that change, are lost or half written while a server runs with tokens: the door never opens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spindle
from spindle.cli.main import execute
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import ConfigurationError
from spindle.listening.response import Response
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.serving.front import front_or_list
from spindle.serving.held_back import HeldBack, held_back
from spindle.serving.reload import EVERY, Live
from spindle.serving.widening import loosened

TOKEN = "t" * 32
CLOSED = f"""
[serve]
auth_token = "{TOKEN}"
[sources.say]
kind = "cli"
program = "echo"
commands.one.args = ["1"]
approve = ["one"]
"""
NO_AUTH = CLOSED.replace(f'auth_token = "{TOKEN}"', "")


class Server:
    """A workspace behind its REST door, whose settings are looked at whenever the test says so."""

    def __init__(self, app: spindle.Spindle, access: ServingAccess) -> None:
        self.notes: list[str] = []
        self._now = 100.0
        self._live = Live(app, access, {}, self.notes.append, now=lambda: self._now)
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(make_app(app, access)), base_url="http://127.0.0.1"
        )

    async def call(self, token: str | None = None) -> int:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._now += EVERY
        await self._live.look()
        return (await self._client.post("/tools/say.one", headers=headers)).status_code


def delete(file: Path) -> None:
    file.unlink()


def make_unreadable(file: Path) -> None:
    file.unlink()
    file.mkdir()


LOST: dict[str, Any] = {
    "deleted": delete,
    "unreadable": make_unreadable,
    "empty": lambda file: file.write_text(""),
    "blank": lambda file: file.write_text("\n \n"),
    "not text": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "half a line": lambda file: file.write_text(CLOSED[:20]),
    "half a file": lambda file: file.write_text(CLOSED[CLOSED.index("[sources") :]),
    "a comment": lambda file: file.write_text("# to be written\n"),
    "no token": lambda file: file.write_text(NO_AUTH),
    "a variable that is not set": lambda file: file.write_text(
        CLOSED.replace("auth_token =", "auth_token_env =")
    ),
}


@pytest.mark.parametrize("way", LOST)
async def test_a_file_that_is_lost_leaves_the_door_closed_and_the_server_as_it_was(
    tmp_path: Path, way: str
) -> None:
    file = tmp_path / "spindle.toml"
    file.write_text(CLOSED.replace('approve = ["one"]', ""))
    async with spindle.open(tmp_path) as app:
        server = Server(app, ServingAccess.of(app.settings.serve(), {}))
        await app.sync()
        assert await server.call() == 401
        assert await server.call(TOKEN) == 200
        LOST[way](file)
        assert await server.call() == 401
        assert await server.call(TOKEN) == 200
        [note] = server.notes
        assert "the old ones stay in force" in note
        [(process, why)] = held_back(app.settings.state_folder)
        assert (process, why in note) == (os.getpid(), True)
        # A file that is whole again is taken over.
        if file.is_dir():
            file.rmdir()
        file.write_text(CLOSED.replace(TOKEN, "u" * 32).replace('approve = ["one"]', ""))
        assert await server.call("u" * 32) == 200
        assert await server.call(TOKEN) == 401
        assert not list(held_back(app.settings.state_folder))


async def test_an_approval_is_not_dropped_where_no_token_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "spindle.toml"
    file.write_text(NO_AUTH)
    async with spindle.open(tmp_path) as app:
        server = Server(app, ServingAccess.of(app.settings.serve(), {}))
        await app.sync()
        assert await server.call() == 202
        file.write_text(NO_AUTH.replace('approve = ["one"]', ""))
        assert await server.call() == 202
        assert "sources.say.approve would ask for fewer calls" in server.notes[0]
        file.write_text(f'{NO_AUTH}approvers = ["caller"]\n')
        assert await server.call() == 202
        assert "sources.say.approvers would let more people approve" in server.notes[1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"approvers": ["ann"]}, []),
        ({"approvers": "caller"}, ["sources.say.approvers would let more people approve"]),
        ({"trust_hints": True}, ["sources.say would be believed that its tools do no harm"]),
        ({"pinned": True}, ["sources.say would be believed that its tools do no harm"]),
        ({"approve": "destructive", "approvers": []}, []),
    ],
)
def test_nobody_is_let_approve_or_believed_by_a_reload(changed: dict[str, Any], said: list[str]) -> None:
    before = {"say": {"approve": "destructive", "approvers": ["ann"]}}
    assert loosened(before, {"say": {**before["say"], **changed}}) == said


def test_a_pipe_has_no_door_so_its_lists_may_grow() -> None:
    access = ServingAccess.of(ServeConfig(exposed_tools=("a",)), {}, over_pipe=True)
    assert access.adopt(ServeConfig())
    assert access.shows(access.principal(None), "b")


def test_doctor_tells_of_a_server_that_keeps_older_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spindle.toml").write_text(NO_AUTH)
    (tmp_path / ".spindle").mkdir()
    (tmp_path / ".spindle" / f"held-back.{2**22 + 1}").write_text("of a process that is gone")
    HeldBack(tmp_path / ".spindle").say("clients without a token could do more than before")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    assert execute(["doctor", "--json"]) == 0
    said = [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    [about] = [sentence for sentence in said if "keeps its older settings" in sentence]
    assert f"process id {os.getpid()} " in about
    assert "clients without a token could do more than before" in about


# --- every pair of settings

NAMES = ("fs.read", "fs.write", "fs.", "web.get", "web.", "say")
PATTERNS = (*NAMES, "fs.*", "*.read", "*", "w?b.*", "[fs]*")
GROUPS = ("guest", "staff")

lists = st.fixed_dictionaries(
    {},
    optional={
        "exposed_tools": st.lists(st.sampled_from(PATTERNS), max_size=3),
        "excluded_tools": st.lists(st.sampled_from(PATTERNS), max_size=3),
    },
)
hosts = st.lists(st.sampled_from(["a.example", "b.example"]), max_size=2)
serving = st.tuples(
    lists,
    st.fixed_dictionaries(
        {},
        optional={
            "auth_token": st.just(TOKEN),
            "tokens": st.just({"ann": {"token": "a" * 32, "groups": ["staff"]}}),
            "registry": st.sampled_from([False, True, "open"]),
            "trusted_proxies": st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2"]), max_size=2),
            "allowed_hosts": hosts,
            "allowed_origins": st.lists(
                st.sampled_from(["https://a.example", "https://b.example"]), max_size=2
            ),
            "url": st.sampled_from(["https://a.example", "https://c.example"]),
            "default_agent_group": st.sampled_from(GROUPS),
            "groups": st.dictionaries(st.sampled_from(GROUPS), lists, max_size=2),
        },
    ),
).map(lambda parts: ServeConfig.model_validate(parts[0] | parts[1]))


def requests() -> Iterator[dict[str, Any]]:
    for host in ("127.0.0.1", "a.example", "b.example", "c.example"):
        for origin in (None, "https://a.example", "https://b.example"):
            for method, path in (("POST", "/tools/say"), ("GET", "/openapi.json"), ("GET", "/v0.1/servers")):
                for token in (None, "wrong"):
                    headers = [(b"host", host.encode())]
                    headers += [(b"origin", origin.encode())] if origin else []
                    headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
                    yield {
                        "type": "http", "method": method, "path": path,
                        "headers": headers, "client": ("127.0.0.1", 1),
                    }  # fmt: skip


async def powers(access: ServingAccess) -> set[tuple[Any, ...]]:
    """All that requests without a good token reach: which way in, and what exists for them there."""
    found: set[tuple[Any, ...]] = {("uncounted", name) for name in access.config.trusted_proxies}
    for scope in requests():
        admitted = await access.admit(scope, front_or_list)
        if isinstance(admitted, Response):
            continue
        assert isinstance(admitted, Principal)
        if scope["path"] == "/v0.1/servers" and not access.config.registry:
            continue
        way = (scope["method"], scope["path"], *sorted(scope["headers"]))
        found |= {(*way, name) for name in NAMES if access.shows(admitted, name)}
        found.add(way)
    return found


@settings(max_examples=150, deadline=None)
@given(before=serving, after=serving)
def test_no_reload_lets_a_request_without_a_token_do_what_it_could_not(
    before: ServeConfig, after: ServeConfig
) -> None:
    async def story() -> None:
        access = ServingAccess.of(before, {})
        could = await powers(access)
        with contextlib.suppress(ConfigurationError):
            access.adopt(after)
        assert access.config in (before, after)
        assert await powers(access) <= could

    asyncio.run(story())


@settings(max_examples=50, deadline=None)
@given(config=serving)
def test_settings_that_take_tools_away_need_no_restart(config: ServeConfig) -> None:
    narrower = config.model_copy(update={"excluded_tools": (*config.excluded_tools, "fs.write")})
    access = ServingAccess.of(config, {})
    access.adopt(narrower)
    access.adopt(narrower.model_copy(update={"auth_token": TOKEN, "registry": False}))
    assert access.wants_token
