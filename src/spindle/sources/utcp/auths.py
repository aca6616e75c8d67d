"""Credentials that the `auth` of a template shows with a request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spindle.auth.oauth.client_credentials import OwnToken, own_token
from spindle.auth.oauth.http import OAuthHttp
from spindle.auth.oauth.single_flight import Flights
from spindle.auth.oauth.token_endpoint import OAuthClient
from spindle.domain.bounded import BoundedMap
from spindle.domain.identity import Credential
from spindle.errors import ConfigurationError
from spindle.http import credentials
from spindle.http.addresses import host_of
from spindle.http.credentials import CredentialParts, apply
from spindle.http.failures import InsideError
from spindle.sources.utcp.templates import ApiKey, Auth, Basic, OAuth2

if TYPE_CHECKING:
    from spindle.errors import SpindleError
    from spindle.http.client import HttpClient
    from spindle.sources.utcp.sending import Renew, Sender


class ManualOAuthHttp(OAuthHttp):
    """Sends the requests to token endpoints that a manual names, wherever its tools may be called."""

    def __init__(self, sender: Sender, timeout: float, *, remote: bool) -> None:
        super().__init__()
        self.timeout = timeout
        self._sender = sender
        self._remote = remote

    async def check_address(self, url: str) -> None:
        await self._sender.check_scheme(url)

    async def is_bound(self, found_by: str | None) -> bool:
        return self._sender.is_bound(remote=self._remote)

    def inside(self, url: str, found_by: str | None) -> SpindleError:
        return self._sender.error(InsideError(host_of(url)))

    def opened(self) -> HttpClient:
        return self._sender.http


class Auths:
    """Shows credentials. Tokens are fetched once for all tools that use the same client."""

    def __init__(self, sender: Sender, timeout: float) -> None:
        self._sender = sender
        self._timeout = timeout
        self._tokens: BoundedMap[tuple[str | None, ...], OwnToken] = BoundedMap()
        self._flights = Flights()

    async def shown(
        self, auth: Auth | None, credential: Credential, *, remote: bool
    ) -> tuple[CredentialParts, Renew | None]:
        """The template's own, or the source's credential where it has none; and how to renew it."""
        if auth is None:
            return apply(None, credential, {}), None
        if not isinstance(auth, OAuth2):
            return _as_shown(as_credential(auth)), None
        tokens = self._own_token(auth, remote=remote)
        token = await tokens.token()

        async def renew() -> str:
            return credentials.bearer_header(await tokens.token(refused=token))

        return CredentialParts(headers=[("Authorization", credentials.bearer_header(token))]), renew

    async def close(self) -> None:
        """Waits for tokens that are being fetched."""
        await self._flights.close()

    async def credential(self, auth: Auth, *, remote: bool) -> Credential:
        """The same as what a session can be opened with."""
        if isinstance(auth, OAuth2):
            token = await self._own_token(auth, remote=remote).token()
            return Credential(headers=(("Authorization", credentials.bearer_header(token)),))
        return as_credential(auth)

    def _own_token(self, auth: OAuth2, *, remote: bool) -> OwnToken:
        key = (auth.token_url, auth.client_id, auth.client_secret, auth.scope or None, str(remote))
        if key not in self._tokens:
            http = ManualOAuthHttp(self._sender, self._timeout, remote=remote)
            # As UTCP's own client does it; some servers take the secret only in a header.
            client = OAuthClient(auth.client_id, auth.client_secret, "client_secret_post")
            self._tokens[key] = own_token(
                http, auth.token_url, client, auth.scope, self._flights, time.monotonic
            )
        return self._tokens[key]


def as_credential(auth: ApiKey | Basic) -> Credential:
    """Returns the credential that a template writes out."""
    if isinstance(auth, Basic):
        return credentials.basic(auth.username, auth.password)
    if not auth.api_key:
        raise ConfigurationError("the API key of the tool is empty", hint="set its variable", sent=False)
    return credentials.key(auth.var_name, auth.api_key, auth.location)


def _as_shown(credential: Credential) -> CredentialParts:
    return CredentialParts(list(credential.headers), list(credential.query), list(credential.cookies))
