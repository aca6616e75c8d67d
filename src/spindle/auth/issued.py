"""Tokens that this server issues to its clients, by `spindle token create` or the admin API.

Only the digest of a token is kept. It has 256 random bits, so its digest needs neither salt nor work.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spindle.domain.access_entry import AccessEntry
from spindle.domain.audit import timestamp
from spindle.domain.identity import Principal
from spindle.domain.json_schema import JsonObject

PREFIX = "spt_"
"""The beginning of each token: scanners for secrets can find one that was published by mistake."""


def new_token() -> str:
    """Returns a token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Returns the mark by which a token is kept and found."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token of ours, without the token itself."""

    name: str
    digest: str
    user: str
    groups: tuple[str, ...] = ()
    admin: bool = False
    created_at: float = 0.0
    created_by: str = ""
    expires_at: float | None = None
    revoked_at: float | None = None

    def state(self, now: float) -> str:
        """`good`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "good"

    def principal(self, default: frozenset[str]) -> Principal:
        """The principal for whom whoever shows it acts; `default` are the groups of those without any."""
        return Principal(self.user, frozenset(self.groups) or default, self.admin)

    @classmethod
    def of(cls, entry: AccessEntry) -> IssuedToken:
        """Returns the token that an entry of the store keeps."""
        body = entry.body
        return cls(
            entry.name, body["digest"], body["user"], tuple(body["groups"]), body["admin"],
            body["created_at"], body["created_by"], body.get("expires_at"), body.get("revoked_at"),
        )  # fmt: skip

    def entry(self, at: float, by: str) -> AccessEntry:
        """Returns it as the store keeps it."""
        body: JsonObject = {
            "digest": self.digest,
            "user": self.user,
            "groups": list(self.groups),
            "admin": self.admin,
            "created_at": self.created_at,
            "created_by": self.created_by,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }
        return AccessEntry("token", self.name, body, at, by)

    def to_dict(self, now: float) -> dict[str, Any]:
        """Returns it as JSON, for administrators."""
        times = {"created": self.created_at, "expires": self.expires_at, "revoked": self.revoked_at}
        return {
            "name": self.name,
            "user": self.user,
            "groups": list(self.groups),
            "admin": self.admin,
            "state": self.state(now),
            "created_by": self.created_by,
        } | {name: timestamp(at) for name, at in times.items() if at is not None}


class IssuedTokens:
    """All of them, found by what clients show."""

    def __init__(self, tokens: Iterable[IssuedToken] = ()) -> None:
        self._by_digest = {token.digest: token for token in tokens}

    def __bool__(self) -> bool:
        """True if any was ever made: also if all are revoked, a server must not be open again."""
        return bool(self._by_digest)

    def find(self, shown: str, now: float) -> IssuedToken | None:
        """Returns the token that is shown, if it is good."""
        found = self._by_digest.get(digest_of(shown)) if shown.startswith(PREFIX) else None
        return found if found is not None and found.state(now) == "good" else None
