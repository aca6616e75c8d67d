"""Tokens that Spindle gets for itself, the same for everybody: kept in memory until they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spindle.auth.oauth.clients import configured_client
from spindle.auth.oauth.discovery import Discovery, binding
from spindle.auth.oauth.http import OAuthHttp, OAuthProblem
from spindle.auth.oauth.single_flight import Flights
from spindle.auth.oauth.token_endpoint import ask_for_tokens
from spindle.auth.oauth.token_store import AHEAD

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str = field(repr=False)
    fresh_until: float | None

    def is_fresh(self, now: float) -> bool:
        return self.fresh_until is None or now < self.fresh_until


class ClientTokens:
    def __init__(
        self, http: OAuthHttp, flights: Flights, discovery: Discovery, now: Callable[[], float]
    ) -> None:
        self._http = http
        self._flights = flights
        self._discovery = discovery
        self._now = now
        self._kept: dict[tuple[str, str], _Kept] = {}

    async def token(self, source: str, config: SourceConfig, refused: str | None = None) -> str:
        """One that is valid now, and is not the one that was refused."""
        key = (source, binding(config))
        kept = self._kept.get(key)
        if kept is not None and kept.token != refused and kept.is_fresh(self._now()):
            return kept.token

        async def work() -> str:
            self._kept[key] = fetched = await self._fetch(source, config)
            return fetched.token

        return await self._flights.share(("client credentials", *key), work)

    async def _fetch(self, source: str, config: SourceConfig) -> _Kept:
        from spindle.domain.source import ClientCredentialsAuth

        auth = config.auth
        assert isinstance(auth, ClientCredentialsAuth)
        provider = await self._discovery.provider(source, config)
        form = {
            "grant_type": "client_credentials",
            "scope": " ".join(auth.scopes) or None,
            "resource": provider.resource,
            "audience": auth.audience,
        }
        client = configured_client(auth, provider)
        try:
            grant = await ask_for_tokens(
                self._http, provider.token_url, client, form,
                found_by=provider.found_by, what="a token for Spindle itself",
            )  # fmt: skip
        except OAuthProblem as problem:
            problem.hint = f"check `client_id`, `client_secret` and `scopes` in sources.{source}.auth"
            raise problem.about(source=source) from None
        if grant.expires_in is None:
            return _Kept(grant.access_token, None)
        ahead = min(AHEAD, grant.expires_in / 10)
        return _Kept(grant.access_token, self._now() + grant.expires_in - ahead)
