"""Authorisation servers that fail, lie or lead astray."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.responses import JSONResponse, Response

from auth.conftest import Bench, Turned, oauth_config
from servers.echo_server import PUBLIC, Answer, EchoServer
from servers.odd_provider import DOWN, HUGE, PAGE, OddProvider, problem, redirect
from spindle.auth.encryption import Sealer
from spindle.auth.keys import new_key
from spindle.auth.oauth import OAuthHttp
from spindle.auth.oauth.challenge import Challenge, bearer_challenge
from spindle.auth.oauth.discovery import covers, metadata_places
from spindle.domain.identity import LOCAL
from spindle.errors import (
    AuthError,
    AuthorizationRequired,
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
    SpindleError,
    StoreError,
)
from spindle.http import addresses
from spindle.sources.openapi.config import OpenApiConfig

WELL_KNOWN = "/.well-known/oauth-protected-resource"


# --- discovery


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("Basic realm=x", None),
        ("Bearer", Challenge()),
        ('bearer scope="a b a", error=invalid_token', Challenge("invalid_token", ("a", "b"))),
        (
            'Basic realm="a, Bearer b", Bearer error="insufficient_scope", resource_metadata="https://x/y"',
            Challenge("insufficient_scope", (), "https://x/y"),
        ),
        ('Bearer realm="q\\"uoted", scope=one, Basic realm="scope=two"', Challenge(None, ("one",))),
    ],
)
def test_a_challenge_is_read_as_it_is_meant(header: str | None, expected: Challenge | None) -> None:
    assert bearer_challenge(header) == expected


def test_metadata_is_looked_for_where_the_standards_put_it() -> None:
    assert metadata_places("https://a.example") == [
        "https://a.example/.well-known/oauth-authorization-server",
        "https://a.example/.well-known/openid-configuration",
    ]
    assert metadata_places("https://a.example/t/1/") == [
        "https://a.example/.well-known/oauth-authorization-server/t/1",
        "https://a.example/.well-known/openid-configuration/t/1",
        "https://a.example/t/1/.well-known/openid-configuration",
    ]


def test_metadata_covers_what_lies_below_it_and_nothing_beside_it() -> None:
    assert covers("https://a.example", "https://a.example/mcp")
    assert covers("https://A.example/mcp/", "https://a.example/mcp")
    assert not covers("https://a.example/mcp", "https://a.example/mcp2")
    assert not covers("https://a.example", "https://a.example.evil")
    assert not covers("http://a.example", "https://a.example")


async def test_the_place_that_the_challenge_names_is_the_one_that_is_asked(
    bench: Bench, odd: OddProvider
) -> None:
    odd.challenge = f'Bearer resource_metadata="{odd.base}/elsewhere", scope="one two"'
    odd.other_answers["/elsewhere"] = JSONResponse(
        {"resource": odd.base, "authorization_servers": [odd.base], "scopes_supported": ["all"]}
    )
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    assert asked.scopes == ("one", "two")
    assert parse_qs(urlsplit(asked.url).query)["resource"] == [odd.base]
    assert not any(path.startswith(WELL_KNOWN) for path in odd.paths)


async def test_without_a_challenge_the_well_known_places_are_asked_and_the_answer_is_kept(
    bench: Bench, odd: OddProvider, turned: Turned
) -> None:
    odd.challenge = None
    odd.other_answers[f"{WELL_KNOWN}/mcp"] = Response(status_code=404)
    odd.other_answers[WELL_KNOWN] = JSONResponse(
        {"resource": odd.base, "authorization_servers": [f"{odd.base}/"], "scopes_supported": ["all"]}
    )
    config = oauth_config(odd.url, client_id="c")
    assert (await bench.oauth.begin(bench.source("s", config), LOCAL)).scopes == ("all",)
    seen = len(odd.paths)
    turned.offset = 500
    await bench.oauth.begin(bench.source("s", config), LOCAL)
    assert len(odd.paths) == seen
    turned.offset = 700
    await bench.oauth.begin(bench.source("s", config), LOCAL)
    assert len(odd.paths) > seen


async def test_a_server_of_the_first_version_is_its_own_authorisation_server(
    bench: Bench, odd: OddProvider
) -> None:
    odd.other_answers[f"{WELL_KNOWN}/mcp"] = Response(status_code=404)
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    assert asked.url.startswith(f"{odd.base}/authorize?")


async def test_settings_replace_discovery_and_their_own_parameters_stay(bench: Bench) -> None:
    config = OpenApiConfig.model_validate(
        {
            "document": "https://api.example/openapi.json",
            "auth": {
                "type": "oauth", "client_id": "c", "scopes": ["x"], "provider": "Example",
                "authorization_url": "https://login.example/go?access_type=offline",
                "token_url": "https://login.example/token",
            },
        }
    )  # fmt: skip
    asked = await bench.oauth.begin(bench.source("s", config), LOCAL)
    query = parse_qs(urlsplit(asked.url).query)
    assert asked.provider == "Example"
    assert query["access_type"] == ["offline"]
    assert "resource" not in query


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"issuer": "https://evil.example"}}, "about another issuer"),
        ({"metadata": {"issuer": None}}, "about another issuer"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"metadata": {"token_endpoint": None}}, "no token endpoint"),
        ({"metadata": {"token_endpoint": "file:///etc/passwd"}}, "not a web address"),
        ({"metadata": {"authorization_endpoint": "javascript:alert(1)"}}, "not a web address"),
        ({"metadata": {"token_endpoint": "http://login.example/token"}}, "not encrypted"),
        ({"resource": {"resource": "https://bank.example/mcp"}}, "is about https://bank.example"),
        ({"resource": {"authorization_servers": []}}, "names no authorisation server"),
        ({"resource": {"authorization_servers": ["http://login.example"]}}, "not encrypted"),
    ],
)
async def test_metadata_that_is_not_right_is_refused_with_the_reason(
    bench: Bench, odd: OddProvider, change: dict[str, Any], message: str
) -> None:
    for part, value in change.items():
        getattr(odd, part).update(value)
    with pytest.raises(AuthError, match=message):
        await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    assert await bench.store.secrets("pending") == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [(DOWN, "HTTP status 503"), (HUGE, "more than"), (PAGE, "no OAuth metadata")],
    ids=["503", "huge", "a page"],
)
async def test_metadata_that_cannot_be_had_is_an_error_and_not_a_hang(
    bench: Bench, odd: OddProvider, answer: Response, message: str
) -> None:
    odd.other_answers["/.well-known/oauth-authorization-server"] = answer
    with pytest.raises(SpindleError, match=message):
        await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)


async def test_redirects_of_metadata_are_followed_within_reason(bench: Bench, odd: OddProvider) -> None:
    place = f"{WELL_KNOWN}/mcp"
    odd.other_answers[place] = redirect(f"{odd.base}/moved")
    odd.other_answers["/moved"] = JSONResponse({"resource": odd.base, "authorization_servers": [odd.base]})
    assert await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    odd.other_answers["/moved"] = redirect(f"{odd.base}/moved")
    with pytest.raises(ServerError, match="redirected more than 3 times"):
        await bench.another().begin(bench.source("s2", oauth_config(odd.url, client_id="c")), LOCAL)
    odd.other_answers["/moved"] = redirect("http://plain.example/")
    with pytest.raises(AuthError, match="not encrypted"):
        await bench.another().begin(bench.source("s3", oauth_config(odd.url, client_id="c")), LOCAL)


async def test_metadata_of_a_public_source_may_not_lead_into_this_network(
    bench: Bench, odd: OddProvider, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    url = f"{echo.public_url}/mcp"
    described = {"resource": url, "authorization_servers": [odd.base]}
    echo.answers[f"{WELL_KNOWN}/mcp"] = Answer(json.dumps(described).encode())
    oauth = bench.another()
    with pytest.raises(AuthError, match="inside this network"):
        await oauth.begin(bench.source("s", oauth_config(url, client_id="c")), LOCAL)
    # What the user wrote is the user's own decision.
    allowed = oauth_config(url, client_id="c", issuer=odd.base)
    assert await oauth.begin(bench.source("s", allowed), LOCAL)


@pytest.mark.parametrize(
    ("source", "provider"),
    [
        ([PUBLIC], [PUBLIC, "127.0.0.1"]),
        ([PUBLIC, "127.0.0.1"], ["127.0.0.1"]),
    ],
    ids=["the provider's", "the source's own"],
)
async def test_a_name_that_changes_its_address_does_not_lead_into_this_network(
    source: list[str], provider: list[str], echo: EchoServer, names: dict[str, list[str]]
) -> None:
    """The addresses that are checked are those connected, and who was outside once stays outside."""
    names |= {"localhost": source, "localhost.": provider}
    url, issuer = (echo.url.replace("127.0.0.1", name) for name in ("localhost", "localhost."))
    http = OAuthHttp()
    await http.get(f"{url}/mcp", found_by=None)
    try:
        await http.get(f"{issuer}/metadata", found_by=f"{url}/mcp")
    except AuthError as error:
        assert "inside this network" in error.message  # noqa: PT017 - it may as well be let through
    await http.close()
    assert {request.address for request in echo.requests} == {PUBLIC}


async def test_a_source_with_an_address_outside_is_not_inside(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses_of(host: str) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"] if host == "many.test" else [host]

    monkeypatch.setattr(addresses, "addresses_of", addresses_of)
    http = OAuthHttp()
    with pytest.raises(AuthError, match="inside this network"):
        await http.get(f"{echo.url}/metadata", found_by="https://many.test/mcp")
    await http.close()
    assert echo.requests == []


async def test_a_source_that_is_not_on_the_network_needs_its_provider_in_the_settings(bench: Bench) -> None:
    from spindle.sources.mcp.config import McpConfig

    config = McpConfig.model_validate({"command": "x", "auth": {"type": "oauth", "env": "TOKEN"}})
    with pytest.raises(ConfigurationError, match=r"sources\.s\.auth does not say where"):
        await bench.oauth.begin(bench.source("s", config), LOCAL)


# --- clients


async def test_registration_says_what_we_are_and_a_secret_it_gives_is_used(
    bench: Bench, odd: OddProvider
) -> None:
    odd.metadata["registration_endpoint"] = f"{odd.base}/register"
    given = {
        "client_id": "given",
        "client_secret": "given-secret",
        "token_endpoint_auth_method": "client_secret_post",
    }
    odd.other_answers["/register"] = JSONResponse(given, 201)
    config = oauth_config(odd.url)
    await bench.log_in(config)
    assert odd.forms[-1]["client_id"] == "given"
    assert odd.forms[-1]["client_secret"] == "given-secret"
    assert await bench.oauth.token_after(
        "s", config, LOCAL, "odd-access-1", AuthError("no", status=401)
    ) == "odd-access-2"  # fmt: skip
    assert odd.forms[-1]["client_secret"] == "given-secret"


@pytest.mark.parametrize("answer", [problem("invalid_redirect_uri"), PAGE, DOWN], ids=["no", "page", "503"])
async def test_a_registration_that_is_refused_says_how_to_go_on(
    bench: Bench, odd: OddProvider, answer: Response
) -> None:
    odd.metadata["registration_endpoint"] = f"{odd.base}/register"
    odd.other_answers["/register"] = answer
    with pytest.raises(SpindleError) as error:
        await bench.oauth.begin(bench.source("s", oauth_config(odd.url)), LOCAL)
    assert "client_id" in (error.value.hint or "")


async def test_a_provider_that_takes_no_registrations_needs_a_client_in_the_settings(
    bench: Bench, odd: OddProvider
) -> None:
    with pytest.raises(ConfigurationError, match="does not register new clients") as error:
        await bench.oauth.begin(bench.source("s", oauth_config(odd.url)), LOCAL)
    assert bench.oauth.redirect_uri in (error.value.hint or "")


@pytest.mark.parametrize(
    ("methods", "basic", "post"),
    [(["client_secret_post"], False, True), (["client_secret_basic", "client_secret_post"], True, False)],
)
async def test_a_secret_is_shown_in_the_way_that_the_server_knows(
    bench: Bench, odd: OddProvider, methods: list[str], basic: bool, post: bool
) -> None:
    odd.metadata["token_endpoint_auth_methods_supported"] = methods
    await bench.log_in(oauth_config(odd.url, client_id="c", client_secret="hush-hush"))
    assert odd.forms[-1]["authorization"].startswith("Basic ") == basic
    assert (odd.forms[-1].get("client_secret") == "hush-hush") == post


async def test_a_client_that_is_refused_with_basic_shows_its_secret_in_the_form(
    bench: Bench, odd: OddProvider
) -> None:
    odd.token_answers = [problem("invalid_client", 401)]
    await bench.log_in(oauth_config(odd.url, client_id="c", client_secret="hush-hush"))
    assert odd.forms[-1]["client_secret"] == "hush-hush"


async def test_a_lost_key_does_not_stand_in_the_way_of_a_new_login(bench: Bench, odd: OddProvider) -> None:
    odd.metadata["registration_endpoint"] = f"{odd.base}/register"
    config = oauth_config(odd.url)
    await bench.log_in(config)
    await bench.oauth.begin(bench.source("s", config), LOCAL)
    key = new_key()
    later = bench.another(Sealer(lambda: [key]))
    try:
        with pytest.raises(StoreError, match="another key"):
            await later.token("s", config, LOCAL)
        [known] = await later.list()
        assert "another key" in (known.problem or "")
        await later.complete("c", (await later.begin(bench.source("s", config), LOCAL)).state)
        assert await later.token("s", config, LOCAL) == "odd-access-2"
        revoked = await bench.oauth.revoke(bench.source("s", config), "local")  # which cannot read it
        assert revoked is not None
        assert "another key" in (revoked.problem or "")
        assert await later.list() == []
    finally:
        await later.close()


# --- the exchange


@pytest.mark.parametrize(
    "answer",
    [
        DOWN,
        PAGE,
        HUGE,
        Response("slow down", 429),
        JSONResponse({"token_type": "bearer"}),
        JSONResponse({"access_token": "x", "token_type": "mac"}),
        JSONResponse({"access_token": "line\nbreak", "token_type": "bearer"}),
        JSONResponse(["access_token"]),
        redirect("http://127.0.0.1:9/stolen"),
    ],
    ids=["503", "page", "huge", "429", "no token", "other type", "unsendable", "list", "redirect"],
)
async def test_an_exchange_that_failed_for_now_leaves_the_state_usable(
    bench: Bench, odd: OddProvider, answer: Response
) -> None:
    config = oauth_config(odd.url, client_id="c")
    asked = await bench.oauth.begin(bench.source("s", config), LOCAL)
    odd.token_answers = [answer]
    with pytest.raises(ServerError):
        await bench.oauth.complete("the-code", asked.state)
    assert (await bench.oauth.complete("the-code", asked.state)).denied is None
    assert await bench.oauth.token("s", config, LOCAL) == "odd-access-1"


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"error": "bad_refresh_token", "error_description": "expired"}),
        JSONResponse({"ok": False, "error": "invalid_refresh_token"}),
    ],
    ids=["as GitHub", "as Slack"],
)
async def test_a_refusal_with_the_status_of_success_is_a_refusal(
    bench: Bench, odd: OddProvider, turned: Turned, answer: Response
) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    turned.offset = 4000
    odd.token_answers = [answer]
    with pytest.raises(AuthorizationRequired):
        await bench.oauth.token("s", config, LOCAL)
    assert await bench.oauth.list() == []


async def test_a_secret_that_is_refused_in_one_place_is_shown_in_the_other_whatever_the_status(
    bench: Bench, odd: OddProvider
) -> None:
    endpoints = {"authorization_url": f"{odd.base}/authorize", "token_url": f"{odd.base}/token"}
    config = oauth_config(odd.url, client_id="c", client_secret="s", **endpoints)
    odd.token_answers = [JSONResponse({"error": "incorrect_client_credentials"})]
    await bench.log_in(config)
    first, second = odd.forms
    assert first["authorization"].startswith("Basic ")
    assert (second["client_id"], second["client_secret"]) == ("c", "s")


async def test_a_user_s_token_as_slack_gives_it_is_one(bench: Bench, odd: OddProvider) -> None:
    config = oauth_config(odd.url, client_id="c")
    answer = {"ok": True, "access_token": "xoxp-1", "token_type": "user", "scope": "chat:write,users:read"}
    odd.token_answers = [JSONResponse(answer)]
    await bench.log_in(config)
    assert await bench.oauth.token("s", config, LOCAL) == "xoxp-1"
    (info,) = await bench.oauth.list()
    assert info.scopes == ("chat:write", "users:read")


async def test_a_provider_that_cannot_be_reached_leaves_the_state_usable(
    bench: Bench, odd: OddProvider
) -> None:
    config = oauth_config(odd.url, client_id="c", issuer=odd.base, token_url="http://127.0.0.1:9/token")
    asked = await bench.oauth.begin(bench.source("s", config), LOCAL)
    for _ in range(2):
        with pytest.raises(ConnectionFailedError, match="cannot reach") as error:
            await bench.oauth.complete("the-code", asked.state)
        assert error.value.retryable


@pytest.mark.parametrize(
    "code", ["invalid_grant", "invalid_request", "unauthorized_client", "invalid_target"]
)
async def test_an_exchange_that_can_never_succeed_uses_the_state_up(
    bench: Bench, odd: OddProvider, code: str
) -> None:
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    odd.token_answers = [problem(code, error_description="the-code was no good, nor was " + "x" * 500)]
    with pytest.raises(AuthError, match=code) as error:
        await bench.oauth.complete("the-code", asked.state)
    assert "the-code" not in error.value.message
    assert len(error.value.message) < 300
    with pytest.raises(AuthError, match="completed before"):
        await bench.oauth.complete("the-code", asked.state)


async def test_a_provider_with_a_passing_trouble_lets_the_user_follow_the_link_again(
    bench: Bench, odd: OddProvider
) -> None:
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    with pytest.raises(ServerError, match="temporarily_unavailable") as error:
        await bench.oauth.complete(None, asked.state, error="temporarily_unavailable")
    assert error.value.retryable
    assert (await bench.oauth.complete("the-code", asked.state)).denied is None


async def test_two_that_complete_one_state_at_once_cause_one_exchange(bench: Bench, odd: OddProvider) -> None:
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    odd.gate = asyncio.Event()
    other = bench.another()
    tasks = [asyncio.create_task(oauth.complete("c", asked.state)) for oauth in (bench.oauth, other)]
    await odd.arrived.wait()
    odd.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(item, AuthError) for item in found) == 1
    assert len(odd.forms) == 1


async def test_a_completed_state_keeps_no_verifier(bench: Bench, odd: OddProvider) -> None:
    asked = await bench.oauth.begin(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)
    await bench.oauth.complete("the-code", asked.state)
    [secret] = await bench.store.secrets("pending")
    kept = bench.sealer.open(secret.sealed, f"pending {secret.key}")
    assert secret.used
    assert not kept.keys() & {"verifier", "state", "client", "url"}


# --- revocation


@pytest.mark.parametrize(
    ("answer", "problem_says"), [(DOWN, "503"), (problem("unsupported_token_type"), "unsupported_token_type")]
)
async def test_a_revocation_that_fails_at_the_provider_still_ends_access_here(
    bench: Bench, odd: OddProvider, answer: Response, problem_says: str
) -> None:
    odd.metadata["revocation_endpoint"] = f"{odd.base}/revoke"
    odd.other_answers["/revoke"] = answer
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    revoked = await bench.oauth.revoke(bench.source("s", config), "local")
    assert revoked is not None
    assert not revoked.at_provider
    assert problem_says in (revoked.problem or "")
    assert "odd-" not in (revoked.problem or "")
    assert await bench.oauth.list() == []


async def test_a_revoked_user_s_open_links_no_longer_work(bench: Bench, odd: OddProvider) -> None:
    config = oauth_config(odd.url, client_id="c")
    await bench.log_in(config)
    asked = await bench.oauth.begin(bench.source("s", config), LOCAL, scopes=["more"])
    revoked = await bench.oauth.revoke(bench.source("s", None), "local")
    assert revoked is not None
    assert "does not support revocation" in (revoked.problem or "")
    with pytest.raises(SpindleError, match="not known"):
        await bench.oauth.complete("c", asked.state)


# --- secrets


async def test_no_secret_is_in_a_log_an_error_a_repr_or_the_store_in_clear(
    bench: Bench, odd: OddProvider, turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config = oauth_config(odd.url, client_id="c", client_secret="planted-client-secret")
    asked = await bench.oauth.begin(bench.source("s", config), LOCAL)
    odd.token_answers = [
        DOWN,
        JSONResponse(
            {
                "access_token": "planted-access",
                "refresh_token": "planted-refresh",
                "token_type": "bearer",
                "expires_in": 60,
            }
        ),
        problem("invalid_scope", error_description="planted-refresh planted-client-secret"),
    ]
    shown = [repr(asked), repr(bench.oauth)]
    with pytest.raises(ServerError) as failed:
        await bench.oauth.complete("planted-code", asked.state)
    shown.append(f"{failed.value!r} {failed.value.to_dict()}")
    shown.append(repr(await bench.oauth.complete("planted-code", asked.state)))
    turned.offset = 100
    with pytest.raises(AuthError) as refused:
        await bench.oauth.token("s", config, LOCAL)
    shown.append(f"{refused.value!r} {refused.value.to_dict()}")
    shown.append(repr(await bench.oauth.list()))
    shown += [record.getMessage() + str(record.args) for record in caplog.records]
    stored = b"".join(
        file.read_bytes() for file in bench.path.parent.iterdir() if file.name.startswith(bench.path.name)
    )
    for secret in ("planted-access", "planted-refresh", "planted-client-secret", "planted-code", asked.state):
        assert not [text for text in shown if secret in text], secret
        assert secret.encode() not in stored
