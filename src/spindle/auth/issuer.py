"""Tokens that an authorisation server signed for us: JSON Web Tokens, checked with the keys it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import AuthError, ConnectionFailedError, PermissionDeniedError

if TYPE_CHECKING:
    from jwt import PyJWK

    from spindle.domain.serve import JwtConfig

MAX_TOKEN = 16 * 1024
MAX_KEYS_SIZE = 512 * 1024
MAX_KEYS = 200
FETCH_TIMEOUT = 10.0
GOOD_FOR = 3600.0
"""Seconds after which the keys are fetched again. Until that succeeds, those that are known stay good."""
FLOOR = 30.0
"""Seconds between two fetches, however many tokens come with a key that is not known."""

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
# The rest of a key would be its secret half, which nobody should have published.
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")


class Issuer:
    """One authorisation server, as its tokens are seen from here."""

    def __init__(self, config: JwtConfig, now: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._now = now
        self._keys: list[JsonObject] | None = None
        self._ready: dict[tuple[int, str], PyJWK] = {}
        self._tried_at = float("-inf")
        self._fetched_at = float("-inf")
        self._problem = ""
        self._fetching = asyncio.Lock()

    async def claims(self, token: str) -> JsonObject:
        """The claims of a valid token. Raises AuthError for an invalid one, PermissionDeniedError for one
        that lacks a scope, and ConnectionFailedError without keys."""
        import jwt

        config = self.config
        if len(token) > MAX_TOKEN:
            raise AuthError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise AuthError("the token is not one that was issued for this server") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in config.algorithms:
            raise AuthError("the token is signed in a way that is not accepted here")
        key = await self._key(algorithm, kid if isinstance(kid, str) else None)
        try:
            claims: JsonObject = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=config.audience,
                issuer=config.issuer,
                leeway=config.leeway,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as error:
            raise AuthError(_reason(error)) from None
        except (ValueError, TypeError, RecursionError, OverflowError):
            raise AuthError("the token cannot be read") from None
        missing = set(config.required_scopes) - scopes_of(claims)
        if missing:
            raise PermissionDeniedError(f"the token lacks the scope {' '.join(sorted(missing))}")
        return claims

    async def _key(self, algorithm: str, kid: str | None) -> PyJWK:
        if self._now() - self._fetched_at >= GOOD_FOR:
            await self._refresh()
        found = self._find(algorithm, kid)
        if found is None:
            # The issuer may have begun to use a new key.
            await self._refresh()
            found = self._find(algorithm, kid)
        if self._keys is None:
            raise ConnectionFailedError(
                f"tokens cannot be checked now: {self._problem}", retry_after=FLOOR, sent=False
            )
        if found is None:
            raise AuthError("the token is signed with a key that its issuer does not publish")
        return found

    def _find(self, algorithm: str, kid: str | None) -> PyJWK | None:
        import jwt

        suited = [
            index
            for index, key in enumerate(self._keys or ())
            if (kid is None or key.get("kid") == kid) and _suits(key, algorithm)
        ]
        # Without a name it must be clear which one is meant.
        if len(suited) != 1 or self._keys is None:
            return None
        place = (suited[0], algorithm)
        if place not in self._ready:
            key = self._keys[suited[0]]
            public = {name: key[name] for name in _PUBLIC if name in key}
            try:
                self._ready[place] = jwt.PyJWK(public, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                return None
        return self._ready[place]

    async def _refresh(self) -> None:
        """Fetch the keys, once for all who wait for them, and not again too soon."""
        asked_at = self._now()
        async with self._fetching:
            if self._tried_at >= asked_at or self._now() - self._tried_at < FLOOR:
                return
            self._tried_at = self._now()
            try:
                self._keys = await self._fetch()
            except ConnectionFailedError as error:
                self._problem = error.message
                return
            self._ready = {}
            self._fetched_at = self._now()

    async def _fetch(self) -> list[JsonObject]:
        from spindle.http.client import HttpClient
        from spindle.http.exchange import RedirectPolicy, exchange
        from spindle.http.failures import HttpFailure, TooLargeError
        from spindle.http.request import Prepared

        parts = urlsplit(self.config.jwks_url)
        shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
        request = Prepared("GET", self.config.jwks_url, {"accept": "application/json"})
        try:
            async with (
                asyncio.timeout(FETCH_TIMEOUT),
                contextlib.aclosing(HttpClient(FETCH_TIMEOUT)) as client,
                exchange(client, request, RedirectPolicy(most=0)) as answer,
            ):
                if answer.status != 200:
                    raise ConnectionFailedError(f"{shown} answered with HTTP status {answer.status}")
                body = await answer.read(MAX_KEYS_SIZE)
        except TooLargeError as failure:
            raise ConnectionFailedError(f"{shown} {failure}") from None
        except (HttpFailure, OSError, TimeoutError) as error:
            raise ConnectionFailedError(
                f"cannot fetch {shown}: {str(error) or type(error).__name__}"
            ) from error
        try:
            data: Any = from_json(body)
        except ValueError:
            data = None
        keys: Any = data.get("keys") if is_object(data) else None
        if not isinstance(keys, list):
            raise ConnectionFailedError(f"{shown} holds no set of keys")
        return [key for key in cast("list[Any]", keys)[:MAX_KEYS] if is_object(key)]


def scopes_of(claims: Mapping[str, Any]) -> set[str]:
    """`scope` is text with spaces (RFC 9068); some issuers write `scp`, as text or as a list."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            found |= set(value.split())
        elif isinstance(value, list):
            found |= {item for item in cast("list[Any]", value) if isinstance(item, str)}
    return found


def _suits(key: JsonObject, algorithm: str) -> bool:
    if key.get("kty") != _KEY_TYPES[algorithm[:2]] or key.get("use", "sig") != "sig":
        return False
    if key.get("alg", algorithm) != algorithm:
        return False
    return algorithm not in _CURVES or key.get("crv") == _CURVES[algorithm]


def _reason(error: Exception) -> str:
    """Our words: those of the library repeat what stands in the token."""
    import jwt

    reasons: tuple[tuple[type[Exception], str], ...] = (
        (jwt.ExpiredSignatureError, "the token has expired"),
        (jwt.ImmatureSignatureError, "the token is not valid yet"),
        (jwt.InvalidAudienceError, "the token is for another audience"),
        (jwt.InvalidIssuerError, "the token is from another issuer"),
        (jwt.MissingRequiredClaimError, "the token lacks exp, iss or aud"),
    )
    return next((text for kind, text in reasons if isinstance(error, kind)), "the token is not valid")
