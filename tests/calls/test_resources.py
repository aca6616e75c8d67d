"""Resources and prompts in Python, of a real MCP server in both eras."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import spindle
from mcp_server.conftest import fixture_source
from servers.running import PATIENCE
from servers.serving import served
from spindle.domain.identity import Credential, Principal
from spindle.errors import AuthError, ClientError, NotFoundError, SpindleError
from spindle.settings import Settings

ERAS = pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
URI = "test://watched-resource"


def settings(root: Path, **sources: Any) -> Settings:
    return Settings(root, {"sources": sources, "store": ":memory:"})


@ERAS
async def test_a_watched_resource_says_each_change(tmp_path: Path, era: str) -> None:
    two = {name: fixture_source(prefix=True, protocol=era) for name in ("one", "two")}
    async with spindle.open(settings=settings(tmp_path, **two)) as app:
        async with (
            asyncio.timeout(PATIENCE),
            app.watch(URI, source="one") as changes,
            app.watch(URI, source="one") as others,
            app.watch(URI, source="two") as elsewhere,
        ):
            await app.call("one.test_touch_resource")
            change = await anext(changes)
            assert (change.uri, change.source) == (URI, "one")
            assert (await anext(others)).source == "one"
            await others.close()
            with pytest.raises(StopAsyncIteration):
                await anext(others)
            await app.call("one.test_touch_resource")
            await anext(changes)
            await app.call("two.test_touch_resource")
            assert (await anext(elsewhere)).source == "two"
        left = app.watch(URI, source="one")
        await left.__aenter__()
    with pytest.raises(StopAsyncIteration):
        await anext(left)


async def test_who_may_not_see_a_source_sees_nothing_of_it(tmp_path: Path) -> None:
    def visible(principal: Principal, name: str) -> bool:
        return principal.id == "ann" or not name.startswith("fix")

    ann, bob = Principal("ann"), Principal("bob")
    source = fixture_source(prefix=True)
    async with spindle.open(settings=settings(tmp_path, fix=source), visible=visible) as app:
        assert await app.resources(principal=ann)
        assert await app.resources(principal=bob) == []
        assert await app.prompts(principal=bob) == []
        for work in (
            app.read("test://static-text", principal=bob),
            app.read("test://static-text", source="fix", principal=bob),
            app.read("spindle://fix/test%3A%2F%2Fstatic-text", principal=bob),
            app.prompt("fix.test_simple_prompt", principal=bob),
            app.resources("fix", principal=bob),
        ):
            with pytest.raises(NotFoundError):
                await work
        assert (await app.read("spindle://fix/test%3A%2F%2Fstatic-text", principal=ann)).text


@ERAS
async def test_each_user_reads_with_their_own_credential(tmp_path: Path, era: str) -> None:
    """A server over HTTP: ann may see everything there, bob nothing but a tool, and eve is not let in."""
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    tokens = {name: {"token": f"token-of-{name}", "groups": [name]} for name in ("ann", "bob")}
    groups = {"ann": {}, "bob": {"exposed_tools": ["fix.test_sampling"]}}

    async def credentials(_source: str, principal: Principal) -> Credential:
        return spindle.bearer(f"token-of-{principal.id}")

    ann, bob, eve = (Principal(name) for name in ("ann", "bob", "eve"))
    async with (
        spindle.open(settings=settings(there, fix=fixture_source(prefix=True))) as upstream,
        served(upstream, tokens=tokens, groups=groups) as url,
        spindle.open(
            settings=settings(here, far={"url": url, "protocol": era}), credentials=credentials
        ) as app,
    ):
        assert (await app.read("test://static-text", principal=ann)).text.startswith("This is")
        assert await app.prompts(principal=ann)
        assert await app.resources(principal=bob) == []
        with pytest.raises(NotFoundError):
            await app.read("test://static-text", principal=bob)
        with pytest.raises(NotFoundError, match="test://static-text"):
            await app.read("test://static-text", source="far", principal=bob)
        assert await app.resources(principal=eve) == []
        with pytest.raises(AuthError):
            await app.read("test://static-text", source="far", principal=eve)
        outcomes = {(item.principal, item.outcome) for item in await app.history()}
        assert outcomes == {("ann", "ok"), ("bob", "not_found"), ("eve", "auth")}


async def test_what_cannot_be_watched_says_so(tmp_path: Path) -> None:
    server = Path(__file__).parent.parent / "servers" / "stdio_server.py"
    import sys

    source = {"command": [sys.executable, str(server)]}
    async with spindle.open(settings=settings(tmp_path, plain=source)) as app:
        assert await app.resources() == []
        with pytest.raises(ClientError, match="does not tell when its resources change"):
            await anext(app.watch("x://y", source="plain"))
        with pytest.raises(SpindleError, match="Method not found"):
            await app.read("x://y", source="plain")


def test_the_same_without_await(tmp_path: Path) -> None:
    source = fixture_source(prefix=True)
    with spindle.open(settings=settings(tmp_path, fix=source)) as s:
        assert URI in {item.uri for item in s.resources()}
        assert s.read("test://static-text").text.startswith("This is the content")
        assert "fix.test_simple_prompt" in {item.name for item in s.prompts()}
        filled = s.prompt("fix.test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        assert filled.messages[0].role == "user"
        assert "arg1='a'" in filled.text
        changes = s.watch(URI, timeout=PATIENCE)
        s.call("fix.test_touch_resource")
        assert next(changes).uri == URI
        changes.close()  # pyright: ignore[reportAttributeAccessIssue] - a generator
        assert list(s.watch(URI, timeout=0.01)) == []


async def test_a_failure_of_the_programs_own_is_recorded_as_one(tmp_path: Path) -> None:
    async def closed(source: str, principal: Principal) -> Credential | None:
        raise RuntimeError("the vault is closed")

    async with spindle.open(settings=settings(tmp_path, fix=fixture_source()), credentials=closed) as app:
        with pytest.raises(RuntimeError, match="the vault is closed"):
            await app.read("test://static-text", source="fix")
        (record,) = await app.history()
    assert (record.tool, record.outcome) == ("fix.resources/read", "error")
    assert record.error is not None
    assert "the vault is closed" in record.error["message"]
