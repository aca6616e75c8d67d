"""OAuth 2.1, as the rest of Spindle sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spindle.auth.oauth.challenge import Challenge
from spindle.auth.oauth.client_credentials import ClientTokens
from spindle.auth.oauth.clients import OAuthClients
from spindle.auth.oauth.consent import AuthorizationRequest, Completed, Consent
from spindle.auth.oauth.device import DeviceFlow, DeviceLogin
from spindle.auth.oauth.discovery import Discovery, binding, source_url
from spindle.auth.oauth.http import OAuthHttp
from spindle.auth.oauth.revocation import Revoked, revoke_at_provider
from spindle.auth.oauth.single_flight import Flights, SharedLocks
from spindle.auth.oauth.token_store import TokenInfo, TokenShelf
from spindle.auth.oauth.tokens import UserTokens
from spindle.errors import AuthorizationRequired, SpindleError, StoreError

if TYPE_CHECKING:
    from typing import Protocol

    from spindle.auth.encryption import Sealer
    from spindle.domain.identity import Principal
    from spindle.domain.source import SourceConfig
    from spindle.ports.store import LeaseStore, SecretStore

    class OAuthStore(SecretStore, LeaseStore, Protocol): ...


DEFAULT_REDIRECT = "http://127.0.0.1:8719/callback"
"""Where users come back to unless the settings say otherwise: `spindle auth login` listens there."""


class OAuth:
    """Gets consent, keeps tokens and renews them. All of its state is in the store, so that any number
    of processes can share it. It implements `Tokens`."""

    def __init__(
        self,
        store: OAuthStore,
        sealer: Sealer,
        *,
        redirect_uri: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str | None = None,
        http: OAuthHttp | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.redirect_uri = redirect_uri or DEFAULT_REDIRECT
        self._http = http or OAuthHttp()
        self._flights = Flights()
        self._leases = SharedLocks(store, now)
        self._discovery = Discovery(self._http, now)
        self._shelf = TokenShelf(store, sealer, now)
        self._clients = OAuthClients(
            store, sealer, self._http, self._leases, now,
            metadata_url=client_metadata_url, name=client_name or "Spindle",
        )  # fmt: skip
        self._consent = Consent(
            store, sealer, self._http, self._leases, self._flights, self._discovery, self._clients,
            self._shelf, now,
        )  # fmt: skip
        self._device = DeviceFlow(self._http, self._discovery, self._clients, self._shelf, now)
        self._users = UserTokens(
            self._http, self._leases, self._flights, self._discovery, self._clients, self._shelf, now,
            self._ask_user,
        )  # fmt: skip
        self._own = ClientTokens(self._http, self._flights, self._discovery, now)

    # --- tokens

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        if _is_for_all(config):
            return await self._own.token(source, config)
        return await self._users.token(source, config, principal)

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        if _is_for_all(config):
            return await self._own.token(source, config, refused) if error.status == 401 else None
        return await self._users.token_after(source, config, principal, refused, error)

    async def _ask_user(
        self, source: str, config: SourceConfig, principal: Principal, scopes: Sequence[str]
    ) -> AuthorizationRequired:
        asked = await self.begin(source, config, principal, scopes=scopes)
        return AuthorizationRequired(
            f"{source} needs your consent at {asked.provider}",
            source=source,
            expires_at=asked.expires_at,
            details={"url": asked.url, "provider": asked.provider, "scopes": list(asked.scopes)},
        )

    # --- consent

    async def begin(
        self,
        source: str,
        config: SourceConfig,
        principal: Principal,
        *,
        scopes: Sequence[str] = (),
        redirect_uri: str | None = None,
    ) -> AuthorizationRequest:
        """A link at which the user gives consent. Asked for the same again, it is the same link."""
        return await self._consent.begin(
            source, config, principal.id, scopes, redirect_uri or self.redirect_uri
        )

    async def complete(
        self,
        code: str | None,
        state: str,
        iss: str | None = None,
        *,
        error: str | None = None,
        error_description: str | None = None,
        principal: Principal | None = None,
    ) -> Completed:
        """The user has come back with these. `principal`, where it is known who that is, must be the one
        who was asked."""
        return await self._consent.complete(
            code, state, iss, error, error_description, principal.id if principal else None
        )

    async def begin_device(
        self, source: str, config: SourceConfig, principal: Principal, *, scopes: Sequence[str] = ()
    ) -> DeviceLogin:
        return await self._device.begin(source, config, principal.id, scopes, self.redirect_uri)

    async def wait_device(self, login: DeviceLogin) -> Completed:
        return await self._device.wait(login, asyncio.sleep)

    async def challenge(self, config: SourceConfig) -> Challenge | None:
        """What the source asks of somebody who shows nothing; None where it asks for no token."""
        url = source_url(config)
        return await self._discovery.challenge(url) if url else None

    # --- looking after tokens

    async def list(self, source: str | None = None) -> list[TokenInfo]:
        return await self._shelf.list(source)

    async def needs_login(self, source: str, config: SourceConfig, principal: Principal) -> bool:
        """Whether there is nothing that could be shown, or refreshed, without the user."""
        stored = await self._shelf.load(source, principal.id)
        return stored is None or stored.binding != binding(config)

    async def revoke(self, source: str, principal: str, config: SourceConfig | None) -> Revoked | None:
        """End a user's access: at the provider if it can be told, here in any case. None: there was none."""
        await self._consent.cancel(source, principal)
        try:
            stored = await self._shelf.load(source, principal)
        except StoreError as error:
            await self._shelf.drop(source, principal)
            return Revoked(source, principal, at_provider=False, problem=error.message)
        if stored is None:
            return None
        async with self._leases.hold(f"oauth refresh {stored.key}"):
            stored = await self._shelf.load(source, principal) or stored
            try:
                client = await self._users.client(stored, config)
                return await revoke_at_provider(self._http, stored, client)
            finally:
                await self._shelf.drop(source, principal)

    async def close(self) -> None:
        await self._flights.close()
        await self._http.close()


def _is_for_all(config: SourceConfig) -> bool:
    return getattr(config.auth, "type", None) == "client_credentials"
