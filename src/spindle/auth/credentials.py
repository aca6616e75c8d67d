"""The credentials that a source receives on behalf of a principal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from spindle.domain.identity import NO_CREDENTIAL, Credential, Principal
from spindle.errors import ConfigurationError, SpindleError
from spindle.http.credentials import basic, bearer, key

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

CredentialProvider = Callable[[str, Principal], Awaitable[Credential | None]]
"""Asked with (source, principal); None leaves the source's own `auth` in force."""


class Tokens(Protocol):
    """Gets access tokens, for sources whose `auth` is OAuth."""

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        """One that is valid now. Raises AuthorizationRequired when the user must give consent first."""
        ...

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        """Another one, after the source refused this one; None when that would not help. Raises
        AuthorizationRequired when only the user can."""
        ...


class Credentials:
    """Chooses the credential for (source, principal): the principal's own, else the configured one."""

    def __init__(self, provider: CredentialProvider | None = None, tokens: Tokens | None = None) -> None:
        self._provider = provider
        self._tokens = tokens

    async def for_call(self, source: str, config: SourceConfig, principal: Principal) -> Credential:
        if self._provider is not None:
            own = await self._provider(source, principal)
            if own is not None:
                return own
        if not _wants_token(config):
            return configured(config)
        return with_token(config, await self._needed_tokens(source).token(source, config, principal))

    async def after_refusal(
        self, source: str, config: SourceConfig, principal: Principal, shown: Credential, error: SpindleError
    ) -> Credential | None:
        """A credential with which it is worth trying again, once, after the source refused one."""
        if error.status not in (401, 403):
            return None
        if not _wants_token(config) or not shown.token:
            _point_to_oauth(source, config, error)
            return None
        tokens = self._needed_tokens(source)
        fresh = await tokens.token_after(source, config, principal, shown.token, error)
        return with_token(config, fresh) if fresh is not None and fresh != shown.token else None

    def _needed_tokens(self, source: str) -> Tokens:
        if self._tokens is None:
            raise ConfigurationError(
                f"sources.{source}.auth is OAuth, which needs a workspace that is open", source=source
            )
        return self._tokens


def configured(config: SourceConfig) -> Credential:
    """The credential that the source's own settings give, the same for everybody."""
    from spindle.domain.source import ApiKeyAuth, BasicAuth, BearerAuth

    match config.auth:
        case BearerAuth(token=token):
            return with_token(config, token)
        case BasicAuth(username=username, password=password):
            return basic(username, password)
        case ApiKeyAuth(name=name, value=value, location=location):
            return key(name, value, location)
        case _:
            return NO_CREDENTIAL


def with_token(config: SourceConfig, token: str) -> Credential:
    """The token where the source expects it: in a program's environment, or in each request."""
    variable = getattr(config.auth, "env", None)
    return Credential(env=((variable, token),), token=token) if variable else bearer(token)


def _point_to_oauth(source: str, config: SourceConfig, error: SpindleError) -> None:
    """Adds a hint about OAuth to the error of a source without `auth`."""
    if config.auth is not None or error.status != 401 or not error.challenge:
        return
    from spindle.auth.oauth.challenge import bearer_challenge

    challenge = bearer_challenge(error.challenge)
    if challenge is not None and challenge.resource_metadata is not None:
        error.hint = (
            f'its server wants OAuth: set `auth = {{ type = "oauth" }}` in [sources.{source}] and run'
            f" `spindle auth login {source}`"
        )


def _wants_token(config: SourceConfig) -> bool:
    from spindle.domain.source import ClientCredentialsAuth, OAuthAuth

    return isinstance(config.auth, (ClientCredentialsAuth, OAuthAuth))
