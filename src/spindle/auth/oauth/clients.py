"""Our identity at a provider: a client from the settings, a metadata document, or a registration."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from spindle.auth.oauth.discovery import Provider
from spindle.auth.oauth.http import OAuthHttp, origin, refused
from spindle.auth.oauth.single_flight import SharedLocks
from spindle.auth.oauth.token_endpoint import OAuthClient
from spindle.domain.identity import Secret
from spindle.errors import ConfigurationError, StoreError
from spindle.http.addresses import same_origin

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.domain.source import ClientCredentialsAuth, OAuthAuth
    from spindle.ports.store import SecretStore

METHODS = ("client_secret_basic", "client_secret_post")
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True)
class OAuthClients:
    """Finds or registers our client at a provider."""

    store: SecretStore
    sealer: Sealer
    http: OAuthHttp
    leases: SharedLocks
    now: Callable[[], float]
    metadata_url: str | None
    name: str

    async def client(
        self, source: str, auth: OAuthAuth, provider: Provider, redirect_uri: str
    ) -> OAuthClient:
        if auth.client_id:
            return configured_client(source, auth, provider)
        document = auth.client_metadata_url or self.metadata_url
        if document and provider.reads_client_documents:
            return OAuthClient(document)
        if provider.registration_url is None:
            raise ConfigurationError(
                f"{provider.name} does not register new clients automatically",
                hint=f"register Spindle there (redirect URI {redirect_uri}) and set `client_id`, and"
                f" `client_secret` if you get one, in sources.{source}.auth",
                source=source,
            )
        return await self._registered(provider, redirect_uri)

    async def recall(self, registered: str) -> OAuthClient | None:
        """A registration that was made before."""
        secret = await self.store.secret("client", registered)
        if secret is None:
            return None
        try:
            found = self.sealer.open(secret.sealed, place(registered))
        except StoreError:
            return None  # its key is gone; another registration does as well
        if found.get("expires_at") and found["expires_at"] <= self.now():
            return None
        return OAuthClient(found["id"], found["secret"], found["method"], registered)

    async def forget(self, client: OAuthClient) -> None:
        """The provider no longer knows this registration; the next to need one makes another."""
        if client.registered is None:
            return
        known = await self.recall(client.registered)
        if known is not None and known.id == client.id:
            await self.store.delete_secret("client", client.registered)

    async def _registered(self, provider: Provider, redirect_uri: str) -> OAuthClient:
        parts = f"{provider.issuer or provider.registration_url}\n{redirect_uri}"
        key = hashlib.sha256(parts.encode()).hexdigest()[:32]
        known = await self.recall(key)
        if known is not None:
            return known
        async with self.leases.hold(f"oauth client {key}"):
            return await self.recall(key) or await self._register(provider, redirect_uri, key)

    async def _register(self, provider: Provider, redirect_uri: str, key: str) -> OAuthClient:
        assert provider.registration_url is not None
        grants = ["authorization_code", "refresh_token", *([DEVICE_GRANT] if provider.device_url else [])]
        wanted: dict[str, Any] = {
            "client_name": self.name,
            "redirect_uris": [redirect_uri],
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": _method_to_register(provider.auth_methods),
        }
        if redirect_uri.startswith("http://"):
            # OpenID Connect's word for programs on the user's own machine, which come back over loopback.
            wanted["application_type"] = "native"
        url = provider.registration_url
        answer = await self.http.post_json(url, wanted, found_by=provider.found_by)
        found = (answer.json() if answer.status in (200, 201) else None) or {}
        id, secret = found.get("client_id"), found.get("client_secret")
        if not isinstance(id, str) or not id:
            error = refused(answer, "to register Spindle as a client", origin(url), frozenset())
            error.hint = "register a client there by hand, and set `client_id` in the source's `auth`"
            raise error
        secret = secret if isinstance(secret, str) and secret else None
        method = str(found.get("token_endpoint_auth_method") or wanted["token_endpoint_auth_method"])
        client = OAuthClient(id, secret, method if secret else "none", key)
        ends = found.get("client_secret_expires_at")
        expires_at = float(cast(float, ends)) if secret and isinstance(ends, (int, float)) and ends else None
        sealed = self.sealer.seal({**client.to_dict(), "expires_at": expires_at}, place(key))
        await self.store.save_secret(Secret("client", key, sealed, updated_at=self.now()))
        return client


def configured_client(
    source: str, auth: OAuthAuth | ClientCredentialsAuth, provider: Provider
) -> OAuthClient:
    """The client that the settings name. Its secret goes to the source's own origin, or to a server that the
    settings name too: any other could be a stranger's, to whom the source has led us."""
    assert auth.client_id is not None
    if not auth.client_secret:
        return OAuthClient(auth.client_id)
    led_here = provider.found_by is not None and auth.token_url is None
    if led_here and not same_origin(provider.found_by or "", provider.token_url):
        raise ConfigurationError(
            f"the client_secret would go to {origin(provider.token_url)}, which only {source} names",
            hint=f"if it is for that server, set `issuer = {(provider.issuer or '')!r}` in"
            f" sources.{source}.auth",
            source=source,
        )
    usable = [method for method in METHODS if method in provider.auth_methods]
    return OAuthClient(auth.client_id, auth.client_secret, usable[0] if usable else METHODS[0])


def place(key: str) -> str:
    """The place in the store that a registration is encrypted for."""
    return f"client {key}"


def _method_to_register(supported: tuple[str, ...]) -> str:
    """The method to register with. A secret on a user's machine is not secret, so we prefer none. A server
    that does not list its methods must support Basic (RFC 8414)."""
    if "none" in supported:
        return "none"
    return next((method for method in METHODS if method in supported), METHODS[0])
