"""Users' tokens in a store that the program gave. Our own keeps the record of each, without the tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeVar, cast

from spindle.auth.oauth.token_store import (
    Stored,
    TokenInfo,
    TokenShelf,
    info_of,
    key_of,
    place_of,
    read_stored,
)
from spindle.errors import SpindleError, StoreError
from spindle.ports.token_store import TokenGrant, is_grant_store

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.ports.store import SecretStore
    from spindle.ports.token_store import GrantStore, TokenStore

T = TypeVar("T")


class GivenShelf(TokenShelf):
    """Stores users' tokens where the program wants them."""

    def __init__(
        self, given: TokenStore | GrantStore, store: SecretStore, sealer: Sealer, now: Callable[[], float]
    ) -> None:
        super().__init__(store, sealer, now)
        self._given = given
        self._grants = given if is_grant_store(given) else None
        self._tokens = cast("TokenStore", given)
        """The small protocol, where it is not the other."""

    async def load(self, source: str, principal: str) -> Stored | None:
        grant = await self._get(source, principal)
        if grant is None:
            return None
        record = await self._own_record(grant, source, principal)
        if grant.context is not None:
            record = self._from_context(grant.context, source, principal)
            if record is None:
                return None
        if record is None:
            # One that the program got by itself: it knows whom it is for.
            record = Stored(
                source, principal, "", self._now(), None, {}, "", scopes=grant.scopes, provider=source
            )
        return replace(
            record,
            access_token=grant.access_token,
            refresh_token=grant.refresh_token,
            elsewhere=None,
            expires_at=record.expires_at if grant.expires_at is None else grant.expires_at,
        )

    async def save(self, stored: Stored) -> None:
        # First where it is looked for: a record of a token that is nowhere would be of no use.
        if self._grants is not None:
            grant = TokenGrant(
                stored.access_token, stored.refresh_token, stored.expires_at, stored.scopes,
                self._sealer.seal(asdict(_without_tokens(stored)), place_of(stored.key)).decode(),
            )  # fmt: skip
            await _asked(self._grants.store_grant(stored.principal, stored.source, grant))
        else:
            await _asked(
                self._tokens.store(stored.principal, stored.source, stored.access_token, stored.expires_at)
            )
        await super().save(_without_tokens(stored))

    async def delete(self, stored: Stored) -> bool:
        found = await self._get(stored.source, stored.principal)
        if found is None or found.access_token != stored.access_token:
            return False
        return await self.drop(stored.source, stored.principal)

    async def drop(self, source: str, principal: str) -> bool:
        await _asked(self._given.delete(principal, source))
        await super().drop(source, principal)
        return True

    async def list(self, source: str | None = None) -> list[TokenInfo]:
        """Those whose tokens were kept by way of this workspace, and are still there."""
        found: list[TokenInfo] = []
        for secret in await self._store.secrets("token", source=source):
            stored = await self.load(secret.source, secret.principal)
            if stored is not None:
                found.append(info_of(stored))
        return found

    async def _get(self, source: str, principal: str) -> TokenGrant | None:
        if self._grants is not None:
            grant = await _asked(self._grants.get_grant(principal, source))
            if grant is not None and not isinstance(grant, TokenGrant):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise _wrong("get_grant", grant, "a TokenGrant or None")
            return None if grant is None else _sendable(grant)
        token = await _asked(self._tokens.get(principal, source))
        if token is not None and not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong("get", token, "text or None")
        return _sendable(TokenGrant(token)) if token else None

    def _from_context(self, context: str, source: str, principal: str) -> Stored | None:
        try:
            place = place_of(key_of(source, principal))
            return read_stored(self._sealer.open(context.encode(), place))
        except StoreError:
            return None  # of another key, or of another user, whose token must not be shown here

    async def _own_record(self, grant: TokenGrant, source: str, principal: str) -> Stored | None:
        try:
            record = await self._record(source, principal)
        except StoreError:
            return None
        return record if record is not None and record.elsewhere == _mark(grant.access_token) else None


def _without_tokens(stored: Stored) -> Stored:
    client = {**stored.client, "secret": None}
    mark = _mark(stored.access_token)
    return replace(stored, access_token="", refresh_token=None, client=client, elsewhere=mark)


def _sendable(grant: TokenGrant) -> TokenGrant:
    token = grant.access_token
    if not token.isascii() or not token.isprintable() or " " in token:
        raise StoreError("the token store returned a token that no request can carry")
    return grant


def _mark(token: str) -> str:
    """Tells tokens apart without being one."""
    return hashlib.sha256(token.encode()).hexdigest()


async def _asked(work: Awaitable[T]) -> T:
    try:
        return await work
    except SpindleError:
        raise
    except Exception as error:
        # Not its words: some drivers repeat the values that they were given.
        raise StoreError(
            f"the token store failed with {type(error).__name__}",
            hint="its own error is the cause of this one",
        ) from error


def _wrong(method: str, value: object, wanted: str) -> StoreError:
    return StoreError(f"`{method}` of the token store returned {type(value).__name__}, not {wanted}")
