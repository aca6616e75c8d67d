"""The parts of OAuth that consent, logins and tokens share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spindle.auth.oauth.clients import OAuthClients
from spindle.auth.oauth.discovery import Discovery
from spindle.auth.oauth.http import OAuthHttp
from spindle.auth.oauth.single_flight import Flights, SharedLocks
from spindle.auth.oauth.token_store import TokenShelf

if TYPE_CHECKING:
    from typing import Protocol

    from spindle.auth.encryption import Sealer
    from spindle.ports.store import LeaseStore, SecretStore
    from spindle.ports.token_store import GrantStore, TokenStore
    from spindle.settings.auth import AuthSettings

    class OAuthStore(SecretStore, LeaseStore, Protocol):
        """The parts of a store that OAuth keeps its state in."""


@dataclass(frozen=True, slots=True)
class OAuthParts:
    """The state that is shared by all ways to a token, and the one HTTP client."""

    store: OAuthStore
    sealer: Sealer
    now: Callable[[], float]
    http: OAuthHttp
    flights: Flights
    leases: SharedLocks
    shelf: TokenShelf
    discovery: Discovery
    clients: OAuthClients
    consent: str
    """Whoever may complete a consent, as in the settings."""

    @classmethod
    def of(
        cls,
        store: OAuthStore,
        sealer: Sealer,
        settings: AuthSettings,
        now: Callable[[], float],
        token_store: TokenStore | GrantStore | None = None,
    ) -> Self:
        """Makes the parts over a store. Nothing is sent before a token is wanted. Users' tokens are kept in
        `token_store`, if there is one."""
        http, leases = OAuthHttp(), SharedLocks(store)
        clients = OAuthClients(
            store, sealer, http, leases, now,
            metadata_url=settings.client_metadata_url, name=settings.client_name or "Spindle",
        )  # fmt: skip
        shelf = TokenShelf(store, sealer, now)
        if token_store is not None:
            from spindle.auth.oauth.given_store import GivenShelf

            shelf = GivenShelf(token_store, store, sealer, now)
        discovery = Discovery(http, now)
        return cls(store, sealer, now, http, Flights(), leases, shelf, discovery, clients, settings.consent)
