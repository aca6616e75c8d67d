"""Consent at a real authorisation server, for a real MCP server that demands its tokens."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from auth.conftest import Bench, Turned, oauth_config
from servers.oauth import OAuthProvider, User
from servers.running import OpenSources
from spindle.calls.caller import CallOptions
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import (
    AuthError,
    AuthorizationRequired,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
)

ANN = Principal("ann")
BEN = Principal("ben")


def guarded(url: str, **auth: Any) -> dict[str, dict[str, Any]]:
    return {"work": {"url": url, "auth": {"type": "oauth", **auth}}}


def said(result: Any) -> dict[str, Any]:
    return json.loads(result.text)


async def asked_for_consent(
    app: Any, tool: str = "work.whoami", who: Principal = LOCAL
) -> AuthorizationRequired:
    with pytest.raises(AuthorizationRequired) as caught:
        await app.call(tool, {}, CallOptions(principal=who))
    return caught.value


async def test_a_call_without_consent_hands_out_a_link_and_works_after_it(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    async with open_sources(guarded(guarded_url)) as app:
        asked = await asked_for_consent(app)
        assert asked.details["provider"] == urlsplit(oauth_provider.issuer).netloc
        assert asked.details["scopes"] == ["read", "offline_access"]
        assert asked.expires_at is not None
        query = parse_qs(urlsplit(asked.url).query)
        assert query["code_challenge_method"] == ["S256"]
        assert query["resource"] == [guarded_url]

        completed = await app.auth.complete(**await ann.follow(asked.url))

        assert (completed.source, completed.principal, completed.denied) == ("work", "local", None)
        assert said(await app.call("work.whoami"))["subject"] == "ann"
        [known] = await app.auth.list()
        assert (known.source, known.principal, known.scopes, known.refreshable) == (
            "work", "local", ("read",), True,
        )  # fmt: skip


async def test_parallel_calls_of_one_user_share_one_link(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider
) -> None:
    before = (await oauth_provider.stats()).get("registration", 0)
    async with open_sources(guarded(guarded_url)) as app:
        calls = [app.call("work.whoami") for _ in range(20)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(item) for item in found} == {AuthorizationRequired}
        assert len({item.url for item in found if isinstance(item, AuthorizationRequired)}) == 1
        assert len(await app.store.secrets("pending")) == 1
        other = await asked_for_consent(app, who=ANN)
        assert other.url not in {item.url for item in found if isinstance(item, AuthorizationRequired)}
    assert (await oauth_provider.stats())["registration"] == before + 1


async def test_two_processes_hand_out_the_same_link_and_either_completes_it(
    bench: Bench, guarded_url: str, ann: User
) -> None:
    config = oauth_config(guarded_url)
    other = bench.another()
    one, two = await asyncio.gather(
        bench.oauth.begin(bench.source("work", config), ANN), other.begin(bench.source("work", config), ANN)
    )
    assert one == two
    back = await ann.follow(one.url)
    await other.complete(**back)
    assert await bench.oauth.token("work", config, ANN)


async def test_a_link_about_to_expire_is_not_handed_out_again(
    bench: Bench, turned: Turned, guarded_url: str
) -> None:
    config = oauth_config(guarded_url)
    first = await bench.oauth.begin(bench.source("work", config), ANN)
    turned.offset = 400
    assert (await bench.oauth.begin(bench.source("work", config), ANN)).state == first.state
    turned.offset = 500
    assert (await bench.oauth.begin(bench.source("work", config), ANN)).state != first.state


async def test_a_state_works_once_and_a_second_use_is_told_so(
    bench: Bench, guarded_url: str, ann: User
) -> None:
    config = oauth_config(guarded_url)
    back = await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    other = bench.another()
    found = await asyncio.gather(bench.oauth.complete(**back), other.complete(**back), return_exceptions=True)
    [refused] = [item for item in found if isinstance(item, AuthError)]
    assert "completed before" in refused.message
    with pytest.raises(AuthError, match="completed before"):
        await bench.oauth.complete(**back)
    assert await bench.oauth.token("work", config, ANN)


async def test_unknown_and_expired_states_are_told_apart(
    bench: Bench, turned: Turned, guarded_url: str, ann: User
) -> None:
    with pytest.raises(NotFoundError, match="not known"):
        await bench.oauth.complete("code", "made up", None)
    back = await ann.follow(
        (await bench.oauth.begin(bench.source("work", oauth_config(guarded_url)), ANN)).url
    )
    turned.offset = 601
    with pytest.raises(AuthError, match="has expired"):
        await bench.oauth.complete(**back)
    turned.offset = 2 * 24 * 3600
    await bench.oauth.begin(bench.source("work", oauth_config(guarded_url)), BEN)
    with pytest.raises(NotFoundError, match="not known"):
        await bench.oauth.complete(**back)


async def test_another_user_cannot_complete_a_login_and_does_not_spoil_it(
    bench: Bench, guarded_url: str, ann: User
) -> None:
    config = oauth_config(guarded_url)
    back = await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    with pytest.raises(PermissionDeniedError, match="another user"):
        await bench.oauth.complete(**back, principal=BEN)
    await bench.oauth.complete(**back, principal=ANN)
    assert await bench.oauth.token("work", config, ANN)
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("work", config, BEN)


@pytest.mark.parametrize("iss", ["https://evil.example", None])
async def test_an_answer_from_another_issuer_is_refused_for_good(
    bench: Bench, guarded_url: str, ann: User, iss: str | None
) -> None:
    back = await ann.follow(
        (await bench.oauth.begin(bench.source("work", oauth_config(guarded_url)), ANN)).url
    )
    right = back.pop("iss")
    with pytest.raises(AuthError, match="came from"):
        await bench.oauth.complete(**back, iss=iss)
    with pytest.raises(AuthError, match="completed before"):
        await bench.oauth.complete(**back, iss=right)


async def test_a_code_that_was_used_elsewhere_uses_the_state_up(
    bench: Bench, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    config = oauth_config(guarded_url, client_id="public")
    back = await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    async with httpx2.AsyncClient() as http:
        # Somebody who saw the code in passing has no verifier: the server checks PKCE, and spends the code.
        stolen = {
            "grant_type": "authorization_code", "code": back["code"], "client_id": "public",
            "redirect_uri": bench.oauth.redirect_uri, "code_verifier": "guessed" * 10,
        }  # fmt: skip
        answer = await http.post(f"{oauth_provider.issuer}/token", data=stolen)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    await bench.oauth.complete(**back)
    reused = await bench.oauth.begin(bench.source("work", config), BEN)
    with pytest.raises(AuthError, match="invalid_grant") as refused:
        await bench.oauth.complete(back["code"], reused.state, back["iss"])
    assert back["code"] not in str(refused.value)
    with pytest.raises(AuthError, match="completed before"):
        await bench.oauth.complete(back["code"], reused.state, back["iss"])


async def test_a_user_who_says_no_is_told_as_such(bench: Bench, guarded_url: str, ann: User) -> None:
    asked = await bench.oauth.begin(bench.source("work", oauth_config(guarded_url)), ANN)
    back = await ann.follow(asked.url, say="no")
    assert back["error"] == "access_denied"
    completed = await bench.oauth.complete(None, **back)
    assert completed.denied == "access_denied: the user said no"
    assert (completed.source, completed.principal) == ("work", "ann")
    with pytest.raises(AuthError, match="completed before"):
        await bench.oauth.complete("code", asked.state, back["iss"])


async def test_an_answer_with_neither_code_nor_error_leaves_the_state_usable(
    bench: Bench, guarded_url: str, ann: User
) -> None:
    back = await ann.follow(
        (await bench.oauth.begin(bench.source("work", oauth_config(guarded_url)), ANN)).url
    )
    with pytest.raises(InvalidArgumentsError, match="neither a code nor an error"):
        await bench.oauth.complete(None, back["state"], back["iss"])
    assert (await bench.oauth.complete(**back)).denied is None


@pytest.mark.parametrize(
    ("auth", "client"),
    [
        ({"client_id": "public"}, "public"),
        ({"client_id": "basic", "client_secret": "secret of basic: +%"}, "basic"),
        ({"client_id": "post", "client_secret": "secret-of-post-client"}, "post"),
        (
            {"client_metadata_url": "https://spindle.example/client.json"},
            "https://spindle.example/client.json",
        ),
    ],
    ids=["public", "basic", "post", "metadata document"],
)
async def test_each_kind_of_client_gets_tokens_and_refreshes_them(
    bench: Bench, turned: Turned, guarded_url: str, oauth_provider: OAuthProvider, ann: User,
    auth: dict[str, str], client: str,
) -> None:  # fmt: skip
    # The secret of "post" is shown as the server lists its methods: Basic first, which it refuses.
    # A secret from the settings is for the server that they name with it.
    issuer = {"issuer": oauth_provider.issuer, "scopes": ["read"]} if "client_secret" in auth else {}
    config = oauth_config(guarded_url, **auth, **issuer)
    await bench.oauth.complete(
        **await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    )
    first = await bench.oauth.token("work", config, ANN)
    assert (await oauth_provider.introspect(first))["client_id"] == client
    turned.offset = 3590
    second = await bench.oauth.token("work", config, ANN)
    assert second != first
    assert (await oauth_provider.introspect(second))["sub"] == "ann"


async def test_a_registration_that_the_provider_forgot_is_made_again(
    bench: Bench, turned: Turned, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    config = oauth_config(guarded_url)
    asked = await bench.oauth.begin(bench.source("work", config), ANN)
    await bench.oauth.complete(**await ann.follow(asked.url))
    client = parse_qs(urlsplit(asked.url).query)["client_id"][0]
    await oauth_provider.forget(client)
    turned.offset = 3590
    with pytest.raises(AuthorizationRequired) as again:
        await bench.oauth.token("work", config, ANN)
    assert parse_qs(urlsplit(again.value.url).query)["client_id"] != [client]
    await bench.oauth.complete(**await ann.follow(again.value.url))
    assert await bench.oauth.token("work", config, ANN)


async def test_a_server_that_asks_for_more_gets_it_with_the_user_s_consent(
    open_sources: OpenSources, guarded_url: str, ann: User
) -> None:
    async with open_sources(guarded(guarded_url)) as app:
        asked = await asked_for_consent(app)
        await app.auth.complete(**await ann.follow(asked.url))
        assert said(await app.call("work.whoami"))["scopes"] == ["read"]
        more = await asked_for_consent(app, "work.write")
        assert more.details["scopes"] == ["read", "offline_access", "write"]
        await app.auth.complete(**await ann.follow(more.url))
        assert said(await app.call("work.write"))["scopes"] == ["read", "write"]
        assert said(await app.call("work.whoami"))["scopes"] == ["read", "write"]


async def test_a_token_is_not_shown_to_another_server_under_the_same_name(
    bench: Bench, guarded_url: str, ann: User
) -> None:
    config = oauth_config(guarded_url, client_id="public")
    await bench.oauth.complete(
        **await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    )
    assert not await bench.oauth.needs_login(bench.source("work", config), ANN)
    elsewhere = oauth_config(
        "https://elsewhere.example/mcp",
        client_id="public",
        authorization_url="https://elsewhere.example/authorize",
        token_url="https://elsewhere.example/token",
    )
    assert await bench.oauth.needs_login(bench.source("work", elsewhere), ANN)
    with pytest.raises(AuthorizationRequired) as asked:
        await bench.oauth.token("work", elsewhere, ANN)
    assert asked.value.url.startswith("https://elsewhere.example/authorize?")


async def test_two_users_calls_each_carry_their_own_token(
    open_sources: OpenSources, guarded_url: str
) -> None:
    async with open_sources(guarded(guarded_url)) as app:
        for who in (ANN, BEN):
            async with User(who.id) as user:
                asked = await asked_for_consent(app, who=who)
                await app.auth.complete(**await user.follow(asked.url), principal=who)
        order = [ANN, BEN] * 20
        results = await asyncio.gather(
            *(app.call("work.whoami", {"by": who.id}, CallOptions(principal=who)) for who in order)
        )
        assert [said(result)["subject"] for result in results] == [who.id for who in order]
        assert [said(result)["by"] for result in results] == [who.id for who in order]
