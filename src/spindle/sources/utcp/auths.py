"""What the `auth` of a template shows with a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.auth.client_credentials import ClientCredentials
from spindle.domain.identity import Credential
from spindle.errors import ConfigurationError
from spindle.http import credentials
from spindle.http.credentials import CredentialParts, apply
from spindle.sources.utcp.sending import url_of
from spindle.sources.utcp.templates import ApiKey, Auth, Basic, OAuth2

if TYPE_CHECKING:
    from spindle.sources.utcp.sending import Renew, Sender


class Auths:
    """Tokens are fetched once for all tools that use the same client."""

    def __init__(self, sender: Sender, timeout: float) -> None:
        self._sender = sender
        self._timeout = timeout
        self._tokens: dict[tuple[str | None, ...], ClientCredentials] = {}

    async def shown(
        self, auth: Auth | None, credential: Credential, *, remote: bool
    ) -> tuple[CredentialParts, Renew | None]:
        """The template's own, or the source's credential where it has none; and how to renew it."""
        if auth is None:
            return apply(None, credential, {}), None
        if not isinstance(auth, OAuth2):
            return _as_shown(as_credential(auth)), None
        tokens = self._client_credentials(auth, remote=remote)
        token = await tokens.token()

        async def renew() -> str:
            tokens.refused(token)
            return f"Bearer {await tokens.token()}"

        return CredentialParts(headers=[("Authorization", f"Bearer {token}")]), renew

    async def credential(self, auth: Auth, *, remote: bool) -> Credential:
        """The same as what a session can be opened with."""
        if isinstance(auth, OAuth2):
            token = await self._client_credentials(auth, remote=remote).token()
            return Credential(headers=(("Authorization", f"Bearer {token}"),))
        return as_credential(auth)

    def _client_credentials(self, auth: OAuth2, *, remote: bool) -> ClientCredentials:
        key = (auth.token_url, auth.client_id, auth.client_secret, auth.scope or None, str(remote))
        found = self._tokens.get(key)
        if found is None:

            async def check(url: str) -> None:
                await self._sender.check(url_of(url), remote=remote)

            found = self._tokens[key] = ClientCredentials(
                auth.token_url, auth.client_id, auth.client_secret, auth.scope,
                client=self._sender.client(remote=remote), timeout=self._timeout, check=check,
            )  # fmt: skip
        return found


def as_credential(auth: ApiKey | Basic) -> Credential:
    if isinstance(auth, Basic):
        return credentials.basic(auth.username, auth.password)
    if not auth.api_key:
        raise ConfigurationError("the API key of the tool is empty", hint="set its variable", sent=False)
    return credentials.key(auth.var_name, auth.api_key, auth.location)


def _as_shown(credential: Credential) -> CredentialParts:
    return CredentialParts(list(credential.headers), list(credential.query), list(credential.cookies))
