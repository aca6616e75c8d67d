"""Updates of resources reach only those who may see them, for as long as they may, under the address by which
they asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import spindle
from mcp_server.test_http_serving import JSON, initialize, modern
from mcp_server.test_upstream_sessions import EACH_ERA, Person, call, stateful, watching
from servers.running import PATIENCE, until
from servers.serving import served
from spindle.app import Spindle
from spindle.calls.relay import own_address
from spindle.domain.serve import ServeConfig
from spindle.mcp_server import changes, sessions
from spindle.serving.access import ServingAccess
from spindle.serving.administration import Administration, Administrator
from spindle.serving.shared_access import sharing
from spindle.settings import Settings

BOARD = "common://board"
BOSS = Administrator("boss", "shell")


class Gateway:
    """A served workspace whose tokens and groups are in the store."""

    def __init__(self, app: Spindle, access: ServingAccess, url: str) -> None:
        self.url = url
        self.boss = Administration(app.store, lambda: access.config)
        self._access = access

    async def person(self, name: str, group: str) -> Person:
        _, token = await self.boss.create_token(BOSS, name, groups=[group])
        await self.in_force()
        return Person(name, token)

    async def in_force(self) -> None:
        assert self._access.look_for_changes is not None
        await self._access.look_for_changes()


@contextlib.asynccontextmanager
async def gateway(folder: Path, **sources: dict[str, Any]) -> AsyncIterator[Gateway]:
    access = ServingAccess.of(ServeConfig(port=0), {}, shared=True)
    settings = Settings(folder, {"sources": sources, "store": ":memory:"})
    async with (
        spindle.open(settings=settings, visible=access.shows) as app,
        sharing(app, access),
        served(app, access=access) as url,
    ):
        found = Gateway(app, access, url)
        for group in ("in", "out"):
            await found.boss.set_group(BOSS, group, {"exposed_tools": ["s.*", "t.*"]})
        yield found


@EACH_ERA
async def test_who_may_no_longer_see_a_resource_hears_nothing_of_it_and_keeps_the_session(
    tmp_path: Path, era: str
) -> None:
    async with asyncio.timeout(PATIENCE), stateful("http") as source, gateway(tmp_path, s=source) as door:
        ann, bob = await door.person("ann", "in"), await door.person("bob", "out")
        async with (
            ann.client(door.url, era, "elicitation") as of_ann,
            bob.client(door.url, era, "elicitation") as of_bob,
            watching(of_ann, era, BOARD),
            watching(of_bob, era, BOARD),
        ):
            while not (ann.updates and bob.updates):
                await call(of_ann, "touch", uri=BOARD)
                await asyncio.sleep(0.05)
            await door.boss.set_group(BOSS, "out", {"exposed_tools": ["s.recall"]})
            await door.in_force()
            heard = [0, 0]
            for _ in range(2):
                # What was on its way to bob has come by the time that ann hears of the next.
                heard = [len(ann.updates), len(bob.updates)]
                while len(ann.updates) < heard[0] + 2:
                    await call(of_ann, "touch", uri=BOARD)
                    await asyncio.sleep(0.05)
            await call(of_bob, "recall")
            assert len(bob.updates) == heard[1]
    assert set(ann.updates) == {BOARD}


@EACH_ERA
async def test_each_hears_under_the_address_by_which_they_asked(tmp_path: Path, era: str) -> None:
    long = own_address("s", BOARD)
    async with asyncio.timeout(PATIENCE), stateful("http") as source, gateway(tmp_path, s=source) as door:
        ann, bob = await door.person("ann", "in"), await door.person("bob", "in")
        async with (
            ann.client(door.url, era) as of_ann,
            bob.client(door.url, era) as of_bob,
            watching(of_ann, era, BOARD),
            watching(of_bob, era, long),
        ):
            while not (ann.updates and bob.updates):
                await call(of_ann, "touch", uri=BOARD)
                await asyncio.sleep(0.05)
            await call(of_ann, "recall")
            before = len(ann.updates), len(bob.updates)
            while not (len(ann.updates) > before[0] and len(bob.updates) > before[1]):
                # Servers may tell of what is below the resource that is watched.
                await call(of_ann, "touch", uri=BOARD, below="/line/3")
                await asyncio.sleep(0.05)
    assert (set(ann.updates), set(bob.updates)) == ({BOARD}, {long})


@EACH_ERA
async def test_the_streams_of_a_revoked_token_end_at_once(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What looks at all streams now and then does not come to it.
    monkeypatch.setattr(sessions, "SWEEP_EVERY", 10 * PATIENCE)
    monkeypatch.setattr(changes, "LOOK_EVERY", 10 * PATIENCE)
    async with asyncio.timeout(PATIENCE), stateful("http") as source, gateway(tmp_path, s=source) as door:
        ann, bob = await door.person("ann", "in"), await door.person("bob", "in")
        async with (
            httpx2.AsyncClient(timeout=PATIENCE) as http,
            stream(http, door.url, era, ann.token) as hers,
            stream(http, door.url, era, bob.token) as his,
        ):
            await door.boss.revoke_token(BOSS, "ann")
            await door.in_force()
            await until(hers.done)
            assert not his.done()
            refused = await http.post(
                door.url, json={}, headers={"authorization": f"Bearer {ann.token}", **JSON}
            )
            assert refused.status_code == 401


@contextlib.asynccontextmanager
async def stream(
    http: httpx2.AsyncClient, url: str, era: str, token: str
) -> AsyncIterator[asyncio.Task[None]]:
    """A stream that a client listens on: it is done when the server has ended it."""
    headers = {"authorization": f"Bearer {token}", **JSON}
    if era == "handshake":
        answer = await http.post(url, json=initialize(), headers=headers)
        session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        await http.post(
            url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers | session
        )
        opened = http.stream("GET", url, headers={**headers, **session, "accept": "text/event-stream"})
    else:
        body, extra = modern("subscriptions/listen", notifications={"resourceSubscriptions": [BOARD]})
        opened = http.stream("POST", url, json=body, headers={**headers, **extra})

    async with opened as answer:
        assert answer.status_code == 200
        chunks = answer.aiter_raw()
        await anext(chunks)

        async def to_end() -> None:
            async for _ in chunks:
                pass

        reading = asyncio.create_task(to_end())
        try:
            yield reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
