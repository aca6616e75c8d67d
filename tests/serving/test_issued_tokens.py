"""Tokens of an authorisation server: with real keys, fetched from a real server."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from servers.issuing import (
    AUDIENCE,
    ISSUER,
    KeyServer,
    public,
    publishing,
    signed,
    signed_with_the_public_key,
    unsigned,
)
from spindle.auth.clients import KnownClients
from spindle.auth.issuer import FLOOR, GOOD_FOR, MAX_KEYS_SIZE, Issuer
from spindle.domain.identity import Principal
from spindle.domain.serve import JwtConfig, ServeConfig
from spindle.errors import AuthError, ConnectionFailedError, PermissionDeniedError, SpindleError


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    with publishing() as server:
        yield server


@pytest.fixture
def own_keys() -> Iterator[KeyServer]:
    with publishing() as server:
        yield server


def config(keys: KeyServer, **others: Any) -> JwtConfig:
    return JwtConfig.model_validate({"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": keys.url, **others})


def check(keys: KeyServer, token: str, **settings: Any) -> Any:
    return asyncio.run(Issuer(config(keys, **settings)).claims(token))


def who(keys: KeyServer, token: str, **settings: Any) -> Principal:
    serve = ServeConfig.model_validate({"jwt": config(keys, **settings).model_dump()})
    return asyncio.run(KnownClients.of(serve, {}).identify(token))


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(algorithm="PS256"),
        signed(algorithm="RS512"),
        signed("ec", "ES256"),
        signed("ed", "EdDSA"),
        signed("ec", "ES256", shown_kid=None),
        signed(aud=["x", AUDIENCE]),
    ],
    ids=map(str, itertools.count()),
)
def test_a_token_that_is_good_is_taken(keys: KeyServer, token: str) -> None:
    assert check(keys, token)["sub"] == "ann"


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (unsigned(), "signed in a way that is not accepted"),
        (signed_with_the_public_key(), "signed in a way that is not accepted"),
        (signed("rsa-2", shown_kid="rsa"), "is not valid"),
        (signed("rsa-2"), "a key that its issuer does not publish"),
        (signed("rsa", shown_kid="ec"), "a key that its issuer does not publish"),
        (signed("ec-384", "ES384", shown_kid="ec"), "a key that its issuer does not publish"),
        (signed("weak"), "is not valid"),
        (signed(shown_kid=None), "a key that its issuer does not publish"),
        (signed()[:-4] + "AAAA", "is not valid"),
        (signed(exp=1_700_000_000), "has expired"),
        (signed(exp=None), "lacks exp, iss or aud"),
        (signed(nbf=int(time.time()) + 36_000), "not valid yet"),
        (signed(aud="https://other.example.com"), "for another audience"),
        (signed(aud=None), "lacks exp, iss or aud"),
        (signed(aud=5), "for another audience"),
        (signed(iss="https://login.example.com"), "from another issuer"),
        (signed(iss=None), "lacks exp, iss or aud"),
        (signed(exp="soon"), "is not valid"),
        (signed(exp=float("inf")), "cannot be read|is not valid"),
        ("", "not one that was issued"),
        ("a.b.c", "not one that was issued"),
        ("....", "not one that was issued"),
        ("é.é.é", "not one that was issued"),
        ("x" * 20_000, "too long"),
    ],
    ids=map(str, itertools.count()),
)
def test_a_token_that_is_not_good_is_refused(keys: KeyServer, token: str, says: str) -> None:
    with pytest.raises(AuthError, match=says) as caught:
        check(keys, token)
    assert token[-20:] == "" or token[-20:] not in caught.value.message


def test_clocks_may_differ_by_the_leeway_and_no_more(keys: KeyServer) -> None:
    hour = 3600
    late, early = signed(exp=int(time.time()) - 300), signed(nbf=int(time.time()) + hour)
    assert check(keys, late, leeway=600)
    for token in (late, early):
        with pytest.raises(AuthError, match=r"has expired|not valid yet"):
            check(keys, token, leeway=10)
    assert check(keys, signed(nbf=int(time.time()) + 60), leeway=600)


def test_only_the_algorithms_that_are_allowed_are(keys: KeyServer) -> None:
    with pytest.raises(AuthError, match="not accepted here"):
        check(keys, signed(), algorithms=["ES256"])
    assert check(keys, signed("ec", "ES256"), algorithms="ES256")["sub"] == "ann"


def test_a_key_for_one_algorithm_or_use_serves_no_other(own_keys: KeyServer) -> None:
    own_keys.keys = [public("rsa", alg="RS512"), public("ec", use="enc")]
    assert check(own_keys, signed(algorithm="RS512"))["sub"] == "ann"
    for token in (signed(), signed("ec", "ES256")):
        with pytest.raises(AuthError, match="does not publish"):
            check(own_keys, token)


@pytest.mark.parametrize(
    "given",
    [{"scope": "tools other"}, {"scp": ["tools", "x"]}, {"scp": "tools"}],
)
def test_scopes_are_read_in_every_form(keys: KeyServer, given: dict[str, Any]) -> None:
    assert check(keys, signed(**given), required_scopes=["tools"])


@pytest.mark.parametrize("given", [{}, {"scope": "tool"}, {"scope": 5}, {"scp": [1]}])
def test_a_scope_that_is_missing_is_named(keys: KeyServer, given: dict[str, Any]) -> None:
    with pytest.raises(PermissionDeniedError, match="lacks the scope tools"):
        check(keys, signed(**given), required_scopes=["tools"])


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        ({}, {}, Principal("ann", frozenset({"guest"}))),
        ({"groups": ["a", "b", 5]}, {}, Principal("ann", frozenset({"a", "b"}))),
        ({"groups": "a"}, {}, Principal("ann", frozenset({"a"}))),
        ({"groups": {"a": 1}}, {}, Principal("ann", frozenset({"guest"}))),
        ({"email": "a@b.c"}, {"user_claim": "email"}, Principal("a@b.c", frozenset({"guest"}))),
        (
            {"realm": {"roles": ["x"]}},
            {"groups_claim": "realm.roles"},
            Principal("ann", frozenset({"x"})),
        ),
        ({"a.b": ["x"]}, {"groups_claim": "a.b"}, Principal("ann", frozenset({"x"}))),
    ],
)
def test_the_user_and_the_groups_come_from_the_claims(
    keys: KeyServer, given: dict[str, Any], settings: dict[str, Any], expected: Principal
) -> None:
    assert who(keys, signed(**given), **settings) == expected


@pytest.mark.parametrize("user", ["local", "client", "", "  ", "x" * 300])
def test_a_token_cannot_pass_for_the_owner_or_for_nobody(keys: KeyServer, user: str) -> None:
    with pytest.raises(AuthError, match="the token's sub"):
        who(keys, signed(sub=user))


def test_a_user_claim_that_is_missing_names_nobody(keys: KeyServer) -> None:
    with pytest.raises(AuthError, match="email names nobody"):
        who(keys, signed(), user_claim="email")


def test_a_new_key_is_fetched_but_not_for_every_token(own_keys: KeyServer) -> None:
    now = [1000.0]

    async def story() -> None:
        issuer = Issuer(config(own_keys), now=lambda: now[0])
        await asyncio.gather(*(issuer.claims(signed()) for _ in range(10)))
        assert own_keys.fetches == 1
        own_keys.keys.append(public("rsa-2"))
        for _ in range(5):
            with pytest.raises(AuthError):
                await issuer.claims(signed("rsa-2"))
        assert own_keys.fetches == 1
        now[0] += FLOOR
        assert await issuer.claims(signed("rsa-2"))
        assert own_keys.fetches == 2
        # A key that is withdrawn is forgotten in time.
        own_keys.keys = [public("rsa-2")]
        assert await issuer.claims(signed())
        now[0] += GOOD_FOR
        with pytest.raises(AuthError):
            await issuer.claims(signed())

    asyncio.run(story())


def test_keys_stay_good_while_their_server_is_away_and_none_are_an_error_of_ours(own_keys: KeyServer) -> None:
    now = [1000.0]

    async def story() -> None:
        issuer = Issuer(config(own_keys), now=lambda: now[0])
        own_keys.status = 500
        with pytest.raises(ConnectionFailedError, match="HTTP status 500"):
            await issuer.claims(signed())
        own_keys.status = 200
        now[0] += FLOOR
        assert await issuer.claims(signed())
        own_keys.status = 500
        now[0] += GOOD_FOR
        assert await issuer.claims(signed())

    asyncio.run(story())


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"keys": 5}', b" " * (MAX_KEYS_SIZE + 1), b"[" * 100_000]
)
def test_what_is_no_set_of_keys_is_said(own_keys: KeyServer, body: bytes) -> None:
    own_keys.body = body
    with pytest.raises(ConnectionFailedError, match="tokens cannot be checked now"):
        check(own_keys, signed())


@pytest.mark.parametrize(
    "key", [{}, {"kty": "RSA", "kid": "rsa"}, {"kty": "RSA", "n": 5, "e": "é", "kid": "rsa"}]
)
def test_a_key_that_cannot_be_one_is_passed_over(own_keys: KeyServer, key: dict[str, Any]) -> None:
    own_keys.keys = [key, public("ec")]
    assert check(own_keys, signed("ec", "ES256"))
    with pytest.raises(SpindleError, match="does not publish"):
        check(own_keys, signed())
