"""The credentials that a source receives on behalf of a principal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from spindle.domain.bounded import BoundedMap
from spindle.domain.identity import KEY_HEADER, LOCAL, NO_CREDENTIAL, Credential, Principal
from spindle.errors import AuthorizationRequired, ConfigurationError, SpindleError
from spindle.http.credentials import basic, bearer, key

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

MAX_USERS = 10_000
"""Users whose newest credential is remembered. Sessions of others end when they are idle."""


class CredentialProvider(Protocol):
    """Gives each principal their own credential for a source: an async function of the program."""

    async def __call__(self, source: str, principal: Principal, /) -> Credential | None:
        """Returns the credential; None leaves the source's own `auth` in force."""
        ...


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

    async def needs_login(self, source: str, principal: Principal) -> bool:
        """True if only the user's consent could give one."""
        ...

    async def secret(self, name: str, principal: Principal) -> str:
        """A secret of the workspace, by its name, for this principal."""
        ...


class Credentials:
    """Chooses the credential for (source, principal): the principal's own, else the configured one."""

    def __init__(self, provider: CredentialProvider | None = None, tokens: Tokens | None = None) -> None:
        self._provider = provider
        self._tokens = tokens
        self._newest: BoundedMap[tuple[str, str], str] = BoundedMap(MAX_USERS)
        """By source and user, the key of the newest credential; everybody's is that of the user ""."""
        self.on_newer: Callable[[str, str | None, str], None] = lambda _source, _before, _now: None
        """Is told the source, the key that nobody has any more, if there is one, and the new key."""

    async def for_call(self, source: str, config: SourceConfig, principal: Principal) -> Credential:
        """The credential with which this principal calls the source."""
        return self._noted(source, config, principal, await self._chosen(source, config, principal))

    def shared(self, source: str, config: SourceConfig) -> Credential | None:
        """The credential with which everybody calls the source, until its settings change; None if it depends
        on who calls, or can expire."""
        if self._provider is not None or _wants_token(config):
            return None
        return self._noted(source, config, LOCAL, configured(config))

    async def _chosen(self, source: str, config: SourceConfig, principal: Principal) -> Credential:
        if self._provider is not None:
            own = await self._provider(source, principal)
            if own is not None:
                return own
        if not _wants_token(config):
            return configured(config)
        return with_token(config, await self._needed_tokens(source).token(source, config, principal))

    def _noted(
        self, source: str, config: SourceConfig, principal: Principal, credential: Credential
    ) -> Credential:
        """The credential, which takes the place of the one that its user had before."""
        whose = principal.id if self._provider is not None or is_per_user(config) else ""
        key, before = credential.key, self._newest.get((source, whose))
        if before != key:
            self._newest[source, whose] = key
            self.on_newer(source, None if before is None or self._is_in_use(source, before) else before, key)
        return credential

    def _is_in_use(self, source: str, key: str) -> bool:
        return any(name == source and item == key for (name, _), item in self._newest.items())

    async def lacks_consent(self, source: str, config: SourceConfig, principal: Principal) -> bool:
        """True if `for_call` would ask the principal for a consent that they have not given yet."""
        if not is_per_user(config):
            return False
        try:
            if self._provider is not None and await self._provider(source, principal) is not None:
                return False
        except AuthorizationRequired:
            return True
        return await self._needed_tokens(source).needs_login(source, principal)

    async def secret(self, name: str, principal: Principal) -> str:
        """A secret of the workspace, which this principal's runs may read."""
        if self._tokens is None:
            raise ConfigurationError(f"the secret {name} needs a workspace that is open")
        return await self._tokens.secret(name, principal)

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
        if fresh is None or fresh == shown.token:
            return None
        return self._noted(source, config, principal, with_token(config, fresh))

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
            return key(name if name or config.auth_place_known else KEY_HEADER, value, location)
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


def is_per_user(config: SourceConfig) -> bool:
    """True if each user gives a consent of their own to a source."""
    return getattr(config.auth, "type", None) == "oauth"


def _wants_token(config: SourceConfig) -> bool:
    from spindle.domain.source import ClientCredentialsAuth, OAuthAuth

    return isinstance(config.auth, (ClientCredentialsAuth, OAuthAuth))
