"""Users with tokens of their own, over every way to reach a source, with a real authorisation server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.oauth import OAuthProvider, User
from servers.running import PATIENCE, StdioServers
from spindle import CallOptions, Finished, Paused, Principal
from spindle.errors import ClientError

USERS = ("ann", "ben")


def workspace(root: Path, url: str, store: str, stdio: dict[str, Any] | None = None) -> Path:
    """The same server twice, over HTTP, and a program that gets a user's token in its environment."""
    auth = 'auth = { type = "oauth", provider = "Work" }'
    lines = [store, "[auth]", 'redirect_uri = "http://127.0.0.1/callback"']
    lines += ["[sources.work]", f'url = "{url}"', auth, "max_concurrency = 100"]
    if stdio is not None:
        known = f'resource = "{url}", issuer = "{stdio.pop("issuer")}", scopes = ["read"]'
        login = f'{{ type = "oauth", env = "TOKEN", {known} }}'
        lines += ["[sources.program]", f"command = {json.dumps(stdio['command'])}", f"auth = {login}"]
        lines += ["max_concurrency = 100"]
    (root / "spindle.toml").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return f'store = "{request.getfixturevalue("postgres_url")}"' if request.param == "postgres" else ""


async def log_in(app: spindle.Spindle, source: str, name: str) -> str:
    """Give consent; the token that came of it."""
    async with User(name) as user:
        asked = await app.auth.begin(source, Principal(name))
        given = await user.follow(asked.url)
        assert "code" in given, given
        await app.auth.complete(given["code"], given["state"], given.get("iss"), principal=Principal(name))
    return await app.auth.token(source, app.catalog.sources.config(source), Principal(name))


async def test_two_hundred_interleaved_calls_carry_their_own_users_tokens(
    tmp_path: Path, guarded_url: str, oauth_provider: OAuthProvider, stdio_server: StdioServers
) -> None:
    described = {**stdio_server(), "issuer": oauth_provider.issuer}
    async with spindle.open(workspace(tmp_path, guarded_url, "", described)) as app:
        tokens = {
            (source, name): await log_in(app, source, name)
            for source in ("work", "program")
            for name in USERS
        }
        assert len(set(tokens.values())) == 4
        for source in ("work", "program"):
            await app.sync(source, principal=Principal("ann"))
        order = [(source, name) for source in ("work", "program") for name in USERS] * 50
        random.Random(7).shuffle(order)

        async def call(source: str, name: str) -> str:
            options = CallOptions(principal=Principal(name))
            if source == "program":
                return (await app.call("program.env", {"name": "TOKEN"}, options)).text
            # A hostile argument that names somebody else changes nothing about who is acted for.
            other = USERS[name == "ann"]
            return json.loads((await app.call("work.whoami", {"by": other}, options)).text)["subject"]

        seen = await asyncio.gather(*(call(source, name) for source, name in order))
    assert len(seen) == 200
    assert list(seen) == [tokens[item] if item[0] == "program" else item[1] for item in order]
    assert len(stdio_server.starts()) == 2  # one process a user


PAUSING = """
import asyncio, json, sys
import spindle
from spindle import CallOptions, Paused, Principal

async def main():
    async with spindle.open(sys.argv[1]) as app:
        outcome = await app.run("work.whoami", {}, CallOptions(principal=Principal("ann")))
        assert isinstance(outcome, Paused)
        pause = outcome.pauses[0]
        print(json.dumps({"token": pause.token, "url": pause.details["url"]}), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def pausing(root: Path) -> AsyncIterator[tuple[int, dict[str, str]]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PAUSING, str(root), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE * 2):
            yield process.pid, json.loads(await process.stdout.readline())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_a_consent_completes_and_resumes_after_the_process_that_asked_was_killed(
    tmp_path: Path, guarded_url: str, store: str, ann: User
) -> None:
    root = workspace(tmp_path, guarded_url, store)
    async with pausing(root) as (pid, asked):
        os.kill(pid, signal.SIGKILL)
    given = await ann.follow(asked["url"])
    async with spindle.open(root) as app:
        back = (given["code"], given["state"], given.get("iss"))
        done = await app.auth.complete(*back, principal=Principal("ann"))
        assert (done.source, done.principal) == ("work", "ann")
    async with spindle.open(root) as another:
        (outcome,) = await another.runner.resume_consent("work", Principal("ann"))
        assert isinstance(outcome, Finished)
        assert json.loads(outcome.result.text)["subject"] == "ann"
        with pytest.raises(ClientError, match="answered before"):
            await another.resume(asked["token"])


async def test_parallel_calls_of_one_user_share_one_link(
    tmp_path: Path, guarded_url: str, store: str
) -> None:
    root = workspace(tmp_path, guarded_url, store)
    async with spindle.open(root) as one, spindle.open(root) as other:
        options = CallOptions(principal=Principal("ann"))
        runs = [
            app.run("work.whoami", {"by": str(number)}, options)
            for number in range(10)
            for app in (one, other)
        ]
        outcomes = await asyncio.gather(*runs)
        links: set[str] = set()
        for outcome in outcomes:
            assert isinstance(outcome, Paused)
            links.add(outcome.pauses[0].details["url"])
    assert len(links) == 1
