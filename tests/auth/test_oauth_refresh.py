"""Tokens stay valid: refreshed before they end, after a refusal, and once for all who wait."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from auth.conftest import Bench, Turned, oauth_config
from servers.oauth import OAuthProvider, User
from servers.odd_provider import DOWN, PAGE, OddProvider, problem
from servers.running import PATIENCE, OpenSources
from spindle.calls.caller import CallOptions
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import AuthError, AuthorizationRequired, PermissionDeniedError, ServerError, SpindleError

ANN = Principal("ann")
PROCESS = Path(__file__).parent / "refresh_process.py"


async def refreshes(provider: OAuthProvider) -> int:
    return (await provider.stats()).get("refresh_token", 0)


def refused(status: int = 401, challenge: str = "Bearer") -> SpindleError:
    return AuthError("refused", status=status, challenge=challenge)


async def test_fifty_parallel_calls_at_expiry_cause_one_refresh(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider, ann: User, turned: Turned
) -> None:
    sources = {
        "work": {"url": guarded_url, "auth": {"type": "oauth"}, "max_concurrency": 50},
    }
    async with open_sources(sources, clock=turned.clock) as app:
        asked = await app.auth.begin("work")
        await app.auth.complete(**await ann.follow(asked.url))
        await app.call("work.whoami")
        before = await refreshes(oauth_provider)
        turned.offset = 3570
        results = await asyncio.gather(*(app.call("work.whoami") for _ in range(50)))
        assert {json.loads(result.text)["subject"] for result in results} == {"ann"}
        assert await refreshes(oauth_provider) == before + 1


async def test_two_processes_at_expiry_cause_one_refresh(
    bench: Bench, tmp_path: Path, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    config = oauth_config(guarded_url)
    await bench.oauth.complete(
        **await ann.follow((await bench.oauth.begin(bench.source("work", config), LOCAL)).url)
    )
    before = await refreshes(oauth_provider)
    options = {
        "store": str(bench.path), "url": guarded_url, "offset": 3570, "calls": 25,
        "key": bench.key,
    }  # fmt: skip
    command = [sys.executable, str(PROCESS), json.dumps(options)]
    pipe = asyncio.subprocess.PIPE
    workers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    try:
        async with asyncio.timeout(PATIENCE * 2):
            for worker in workers:
                assert worker.stdout is not None
                assert await worker.stdout.readline() == b"ready\n"
            outputs = await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
    told = [json.loads(out) for out, _ in outputs]
    assert [item["subjects"] for item in told] == [["ann"], ["ann"]]
    assert told[0]["token"] == told[1]["token"]
    assert await refreshes(oauth_provider) == before + 1


async def test_a_token_that_the_server_refuses_is_refreshed_once_and_the_call_goes_on(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    async with open_sources({"work": {"url": guarded_url, "auth": {"type": "oauth"}}}) as app:
        asked = await app.auth.begin("work")
        await app.auth.complete(**await ann.follow(asked.url))
        assert not (await app.call("work.whoami")).is_error
        config = app.catalog.sources.config("work")
        token = await app.auth.token("work", config, LOCAL)
        await oauth_provider.end(token)
        before = await refreshes(oauth_provider)
        results = await asyncio.gather(*(app.call("work.whoami") for _ in range(10)))
        assert {json.loads(result.text)["subject"] for result in results} == {"ann"}
        assert await refreshes(oauth_provider) == before + 1


async def test_access_that_was_revoked_at_the_provider_needs_consent_again(
    bench: Bench, turned: Turned, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    config = oauth_config(guarded_url, client_id="public")
    await bench.oauth.complete(
        **await ann.follow((await bench.oauth.begin(bench.source("work", config), ANN)).url)
    )
    token = await bench.oauth.token("work", config, ANN)
    revoked = await bench.another().revoke(bench.source("work", config), "ann")
    assert revoked is not None
    assert (revoked.at_provider, revoked.problem) == (True, None)
    assert not (await oauth_provider.introspect(token))["active"]
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("work", config, ANN)
    assert await bench.oauth.revoke(bench.source("work", config), "ann") is None


async def test_a_refresh_token_that_is_refused_is_forgotten_and_the_user_asked(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    turned.offset = 4000
    odd.token_answers = [problem("invalid_grant", error_description="odd-refresh-1 is gone")]
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("s", config, LOCAL)
    assert await bench.oauth.list() == []


@pytest.mark.parametrize("answer", [DOWN, PAGE], ids=["503", "a page"])
async def test_a_provider_that_is_down_does_not_matter_while_the_token_is_valid(
    bench: Bench, odd: OddProvider, turned: Turned, answer: Any
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    odd.token_answers = [answer, answer]
    turned.offset = 3590
    assert await bench.oauth.token("s", config, LOCAL) == "odd-access-1"
    turned.offset = 3700
    with pytest.raises(ServerError) as error:
        await bench.oauth.token("s", config, LOCAL)
    assert error.value.retryable
    assert await bench.oauth.token("s", config, LOCAL) == "odd-access-2"


async def test_a_caller_who_gives_up_does_not_end_the_refresh_of_the_others(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    turned.offset = 4000
    odd.arrived.clear()
    odd.gate = asyncio.Event()
    calls = [asyncio.create_task(bench.oauth.token("s", config, LOCAL)) for _ in range(3)]
    await odd.arrived.wait()
    calls[0].cancel()
    await asyncio.gather(calls[0], return_exceptions=True)
    odd.gate.set()
    assert await asyncio.gather(*calls[1:]) == ["odd-access-2"] * 2
    assert [form["grant_type"] for form in odd.forms] == ["authorization_code", "refresh_token"]


async def test_a_refresh_that_another_process_did_meanwhile_is_not_done_again(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    turned.offset = 4000
    odd.arrived.clear()
    odd.gate = asyncio.Event()
    others = [bench.another() for _ in range(3)]
    calls = [asyncio.create_task(oauth.token("s", config, LOCAL)) for oauth in (bench.oauth, *others)]
    await odd.arrived.wait()
    odd.gate.set()
    assert await asyncio.gather(*calls) == ["odd-access-2"] * 4
    assert [form.get("refresh_token") for form in odd.forms] == [None, "odd-refresh-1"]


async def test_a_token_without_a_refresh_token_is_used_until_it_ends(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    from starlette.responses import JSONResponse

    config = oauth_config(odd.url, client_id="c")
    odd.token_answers = [JSONResponse({"access_token": "only", "token_type": "bearer", "expires_in": 100})]
    await bench.log_in(config)
    turned.offset = 95
    assert await bench.oauth.token("s", config, LOCAL) == "only"
    turned.offset = 101
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("s", config, LOCAL)


async def test_a_refused_token_that_another_call_replaced_is_not_refreshed_again(
    bench: Bench, odd: OddProvider
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    assert await bench.oauth.token_after("s", config, LOCAL, "odd-access-1", refused()) == "odd-access-2"
    assert await bench.oauth.token_after("s", config, LOCAL, "odd-access-1", refused()) == "odd-access-2"
    assert len(odd.forms) == 2


async def test_a_server_that_refuses_even_fresh_tokens_does_not_make_the_user_consent_in_circles(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    assert await bench.oauth.token_after("s", config, LOCAL, "odd-access-1", refused()) == "odd-access-2"
    with pytest.raises(AuthError, match="has just given") as error:
        await bench.oauth.token_after("s", config, LOCAL, "odd-access-2", refused())
    assert "odd-access" not in f"{error.value} {error.value.hint}"
    # Long after the consent it may be worth another one.
    turned.offset = 600
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token_after("s", config, LOCAL, "odd-access-2", refused())
    assert await bench.oauth.list() == []


async def test_scopes_that_were_granted_and_are_asked_for_again_are_not_asked_of_the_user(
    bench: Bench, odd: OddProvider
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    error = PermissionDeniedError(
        "no", status=403, challenge='Bearer error="insufficient_scope", scope="admin"'
    )
    with pytest.raises(AuthorizationRequired) as asked:
        await bench.oauth.token_after("s", config, LOCAL, "odd-access-1", error)
    assert asked.value.details["scopes"] == ["admin"]
    pending = await bench.oauth.begin(bench.source("s", config), LOCAL, scopes=["admin"])
    assert pending.url == asked.value.url
    await bench.oauth.complete("code", pending.state)
    assert await bench.oauth.token_after("s", config, LOCAL, "odd-access-2", error) is None
    plain = PermissionDeniedError("no", status=403)
    assert await bench.oauth.token_after("s", config, LOCAL, "odd-access-2", plain) is None


async def test_a_scope_added_to_the_settings_is_asked_for(bench: Bench, odd: OddProvider) -> None:
    await bench.log_in(oauth_config(odd.url, client_id="c", scopes=["read"]))
    more = oauth_config(odd.url, client_id="c", scopes=["read", "write"])
    with pytest.raises(AuthorizationRequired) as asked:
        await bench.oauth.token("s", more, LOCAL)
    assert asked.value.details["scopes"] == ["read", "write"]


async def test_a_configured_client_that_is_no_longer_known_is_the_settings_mistake(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    turned.offset = 4000
    odd.token_answers = [problem("invalid_client", 401)]
    with pytest.raises(AuthError, match="invalid_client") as error:
        await bench.oauth.token("s", config, LOCAL)
    assert "client_id" in (error.value.hint or "")
    assert len(await bench.oauth.list()) == 1


async def test_client_credentials_are_fetched_once_kept_until_they_end_and_refetched_after_a_refusal(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider, turned: Turned
) -> None:
    auth = {
        "type": "client_credentials", "client_id": "service", "client_secret": "secret-of-service-client",
        "scopes": ["read"], "issuer": oauth_provider.issuer,
    }  # fmt: skip
    counted = "client_credentials"
    async with open_sources({"work": {"url": guarded_url, "auth": auth}}, clock=turned.clock) as app:
        before = (await oauth_provider.stats()).get(counted, 0)
        who = [CallOptions(principal=Principal(name)) for name in ("ann", "ben")] * 5
        results = await asyncio.gather(*(app.call("work.whoami", {}, options) for options in who))
        assert {json.loads(result.text)["client"] for result in results} == {"service"}
        assert (await oauth_provider.stats())[counted] == before + 1
        turned.offset = 3590
        await app.call("work.whoami")
        assert (await oauth_provider.stats())[counted] == before + 2
        config = app.catalog.sources.config("work")
        token = await app.auth.token("work", config, LOCAL)
        fresh = await app.auth.token_after("work", config, LOCAL, token, refused())
        assert fresh not in (None, token)
        assert await app.auth.token_after("work", config, LOCAL, token, refused()) == fresh
        assert (await oauth_provider.stats())[counted] == before + 3


async def test_client_credentials_that_are_refused_name_the_setting(
    open_sources: OpenSources, guarded_url: str, oauth_provider: OAuthProvider
) -> None:
    auth = {
        "type": "client_credentials", "client_id": "service", "client_secret": "a-wrong-secret",
        "issuer": oauth_provider.issuer,
    }  # fmt: skip
    async with open_sources({"work": {"url": guarded_url, "auth": auth}}) as app:
        report = (await app.sync("work"))[0]
        assert report.error is not None
        assert report.error["category"] == "auth"
        assert "invalid_client" in report.error["message"]
        assert "sources.work.auth" in report.error["hint"]
        assert "a-wrong-secret" not in json.dumps(report.error)
