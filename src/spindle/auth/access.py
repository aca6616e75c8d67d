"""Users' access to sources: giving consent, looking at what there is, taking it back.

OAuth itself is loaded when a source wants it; most commands never get here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from spindle.domain.identity import LOCAL, Principal, Secret, SecretKind
from spindle.errors import NotFoundError, SpindleError, StoreError

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.auth.keys import Keys
    from spindle.auth.oauth import AuthorizationRequest, Completed, DeviceLogin, OAuth, Revoked, TokenInfo
    from spindle.domain.source import SourceConfig
    from spindle.ports.store import SecretStore

KINDS: tuple[SecretKind, ...] = ("token", "pending", "client")


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a change of keys did."""

    sealed: int
    unreadable: int
    """Secrets that none of the keys opens: they stay as they are, and are of no use."""
    old_keys: int
    """How many keys besides the new one are still kept."""


class Access:
    """It is what `Credentials` gets tokens from, and what an app shows as `app.auth`."""

    def __init__(
        self,
        make: Callable[[], OAuth],
        config: Callable[[str], SourceConfig],
        store: SecretStore,
        sealer: Sealer,
        keys: Keys,
    ) -> None:
        self._make = make
        self._config = config
        self._store = store
        self._sealer = sealer
        self.keys = keys

    @cached_property
    def oauth(self) -> OAuth:
        return self._make()

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        return await self.oauth.token(source, config, principal)

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        return await self.oauth.token_after(source, config, principal, refused, error)

    async def begin(
        self,
        source: str,
        principal: Principal = LOCAL,
        *,
        scopes: Sequence[str] = (),
        redirect_uri: str | None = None,
    ) -> AuthorizationRequest:
        """A link at which the user gives consent. Asked for the same again, it is the same link."""
        config = self._config(source)
        return await self.oauth.begin(source, config, principal, scopes=scopes, redirect_uri=redirect_uri)

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
        """The user has come back, to this process or any other, with these parameters. `principal`, where
        it is known who that is, must be the one who was asked."""
        return await self.oauth.complete(
            code, state, iss, error=error, error_description=error_description, principal=principal
        )

    async def begin_device(
        self, source: str, principal: Principal = LOCAL, *, scopes: Sequence[str] = ()
    ) -> DeviceLogin:
        return await self.oauth.begin_device(source, self._config(source), principal, scopes=scopes)

    async def wait_device(self, login: DeviceLogin) -> Completed:
        return await self.oauth.wait_device(login)

    async def list(self, source: str | None = None) -> list[TokenInfo]:
        """Who has given access to what. Never the tokens themselves."""
        return await self.oauth.list(source)

    async def needs_login(self, source: str, principal: Principal = LOCAL) -> bool:
        return await self.oauth.needs_login(source, self._config(source), principal)

    async def wants_oauth(self, source: str) -> bool:
        """Whether the server of a source asks for a token of a kind that OAuth gives."""
        challenge = await self.oauth.challenge(self._config(source))
        return challenge is not None and challenge.resource_metadata is not None

    async def revoke(self, source: str, principal: str = LOCAL.id) -> Revoked | None:
        """End a user's access, also to a source that is no longer configured. None: there was none."""
        try:
            config = self._config(source)
        except NotFoundError:
            config = None
        if config is not None and getattr(config.auth, "type", None) != "oauth":
            config = None
        return await self.oauth.revoke(source, principal, config)

    async def rotate(self, *, drop_old: bool = False) -> Rotated:
        """Seal all that is stored with a new key. Where the keys come from the environment, with the
        first of them. Older keys are kept unless told otherwise: what runs remember is sealed too."""
        if self.keys.is_ours_to_change:
            self.keys()  # made now, if there was none
            self.keys.add()
        self._sealer.reload()
        sealed = unreadable = 0
        for kind in KINDS:
            for secret in await self._store.secrets(kind):
                if await self._reseal(secret):
                    sealed += 1
                else:
                    unreadable += 1
        if drop_old and self.keys.is_ours_to_change:
            self.keys.keep_first()
            self._sealer.reload()
        return Rotated(sealed, unreadable, len(self.keys()) - 1)

    async def _reseal(self, secret: Secret) -> bool:
        found: Secret | None = secret
        while found is not None:
            try:
                fresh = replace(found, sealed=self._sealer.reseal(found.sealed))
            except StoreError:
                return False
            if await self._store.swap_secret(found, fresh):
                return True
            # It was changed meanwhile, by a refresh perhaps: what is there now is sealed in its place.
            found = await self._store.secret(found.kind, found.key)
        return True

    async def close(self) -> None:
        if "oauth" in self.__dict__:
            await self.oauth.close()
