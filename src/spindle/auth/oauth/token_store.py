"""A user's tokens as they are kept: sealed, one record for each source and principal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spindle.auth.oauth.token_endpoint import Grant, OAuthClient
from spindle.domain.identity import Secret
from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.ports.store import SecretStore

AHEAD = 60.0
"""A token is refreshed this many seconds before it ends, or when a tenth of its life is left."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One user's access to one source, as stored."""

    source: str
    principal: str
    access_token: str = field(repr=False)
    obtained_at: float
    binding: str | None
    """The mark of the settings under which it may be shown; None: the program gave it for this source."""
    client: dict[str, str | None] = field(repr=False)
    token_url: str
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """The scopes that the user was asked for, of which a provider may grant fewer."""
    issuer: str | None = None
    provider: str = ""
    revocation_url: str | None = None
    resource: str | None = None
    found_by: str | None = None
    consented_at: float = 0.0
    renewed_after_refusal: bool = False
    elsewhere: str | None = None
    """A mark of the access token, if it is kept in another store; None: the tokens are here."""

    @property
    def key(self) -> str:
        return key_of(self.source, self.principal)

    def fits(self, binding: str) -> bool:
        """True if it may be shown under the settings that have this mark."""
        return self.binding is None or self.binding == binding

    def is_fresh(self, now: float) -> bool:
        if self.expires_at is None:
            return True
        return now < self.expires_at - min(AHEAD, (self.expires_at - self.obtained_at) / 10)

    def is_valid(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at

    def renewed(self, grant: Grant, now: float, *, after_refusal: bool) -> Stored:
        return replace(
            self,
            access_token=grant.access_token,
            # A provider that rotates gives a new one; one that does not lets the old one live on.
            refresh_token=grant.refresh_token or self.refresh_token,
            obtained_at=now,
            expires_at=end_of(grant, now),
            scopes=grant.scopes or self.scopes,
            renewed_after_refusal=after_refusal,
        )

    def to_client(self) -> OAuthClient:
        return OAuthClient(
            str(self.client["id"]),
            self.client["secret"],
            str(self.client["method"]),
            self.client["registered"],
        )


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """The facts about a user's tokens that may be shown."""

    source: str
    principal: str
    provider: str
    scopes: tuple[str, ...]
    obtained_at: float
    expires_at: float | None
    refreshable: bool
    problem: str | None = None
    """Why it is of no use: it was sealed with a key that is gone."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "scopes": list(self.scopes)}


class TokenShelf:
    """Stores users' tokens, encrypted."""

    def __init__(self, store: SecretStore, sealer: Sealer, now: Callable[[], float]) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now

    async def load(self, source: str, principal: str) -> Stored | None:
        record = await self._record(source, principal)
        return record if record is not None and record.elsewhere is None else None

    async def _record(self, source: str, principal: str) -> Stored | None:
        secret = await self._store.secret("token", key_of(source, principal))
        return self._opened(secret) if secret is not None else None

    async def save(self, stored: Stored) -> None:
        # The secret of a client that is registered or configured is kept where it belongs, not twice.
        shown = replace(stored, client={**stored.client, "secret": None})
        sealed = self._sealer.seal(asdict(shown), place_of(stored.key))
        await self._store.save_secret(
            Secret("token", stored.key, sealed, stored.source, stored.principal, updated_at=self._now())
        )

    async def delete(self, stored: Stored) -> bool:
        """Unless another one has taken its place."""
        found = await self.load(stored.source, stored.principal)
        if found is None or found.access_token != stored.access_token:
            return False
        return await self._store.delete_secret("token", stored.key)

    async def drop(self, source: str, principal: str) -> bool:
        """Deletes the user's tokens, even if they can no longer be decrypted."""
        return await self._store.delete_secret("token", key_of(source, principal))

    async def list(self, source: str | None = None) -> list[TokenInfo]:
        return [self._info(secret) for secret in await self._store.secrets("token", source=source)]

    def _info(self, secret: Secret) -> TokenInfo:
        try:
            stored = self._opened(secret)
        except StoreError as error:
            updated = secret.updated_at
            return TokenInfo(secret.source, secret.principal, "", (), updated, None, False, error.message)
        return info_of(stored)

    def _opened(self, secret: Secret) -> Stored:
        return read_stored(self._sealer.open(secret.sealed, place_of(secret.key)))


def info_of(stored: Stored) -> TokenInfo:
    """The facts about a user's tokens that may be shown."""
    return TokenInfo(
        stored.source,
        stored.principal,
        stored.provider,
        stored.scopes,
        stored.obtained_at,
        stored.expires_at,
        stored.refresh_token is not None,
    )


def read_stored(found: dict[str, Any]) -> Stored:
    """A user's tokens from the fields that were sealed."""
    fields: dict[str, Any] = dict(found)
    fields["scopes"], fields["asked"] = tuple(found["scopes"]), tuple(found["asked"])
    return Stored(**fields)


def key_of(source: str, principal: str) -> str:
    """The key of a user's tokens in the store."""
    # The name of a source has no colon, so that no two pairs share a key.
    return f"{source}:{principal}"


def end_of(grant: Grant, now: float) -> float | None:
    """The moment at which a grant expires, or None."""
    return None if grant.expires_in is None else now + grant.expires_in


def union(*groups: Iterable[str]) -> tuple[str, ...]:
    """The scopes of all groups, without duplicates."""
    return tuple(dict.fromkeys(scope for group in groups for scope in group))


def place_of(key: str) -> str:
    """The place that a record is sealed for."""
    return f"token {key}"
