"""A program's own store for users' tokens: `spindle.open(token_store=…)`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import spindle
from auth.conftest import Bench, Turned, oauth_config
from servers.echo_server import EchoServer, a_document
from servers.odd_provider import OddProvider, problem
from servers.running import OpenSources
from spindle import CallOptions, GrantStore, Principal, TokenGrant, TokenStore
from spindle.auth.access import SourceAccess
from spindle.compat.penguiflow import InMemoryTokenStore
from spindle.errors import AuthError, AuthorizationRequired, ConfigurationError, StoreError

ANN, BOB = Principal("ann"), Principal("bob")


class Grants:
    """A store that keeps grants as JSON, as one in Redis would."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], dict[str, Any]] = {}

    async def store_grant(self, user_id: str, provider: str, grant: TokenGrant) -> None:
        self.kept[user_id, provider] = grant.to_dict()

    async def get_grant(self, user_id: str, provider: str) -> TokenGrant | None:
        found = self.kept.get((user_id, provider))
        return None if found is None else TokenGrant.from_dict(found)

    async def delete(self, user_id: str, provider: str) -> None:
        self.kept.pop((user_id, provider), None)


class Small(InMemoryTokenStore):
    """The specification's own, with the test's clock."""

    def __init__(self, turned: Turned) -> None:
        super().__init__()
        self._turned = turned
        self.ends: dict[tuple[str, str], float | None] = {}

    async def store(self, user_id: str, provider: str, token: str, expires_at: float | None) -> None:
        self.ends[user_id, provider] = expires_at
        await super().store(user_id, provider, token, None)

    async def get(self, user_id: str, provider: str) -> str | None:
        ends = self.ends.get((user_id, provider))
        if ends is not None and self._turned.now() >= ends:
            return None
        return await super().get(user_id, provider)


@pytest.fixture
def small(turned: Turned) -> Small:
    return Small(turned)


async def log_in(access: SourceAccess, who: Principal, source: str = "s") -> None:
    asked = await access.begin(source, who)
    await access.complete("a-code", asked.state)


async def sealed_records(bench: Bench) -> list[dict[str, Any]]:
    found = await bench.store.secrets("token")
    return [bench.sealer.open(secret.sealed, f"token {secret.key}") for secret in found]


# --- the small protocol


