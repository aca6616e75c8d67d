"""Breakers over real processes and servers: one user's trouble is not another's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from servers.brokers import free_port
from servers.echo_server import a_document
from servers.running import OpenSources, Signal, StdioServers
from spindle import CallOptions, Principal
from spindle.domain.identity import Credential
from spindle.errors import BreakerOpenError, BusyError, ConnectionFailedError

ONCE = {"retry": {"attempts": 1}}


async def own_variable(source: str, principal: Principal) -> Credential:
    return Credential(env=(("TOKEN", f"token of {principal.id}"),))


async def own_token(source: str, principal: Principal) -> Credential:
    return Credential(headers=(("authorization", f"Bearer {principal.id}"),))


def user(name: str, **more: Any) -> CallOptions:
    return CallOptions(principal=Principal(name), **more)


async def test_one_users_crashes_do_not_lock_out_anothers_process(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    source = stdio_server() | {"breaker": {"failures": 2}}
    async with open_sources({"s": source}, credentials=own_variable) as app:
        ben = (await app.call("s.pid", {}, user("ben"))).text
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="ended by SIGKILL"):
                await app.call("s.die", {}, user("ann"))
        assert (await app.call("s.pid", {}, user("ben"))).text == ben
        assert (await app.call("s.env", {"name": "TOKEN"}, user("cleo"))).text == "token of cleo"
        with pytest.raises(BreakerOpenError, match="with this credential failed 2 times in a row"):
            await app.call("s.pid", {}, user("ann"))


async def test_a_process_that_does_not_start_for_one_user_starts_for_another(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    source = stdio_server(fail_starts=str(broken)) | ONCE | {"breaker": {"failures": 2}}
    async with open_sources({"s": source}, credentials=own_variable) as app:
        await app.sync()
        broken.touch()
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="before it was ready"):
                await app.call("s.pid", {}, user("ann"))
        broken.unlink()
        assert (await app.call("s.env", {"name": "TOKEN"}, user("ben"))).text == "token of ben"
        with pytest.raises(BreakerOpenError):
            await app.call("s.pid", {}, user("ann"))


async def test_one_crash_counts_once_however_many_calls_it_takes_with_it(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    async with open_sources(
        {"s": stdio_server() | {"max_concurrency": 50, "breaker": {"failures": 2}}}
    ) as app:
        pid = int((await app.call("s.pid")).text)
        signals = [Signal() for _ in range(20)]

        async def call_until_crash(took: Signal) -> str:
            with pytest.raises(ConnectionFailedError, match="ended by SIGKILL") as caught:
                await app.call("s.wait", {}, CallOptions(on_progress=took))
            assert not isinstance(caught.value, BreakerOpenError)
            # At once: nobody but this call may have heard of the crash yet.
            return (await app.call("s.pid")).text

        tasks = [asyncio.create_task(call_until_crash(took)) for took in signals]
        await asyncio.gather(*(took.wait() for took in signals))
        os.kill(pid, signal.SIGKILL)
        assert len(set(await asyncio.gather(*tasks))) == 1
    assert len(stdio_server.starts()) == 2


@pytest.mark.parametrize("kind", ["openapi", "mcp"])
async def test_a_server_that_cannot_be_reached_is_left_alone_for_every_user(
    open_sources: OpenSources, tmp_path: Path, kind: str
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "api.json").write_text(json.dumps(a_document({"/a": {"get": {"operationId": "a"}}})))
    table = {"kind": "openapi", "document": "api.json", "base_url": nowhere}
    table = (table if kind == "openapi" else {"url": nowhere}) | ONCE | {"breaker": {"failures": 2}}
    async with open_sources({"s": table}, credentials=own_token) as app:

        async def ask(who: str) -> Any:
            if kind == "openapi":
                return await app.call("s.a", {}, user(who))
            return await app.read("made://x", source="s", principal=Principal(who))

        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="cannot reach 's'"):
                await ask("ann")
        with pytest.raises(BreakerOpenError, match="failed 2 times in a row"):
            await ask("ben")


async def test_calls_wait_for_a_session_within_their_time_and_a_full_source_is_no_failure(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    source = stdio_server() | {"max_sessions": 1, "breaker": {"failures": 1}}
    async with open_sources({"s": source}, credentials=own_variable) as app:
        await app.sync()
        took = Signal()
        holding = asyncio.create_task(app.call("s.wait", {}, user("ann", on_progress=took)))
        await took.wait()
        with pytest.raises(BusyError, match="all 1 sessions of 's' are in use") as caught:
            await app.call("s.pid", {}, user("ben", timeout=0.05))
        assert "max_sessions" in (caught.value.hint or "")
        assert (caught.value.retry_after, caught.value.sent, caught.value.retryable) == (1.0, False, True)
        # One session serves all calls of a user, so that they need no room for each.
        waiting = [
            asyncio.create_task(app.call("s.env", {"name": "TOKEN"}, user(who)))
            for who in ("ben", "cleo", "ben", "cleo")
        ]
        async with asyncio.timeout(60):
            while len(app.catalog.connections.lines.get("s", ())) < 4:
                await asyncio.sleep(0.001)
        holding.cancel()
        found = [result.text for result in await asyncio.gather(*waiting)]
    assert found == ["token of ben", "token of cleo"] * 2
