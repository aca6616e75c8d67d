"""Tokens that Spindle gets for itself, the same for everybody: kept in memory until they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from spindle.auth.oauth.clients import configured_client
from spindle.auth.oauth.discovery import binding
from spindle.auth.oauth.http import OAuthHttp, OAuthProblem
from spindle.auth.oauth.single_flight import Flights
from spindle.auth.oauth.token_endpoint import Grant, OAuthClient, ask_for_tokens
from spindle.auth.oauth.token_store import AHEAD
from spindle.domain.bounded import BoundedMap

if TYPE_CHECKING:
    from spindle.auth.oauth.parts import OAuthParts
    from spindle.domain.source import SourceConfig

WHAT = "a token for Spindle itself"


class OwnToken:
    """One token, asked for once by all who need it, and used until shortly before its end."""

    def __init__(
        self, ask: Callable[[], Awaitable[Grant]], flights: Flights, now: Callable[[], float]
    ) -> None:
        self._ask = ask
        self._flights = flights
        self._now = now
        self._token: str | None = None
        self._fresh_until = 0.0

    async def token(self, refused: str | None = None) -> str:
        """Returns one that is valid now, and is not the one that was refused."""
        if self._token is not None and self._token != refused and self._now() < self._fresh_until:
            return self._token
        return await self._flights.share(self, self._fetch)

    async def _fetch(self) -> str:
        grant = await self._ask()
        lifetime = grant.expires_in
        self._token = grant.access_token
        # Without a lifetime it is good until a server refuses it.
        self._fresh_until = (
            float("inf") if lifetime is None else self._now() + lifetime - min(AHEAD, lifetime / 10)
        )
        return self._token


async def ask_for_own_token(
    http: OAuthHttp,
    token_url: str,
    client: OAuthClient,
    scope: str | None,
    *,
    found_by: str | None = None,
    resource: str | None = None,
    audience: str | None = None,
) -> Grant:
    """Asks for a token in the name of the client itself (RFC 6749, 4.4)."""
    form = {
        "grant_type": "client_credentials",
        "scope": scope or None,
        "resource": resource,
        "audience": audience,
    }
    return await ask_for_tokens(http, token_url, client, form, found_by=found_by, what=WHAT)


def own_token(
    http: OAuthHttp,
    token_url: str,
    client: OAuthClient,
    scope: str | None,
    flights: Flights,
    now: Callable[[], float],
) -> OwnToken:
    """Returns the token of a client at an endpoint that is known. The way in which the endpoint took the
    client's secret is tried first from then on."""
    known = client

    async def ask() -> Grant:
        nonlocal known
        grant = await ask_for_own_token(http, token_url, known, scope)
        known = replace(known, method=grant.method)
        return grant

    return OwnToken(ask, flights, now)


class ClientTokens:
    """The tokens of sources whose settings name a client, by source and settings."""

    def __init__(self, parts: OAuthParts) -> None:
        self._oauth = parts
        self._kept: BoundedMap[tuple[str, str], OwnToken] = BoundedMap()

    async def token(self, source: str, config: SourceConfig, refused: str | None = None) -> str:
        """Returns one that is valid now, and is not the one that was refused."""
        key = (source, binding(config))
        if key not in self._kept:
            self._kept[key] = OwnToken(
                lambda: self._ask(source, config), self._oauth.flights, self._oauth.now
            )
        return await self._kept[key].token(refused)

    async def _ask(self, source: str, config: SourceConfig) -> Grant:
        from spindle.domain.source import ClientCredentialsAuth

        auth = config.auth
        assert isinstance(auth, ClientCredentialsAuth)
        provider = await self._oauth.discovery.provider(source, config)
        client = configured_client(source, auth, provider)
        try:
            return await ask_for_own_token(
                self._oauth.http, provider.token_url, client, " ".join(auth.scopes),
                found_by=provider.found_by, resource=provider.resource, audience=auth.audience,
            )  # fmt: skip
        except OAuthProblem as problem:
            problem.hint = f"check `client_id`, `client_secret` and `scopes` in sources.{source}.auth"
            raise problem.about(source=source) from None
