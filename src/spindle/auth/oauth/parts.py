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

    @classmethod
    def of(cls, store: OAuthStore, sealer: Sealer, settings: AuthSettings, now: Callable[[], float]) -> Self:
        """Makes the parts over a store. Nothing is sent before a token is wanted."""
        http, leases = OAuthHttp(), SharedLocks(store, now)
        clients = OAuthClients(
            store, sealer, http, leases, now,
            metadata_url=settings.client_metadata_url, name=settings.client_name or "Spindle",
        )  # fmt: skip
        shelf, discovery = TokenShelf(store, sealer, now), Discovery(http, now)
        return cls(store, sealer, now, http, Flights(), leases, shelf, discovery, clients)
