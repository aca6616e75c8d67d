"""A program's own store for users' tokens: the small protocol, or the one that keeps refresh tokens too.

`user_id` is the id of a principal, `provider` the name of a source. What one user's key holds is shown on no
other user's behalf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from spindle.errors import ConfigurationError


class TokenStore(Protocol):
    """Keeps access tokens of users, in Redis or a database for instance. When a token ends, its user is asked
    for consent again: `GrantStore` avoids that."""

    async def store(self, user_id: str, provider: str, token: str, expires_at: float | None) -> None:
        """Keeps a token until it expires (seconds since 1970, None for never)."""
        ...

    async def get(self, user_id: str, provider: str) -> str | None:
        """Returns a token that is still good, or None."""
        ...

    async def delete(self, user_id: str, provider: str) -> None:
        """Forgets a token."""
        ...


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """All that a provider gave for one user: an access token, and what renews it without the user."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since 1970; None for never."""
    scopes: tuple[str, ...] = ()
    context: str | None = field(default=None, repr=False)
    """Sealed by Spindle, which needs it back to renew the token and to check whom it is for. None for a grant
    that the program got by itself."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the grant as JSON. It holds the tokens."""
        return {
            "access_token": self.access_token,
            "refresh_token": self.refresh_token,
            "expires_at": self.expires_at,
            "scopes": list(self.scopes),
            "context": self.context,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenGrant:
        """Returns the grant that was written as JSON."""
        fields: dict[str, Any] = dict(data)
        fields["scopes"] = tuple(data.get("scopes", ()))
        return cls(**fields)


class GrantStore(Protocol):
    """Keeps whole grants of users, so that tokens are renewed without asking anybody."""

    async def store_grant(self, user_id: str, provider: str, grant: TokenGrant) -> None:
        """Keeps a grant in the place of an earlier one. It outlives its access token."""
        ...

    async def get_grant(self, user_id: str, provider: str) -> TokenGrant | None:
        """Returns the grant, also one whose access token has ended, or None."""
        ...

    async def delete(self, user_id: str, provider: str) -> None:
        """Forgets a grant."""
        ...


def is_grant_store(store: TokenStore | GrantStore) -> TypeGuard[GrantStore]:
    """True if the store keeps refresh tokens too."""
    return not _missing(store, "store_grant", "get_grant", "delete")


def check_token_store(store: TokenStore | GrantStore) -> None:
    """Raises ConfigurationError for an object that is neither of the two kinds of store."""
    missing = _missing(store, "store", "get", "delete")
    if missing and not is_grant_store(store):
        raise ConfigurationError(
            f"token_store is a {type(store).__name__}, which has no `{missing[0]}`",
            hint="give one with `store`, `get` and `delete`, or with `store_grant`, `get_grant` and `delete`",
        )


def _missing(store: object, *methods: str) -> list[str]:
    return [name for name in methods if not callable(getattr(store, name, None))]
