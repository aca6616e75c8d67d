"""Consent and tokens of users under Penguiflow's names, with a provider and an MCP server over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from compat.planner import Context, PlannerPausedError
from compat.test_penguiflow_node import mcp, program
from servers.http_server import HttpServer, Reply
from servers.odd_provider import OddProvider, problem
from spindle.compat.penguiflow import (
    AuthType,
    InMemoryTokenStore,
    ModelRegistry,
    OAuthManager,
    OAuthProviderConfig,
    ToolAuthError,
    ToolNode,
)

BACK = "https://app.example/oauth/callback"


@pytest.fixture
async def provider() -> AsyncIterator[OddProvider]:
    async with OddProvider().running() as running:
        yield running


@pytest.fixture
def manager(provider: OddProvider) -> Any:
    made = OAuthManager(providers={"fault": configured(provider)})
    yield made
    made.close()


def configured(provider: OddProvider) -> OAuthProviderConfig:
    return OAuthProviderConfig(
        name="fault",
        display_name="The Fault Shop",
        auth_url=f"{provider.base}/authorize?prompt=none",
        token_url=f"{provider.base}/token",
        client_id="penguin",
        client_secret="s3cret-of-penguin",
        redirect_uri=BACK,
        scopes=["read", "write"],
    )


def state_of(auth_url: str) -> str:
    [state] = parse_qs(urlsplit(auth_url).query)["state"]
    return state


def guarded(server: HttpServer, manager: OAuthManager | None) -> ToolNode:
    return ToolNode(mcp(server.url, auth_type=AuthType.OAUTH2_USER), ModelRegistry(), manager)


def shown_tokens(server: HttpServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.seen if request.tool]


async def test_two_users_pause_consent_and_call_each_with_a_token_of_their_own(
    provider: OddProvider, manager: OAuthManager
) -> None:
    async with HttpServer() as server:
        node = guarded(server, manager)
        await node.connect()
        asked: dict[str, dict[str, Any]] = {}
        for user in ("ann", "bob"):
            with pytest.raises(PlannerPausedError) as paused:
                await node.call("fault.whoami", {}, Context(user, f"trace-{user}"))
            assert paused.value.reason == "external_event"
            asked[user] = paused.value.payload
        assert server.calls("whoami") == 0
        told = asked["ann"]
        assert (told["pause_type"], told["provider"]) == ("oauth", "fault")
        assert (told["display_name"], told["scopes"]) == ("The Fault Shop", ["read", "write"])
        query = parse_qs(urlsplit(told["auth_url"]).query)
        assert query["client_id"] == ["penguin"]
        assert query["redirect_uri"] == [BACK]
        assert query["scope"] == ["read write"]
        assert query["prompt"] == ["none"]

        for user in ("bob", "ann"):  # they come back in another order
            back = await manager.handle_callback("code-of-" + user, state_of(asked[user]["auth_url"]))
            assert back == (user, f"trace-{user}")
        assert [form["code"] for form in provider.forms] == ["code-of-bob", "code-of-ann"]

        # Both at once: neither sees the other's session.
        server.meeting = asyncio.Barrier(2)
        async with asyncio.timeout(60):
            await asyncio.gather(*(node.call("whoami", {}, Context(user)) for user in ("ann", "bob")))
        assert sorted(map(str, shown_tokens(server))) == ["Bearer odd-access-1", "Bearer odd-access-2"]
        server.meeting = None
        await node.call("whoami", {}, Context("ann"))
        assert shown_tokens(server)[-1] == "Bearer odd-access-2"
        await node.close()


async def test_a_planner_that_waits_goes_on_with_the_token(
    provider: OddProvider, manager: OAuthManager
) -> None:
    async def consent(payload: dict[str, Any]) -> None:
        await manager.handle_callback("c-1", state_of(payload["auth_url"]))

    async def nothing(_payload: dict[str, Any]) -> None:
        return None

    async with HttpServer() as server:
        node = guarded(server, manager)
        await node.connect()
        context = Context("ann", "t-1", consent)
        assert await node.call("echo", {"text": "agreed"}, context) == "agreed"
        assert len(context.pauses) == 1
        assert await node.call("echo", {"text": "again"}, context) == "again"
        assert len(context.pauses) == 1
        with pytest.raises(ToolAuthError, match="of bob for fault was not completed"):
            await node.call("echo", {}, Context("bob", "t-2", nothing))
        await node.close()


async def test_each_trace_has_a_link_of_its_own_which_works_once(manager: OAuthManager) -> None:
    first, second = (manager.get_auth_request("fault", "ann", trace)["auth_url"] for trace in ("t-1", "t-2"))
    assert state_of(first) != state_of(second)
    assert await manager.handle_callback("c-2", state_of(second)) == ("ann", "t-2")
    assert await manager.handle_callback("c-1", state_of(first)) == ("ann", "t-1")
    with pytest.raises(ValueError, match="completed before"):
        await manager.handle_callback("c-1", state_of(first))
    with pytest.raises(ValueError, match="not known"):
        await manager.handle_callback("c-1", "a state that nobody made")
    with pytest.raises(ValueError, match="no OAuth provider 'other'; there are: fault"):
        manager.get_auth_request("other", "ann", "t")


async def test_a_refusal_of_the_provider_is_told_without_secrets(
    provider: OddProvider, manager: OAuthManager
) -> None:
    provider.token_answers.append(problem("access_denied", error_description="not you"))
    link = manager.get_auth_request("fault", "ann", "t")["auth_url"]
    with pytest.raises(ValueError, match=r"OAuth error: .*not you") as refused:
        await manager.handle_callback("c-1", state_of(link))
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(manager.providers)
    assert await manager.get_token("ann", "fault") is None


class OwnStore:
    """A token store of the program's own."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[str, float | None]] = {}

    async def store(self, user_id: str, provider: str, token: str, expires_at: float | None) -> None:
        self.rows[user_id, provider] = (token, expires_at)

    async def get(self, user_id: str, provider: str) -> str | None:
        token, expires_at = self.rows.get((user_id, provider), (None, None))
        return token if expires_at is None or time.time() < expires_at else None

    async def delete(self, user_id: str, provider: str) -> None:
        self.rows.pop((user_id, provider), None)


