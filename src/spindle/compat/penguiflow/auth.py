"""Penguiflow's OAuthManager: asks users for consent, and keeps their tokens where the program wants them.

Consent, the exchange of codes and the renewal of tokens are Spindle's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from spindle.compat.private import Background, opened
from spindle.domain.identity import Principal
from spindle.errors import AuthorizationRequired, SpindleError
from spindle.ports.token_store import TokenStore as TokenStore

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.auth.oauth import AuthorizationRequest


class InMemoryTokenStore:
    """Keeps tokens as long as the process runs."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], tuple[str, float | None]] = {}

    async def store(self, user_id: str, provider: str, token: str, expires_at: float | None) -> None:
        """Keeps a token until it expires."""
        self._tokens[user_id, provider] = (token, expires_at)

    async def get(self, user_id: str, provider: str) -> str | None:
        """Returns a token that is still good, or None."""
        token, expires_at = self._tokens.get((user_id, provider), (None, None))
        if expires_at is not None and time.time() >= expires_at:
            await self.delete(user_id, provider)
            return None
        return token

    async def delete(self, user_id: str, provider: str) -> None:
        """Forgets a token."""
        self._tokens.pop((user_id, provider), None)


@dataclass
class OAuthProviderConfig:
    """A provider at which users give consent, and what it knows the program as."""

    name: str
    display_name: str
    auth_url: str
    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str
    scopes: list[str] = field(default_factory=list[str])


class OAuthManager:
    """Gets consent and tokens of users. Providers are known by the names of the sources that they are for."""

    def __init__(
        self, providers: Mapping[str, OAuthProviderConfig], token_store: TokenStore | None = None
    ) -> None:
        self.providers = dict(providers)
        self.token_store: TokenStore = token_store or InMemoryTokenStore()
        self._made: Background | None = None
        self._making = threading.Lock()
        self._consents: dict[tuple[str, str], Principal] = {}
        """By user and provider, whose consent the last token came from."""

    async def get_token(self, user_id: str, provider: str) -> str | None:
        """Returns a token of the user that is good now, renewed if need be, or None."""
        token = await self.token_store.get(user_id, provider)
        consent = self._consents.get((user_id, provider))
        if token is None and consent is not None:
            return await self._fetch(user_id, provider, consent)
        return token

    def get_auth_request(self, provider: str, user_id: str, trace_id: str) -> dict[str, Any]:
        """Returns what the user must see to give consent: `display_name`, `auth_url` and `scopes`. A link
        works once, within ten minutes."""
        config = self._known(provider)
        # A link of its own for each trace, so that coming back says which of them goes on.
        principal = Principal(json.dumps([user_id, trace_id]))

        async def begin(app: Spindle) -> AuthorizationRequest:
            return await app.auth.begin(provider, principal, redirect_uri=config.redirect_uri)

        asked = self._background.wait(begin)
        return {"display_name": config.display_name, "auth_url": asked.url, "scopes": list(asked.scopes)}

    async def handle_callback(self, code: str, state: str) -> tuple[str, str]:
        """Takes what the user came back with, and returns (user_id, trace_id) of what waited for it. Raises
        ValueError if the state is unknown, used or expired, or the provider gives no token."""
        try:
            done = await self._background.run(lambda app: app.auth.complete(code, state))
        except SpindleError as error:
            raise ValueError(f"OAuth error: {error.message}") from error
        if done.denied is not None:
            raise ValueError(f"OAuth error: {done.denied}")
        user_id, trace_id = json.loads(done.principal)
        consent = self._consents[user_id, done.source] = Principal(done.principal)
        await self._fetch(user_id, done.source, consent)
        return user_id, trace_id

    async def forget(self, user_id: str, provider: str) -> None:
        """Forgets a token that was refused, so that the user is asked again."""
        await self.token_store.delete(user_id, provider)
        consent = self._consents.pop((user_id, provider), None)
        if consent is not None:
            await self._background.run(lambda app: app.auth.revoke(provider, consent.id))

    def close(self) -> None:
        """Ends what runs in the background."""
        if self._made is not None:
            self._made.close()
            self._made = None

    async def _fetch(self, user_id: str, provider: str, consent: Principal) -> str | None:
        """Gets a token that is valid now from the user's consent, and puts it into the store."""

        async def token(app: Spindle) -> tuple[str, float | None] | None:
            try:
                found = await app.auth.token(provider, app.catalog.sources.config(provider), consent)
            except AuthorizationRequired:
                return None
            ends = [info.expires_at for info in await app.auth.list(provider) if info.principal == consent.id]
            return found, ends[0] if ends else None

        fetched = await self._background.run(token)
        if fetched is None:
            self._consents.pop((user_id, provider), None)
            return None
        await self.token_store.store(user_id, provider, *fetched)
        return fetched[0]

    def _known(self, provider: str) -> OAuthProviderConfig:
        if provider not in self.providers:
            raise ValueError(
                f"there is no OAuth provider {provider!r}; there are: {', '.join(self.providers)}"
            )
        return self.providers[provider]

    @property
    def _background(self) -> Background:
        with self._making:
            if self._made is None:
                sources = {name: _table(config) for name, config in self.providers.items()}
                self._made = Background(opened(Path.cwd(), sources, origin="OAuthProviderConfig"))
            return self._made


def _table(config: OAuthProviderConfig) -> dict[str, Any]:
    """Settings of a source that stands for the provider: nothing is ever called there."""
    return {
        "kind": "http",
        "url": urlunsplit(urlsplit(config.token_url)._replace(query="", fragment="")),
        "auth": {
            "type": "oauth",
            "provider": config.display_name,
            "authorization_url": config.auth_url,
            "token_url": config.token_url,
            "client_id": config.client_id,
            "client_secret": config.client_secret,
            "scopes": config.scopes,
        },
    }