async def test_consent_puts_the_token_into_the_given_store_and_none_into_ours(
    bench: Bench, odd: OddProvider, small: Small, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    access = bench.another(token_store=small)
    await log_in(access, ANN)
    assert await small.get("ann", "s") == "odd-access-1"
    assert small.ends["ann", "s"] == pytest.approx(turned.now() + 3600, abs=60)
    assert await access.token("s", config, ANN) == "odd-access-1"
    (record,) = await sealed_records(bench)
    assert "odd-access-1" not in str(record)
    assert "odd-refresh-1" not in str(record)
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("s", config, ANN)


async def test_two_users_are_kept_apart(bench: Bench, odd: OddProvider, small: Small) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    access = bench.another(token_store=small)
    await log_in(access, ANN)
    with pytest.raises(AuthorizationRequired):
        await access.token("s", config, BOB)
    await log_in(access, BOB)
    assert await access.token("s", config, ANN) == "odd-access-1"
    assert await access.token("s", config, BOB) == "odd-access-2"
    await access.revoke("s", "ann")
    assert await small.get("ann", "s") is None
    assert await access.token("s", config, BOB) == "odd-access-2"
    assert [info.principal for info in await access.list()] == ["bob"]


async def test_a_token_that_ended_or_was_deleted_there_is_asked_for_again(
    bench: Bench, odd: OddProvider, small: Small, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    access = bench.another(token_store=small)
    await log_in(access, ANN)
    turned.offset = 3601
    with pytest.raises(AuthorizationRequired):
        await access.token("s", config, ANN)
    await log_in(access, ANN)
    assert await access.token("s", config, ANN) == "odd-access-2"
    await small.delete("ann", "s")
    with pytest.raises(AuthorizationRequired):
        await access.token("s", config, ANN)
    assert await access.needs_login("s", ANN)
    assert [form["grant_type"] for form in odd.forms] == ["authorization_code"] * 2


async def test_a_token_that_the_program_put_there_itself_is_used(
    bench: Bench, odd: OddProvider, small: Small
) -> None:
    config = oauth_config(odd.url, scopes=["a", "b"])
    bench.source("s", config)
    await small.store("ann", "s", "own-token", None)
    access = bench.another(token_store=small)
    assert await access.token("s", config, ANN) == "own-token"
    assert not await access.needs_login("s", ANN)
    refused = AuthError("refused", status=401, challenge="Bearer")
    with pytest.raises(AuthorizationRequired):
        await access.token_after("s", oauth_config(odd.url, client_id="c"), ANN, "own-token", refused)
    assert await small.get("ann", "s") is None, "one that is refused is forgotten"


async def test_a_token_of_the_program_s_own_is_forgotten_when_it_is_revoked(
    bench: Bench, odd: OddProvider, small: Small
) -> None:
    bench.source("s", oauth_config(odd.url))
    access = bench.another(token_store=small)
    await small.store("ann", "s", "own-token", None)
    revoked = await access.revoke("s", "ann")
    assert revoked is not None
    assert not revoked.at_provider
    assert await small.get("ann", "s") is None
    assert await access.revoke("s", "ann") is None


async def test_another_server_under_the_same_name_is_not_shown_the_token(
    bench: Bench, odd: OddProvider, small: Small
) -> None:
    grants = Grants()
    for store in (small, grants):
        access = bench.another(token_store=store)
        bench.source("s", oauth_config(odd.url, client_id="c"))
        await log_in(access, ANN)
        elsewhere = oauth_config(f"{odd.base}/other", client_id="c", issuer=odd.base)
        with pytest.raises(AuthorizationRequired):
            await access.token(bench.source("s", elsewhere), elsewhere, ANN)


# --- the richer one


async def test_a_grant_is_renewed_without_the_user(bench: Bench, odd: OddProvider, turned: Turned) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    grants = Grants()
    access = bench.another(token_store=grants)
    await log_in(access, ANN)
    await log_in(access, BOB)
    turned.offset = 4000
    assert await access.token("s", config, ANN) == "odd-access-3"
    assert grants.kept["ann", "s"]["refresh_token"] == "odd-refresh-3"
    assert grants.kept["bob", "s"]["refresh_token"] == "odd-refresh-2"
    assert odd.forms[-1]["refresh_token"] == "odd-refresh-1"
    assert all("odd-refresh" not in str(record) for record in await sealed_records(bench))
    (ann,) = [info for info in await access.list("s") if info.principal == "ann"]
    assert ann.refreshable
    assert ann.provider


async def test_a_process_with_another_store_renews_the_same_grant(
    bench: Bench, odd: OddProvider, turned: Turned, tmp_path: Path
) -> None:
    """What is needed for that travels with the grant; only the key must be the same."""
    from spindle.stores.sqlite import SqliteStore

    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    grants = Grants()
    await log_in(bench.another(token_store=grants), ANN)
    turned.offset = 4000
    store = await SqliteStore(str(tmp_path / "another.db")).open()
    other = Bench(store, tmp_path / "another.db", bench.key, turned)
    try:
        other.source("s", config)
        assert await other.another(token_store=grants).token("s", config, ANN) == "odd-access-2"
    finally:
        await other.close()
        await store.close()


async def test_of_two_processes_without_a_common_store_the_slower_takes_what_the_faster_got(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    grants = Grants()
    access = bench.another(token_store=grants)
    await log_in(access, ANN)
    turned.offset = 4000

    def too_late(_form: dict[str, str]) -> Any:
        grant = TokenGrant.from_dict(grants.kept["ann", "s"])
        fresh = {**grant.to_dict(), "access_token": "faster", "expires_at": turned.now() + 3600}
        grants.kept["ann", "s"] = fresh
        return problem("invalid_grant")

    odd.token_answers = [too_late]
    assert await access.token("s", config, ANN) == "faster"
    assert grants.kept["ann", "s"]["access_token"] == "faster"


async def test_a_grant_that_was_moved_to_another_user_is_not_shown(bench: Bench, odd: OddProvider) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    grants = Grants()
    access = bench.another(token_store=grants)
    await log_in(access, ANN)
    grants.kept["bob", "s"] = grants.kept["ann", "s"]
    with pytest.raises(AuthorizationRequired):
        await access.token("s", config, BOB)


async def test_a_grant_of_the_program_s_own_is_renewed_only_where_the_settings_say_how(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    """A server may name any provider: no refresh token goes to one that only a server names."""
    grants = Grants()
    access = bench.another(token_store=grants)
    ended = TokenGrant("old", "their-refresh", turned.now() - 1)
    found = oauth_config(odd.url, client_id="c")
    await grants.store_grant("ann", "s", ended)
    with pytest.raises(AuthorizationRequired):
        await access.token(bench.source("s", found), found, ANN)
    assert odd.forms == []
    named = oauth_config(
        odd.url, client_id="c", authorization_url=f"{odd.base}/authorize", token_url=f"{odd.base}/token"
    )
    assert await access.token(bench.source("s", named), named, ANN) == "odd-access-1"
    assert odd.forms[-1]["refresh_token"] == "their-refresh"
    assert grants.kept["ann", "s"]["refresh_token"] == "odd-refresh-1"


# --- stores that do not work


class Failing:
    async def store(self, user_id: str, provider: str, token: str, expires_at: float | None) -> None:
        raise ConnectionError(f"could not write {token}")

    async def get(self, user_id: str, provider: str) -> str | None:
        return None

    async def delete(self, user_id: str, provider: str) -> None:
        raise AssertionError


async def test_a_store_that_fails_is_an_error_that_repeats_no_token(bench: Bench, odd: OddProvider) -> None:
    bench.source("s", oauth_config(odd.url, client_id="c"))
    access = bench.another(token_store=Failing())
    with pytest.raises(StoreError, match="the token store failed with ConnectionError") as caught:
        await log_in(access, ANN)
    assert "odd-access" not in str(caught.value)
    assert await sealed_records(bench) == []


async def test_bytes_instead_of_text_are_named_as_what_they_are(bench: Bench, odd: OddProvider) -> None:
    class Bytes(Failing):
        async def get(self, user_id: str, provider: str) -> Any:
            return b"token"

    config = oauth_config(odd.url, client_id="c")
    with pytest.raises(StoreError, match="`get` of the token store returned bytes, not text"):
        await bench.another(token_store=Bytes()).token(bench.source("s", config), config, ANN)


async def test_a_token_that_would_be_more_than_one_header_is_refused(bench: Bench, odd: OddProvider) -> None:
    config = oauth_config(odd.url, client_id="c")
    bench.source("s", config)
    grants = Grants()
    for token in ("a\r\nx-admin: yes", "a b", "ä"):
        await grants.store_grant("ann", "s", TokenGrant(token))
        with pytest.raises(StoreError, match="a token that no request can carry"):
            await bench.another(token_store=grants).token("s", config, ANN)


async def test_an_object_that_is_no_token_store_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text("")
    with pytest.raises(ConfigurationError, match="token_store is a dict, which has no `store`"):
        async with spindle.open(tmp_path, token_store={}):  # type: ignore[arg-type]
            pass


# --- from the program to the server


@pytest.mark.parametrize("kind", ["small", "grants"])
async def test_calls_of_two_users_carry_the_token_of_each(
    open_sources: OpenSources, odd: OddProvider, echo: EchoServer, small: Small, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "api.json").write_text(
        json.dumps(a_document({"/me": {"get": {"operationId": "me", "responses": {}}}}))
    )
    auth = {
        "type": "oauth", "client_id": "c", "authorization_url": f"{odd.base}/authorize",
        "token_url": f"{odd.base}/token",
    }  # fmt: skip
    sources = {"api": {"kind": "openapi", "document": "api.json", "base_url": echo.url, "auth": auth}}
    store: TokenStore | GrantStore = small if kind == "small" else Grants()
    async with open_sources(sources, token_store=store) as app:
        for who in (ANN, BOB):
            with pytest.raises(AuthorizationRequired) as asked:
                await app.call("api.me", {}, CallOptions(principal=who))
            assert asked.value.url.startswith(f"{odd.base}/authorize?")
            begun = await app.auth.begin("api", who)
            await app.auth.complete("a-code", begun.state, principal=who)
        await asyncio.gather(
            *(app.call("api.me", {}, CallOptions(principal=who)) for who in (ANN, BOB, ANN, BOB))
        )
        sent = sorted(dict(request.headers)["authorization"] for request in echo.requests)
        assert sent == ["Bearer odd-access-1"] * 2 + ["Bearer odd-access-2"] * 2