async def test_tokens_are_kept_in_the_store_of_the_program(provider: OddProvider) -> None:
    store = OwnStore()
    manager = OAuthManager(providers={"fault": configured(provider)}, token_store=store)
    link = manager.get_auth_request("fault", "ann", "t")["auth_url"]
    await manager.handle_callback("c-1", state_of(link))
    token, expires_at = store.rows["ann", "fault"]
    assert token == "odd-access-1"
    assert expires_at is not None
    assert expires_at > time.time() + 3000
    # A token that was put there by another process is used as it is.
    await store.store("bob", "fault", "from-elsewhere", None)
    assert await manager.get_token("bob", "fault") == "from-elsewhere"
    manager.close()


async def test_a_token_that_ended_is_renewed(provider: OddProvider, manager: OAuthManager) -> None:
    provider.lifetime = 0
    link = manager.get_auth_request("fault", "ann", "t")["auth_url"]
    await manager.handle_callback("c-1", state_of(link))
    provider.lifetime = 3600
    token = await manager.get_token("ann", "fault")
    assert token == provider_token(provider)
    assert provider.forms[-1]["grant_type"] == "refresh_token"
    assert await manager.get_token("ann", "fault") == token


def provider_token(provider: OddProvider) -> str:
    return f"odd-access-{len(provider.forms)}"


async def test_a_refused_token_is_forgotten_and_consent_asked_for_again(
    provider: OddProvider, manager: OAuthManager
) -> None:
    async with HttpServer() as server:
        node = guarded(server, manager)
        await node.connect()
        link = manager.get_auth_request("fault", "ann", "t")["auth_url"]
        await manager.handle_callback("c-1", state_of(link))
        server.next("echo", Reply(401))
        with pytest.raises(ToolAuthError):
            await node.call("echo", {}, Context("ann"))
        with pytest.raises(PlannerPausedError):
            await node.call("echo", {}, Context("ann"))
        await node.close()


async def test_without_a_manager_or_a_user_there_is_no_call(manager: OAuthManager) -> None:
    async with HttpServer() as server:
        alone = guarded(server, None)
        await alone.connect()
        with pytest.raises(ToolAuthError, match="no auth_manager"):
            await alone.call("echo", {}, Context("ann"))
        await alone.close()
        node = guarded(server, manager)
        await node.connect()
        with pytest.raises(ToolAuthError, match="no `user_id`"):
            await node.call("echo", {}, Context())
        assert server.calls("echo") == 0
        await node.close()


async def test_a_server_that_lists_only_for_users_is_connected_with_the_token_of_one(
    manager: OAuthManager,
) -> None:
    async with HttpServer() as server:
        server.always("*", Reply(401))
        node = guarded(server, manager)
        with pytest.raises(ToolAuthError):
            await node.connect()
        server.always("*", None)
        await manager.token_store.store("ann", "fault", "t-of-ann", None)
        await node.connect(user_id="ann")
        assert server.seen[-1].headers["authorization"] == "Bearer t-of-ann"
        await node.close()


async def test_a_user_called_local_is_a_user_like_any(manager: OAuthManager) -> None:
    async with HttpServer() as server:
        node = guarded(server, manager)
        await node.connect()
        await manager.token_store.store("local", "fault", "t-of-local", None)
        await node.call("echo", {}, Context("local"))
        assert shown_tokens(server) == ["Bearer t-of-local"]
        await node.close()


async def test_each_user_of_a_program_has_a_process_with_a_token_of_theirs(
    tmp_path: Path, manager: OAuthManager
) -> None:
    config = mcp(program(tmp_path), auth_type=AuthType.OAUTH2_USER, auth_config={"env": "ITS_TOKEN"})
    node = ToolNode(config, ModelRegistry(), manager)
    await node.connect()
    for user in ("ann", "bob"):
        await manager.token_store.store(user, "fault", f"t-of-{user}", None)
    seen = {
        user: await node.call("env", {"name": "ITS_TOKEN"}, Context(user)) for user in ("ann", "bob", "ann")
    }
    assert seen == {"ann": "t-of-ann", "bob": "t-of-bob"}
    assert await node.call("pid", {}, Context("ann")) != await node.call("pid", {}, Context("bob"))
    await node.close()
    nameless = ToolNode(mcp(program(tmp_path), auth_type=AuthType.OAUTH2_USER), ModelRegistry(), manager)
    with pytest.raises(ToolAuthError, match="name the variable"):
        await nameless.connect()


async def test_tokens_in_memory_end_with_their_time() -> None:
    store = InMemoryTokenStore()
    await store.store("ann", "fault", "good", None)
    await store.store("bob", "fault", "over", time.time() - 1)
    assert await store.get("ann", "fault") == "good"
    assert await store.get("bob", "fault") is None
    await store.delete("ann", "fault")
    assert await store.get("ann", "fault") is None
