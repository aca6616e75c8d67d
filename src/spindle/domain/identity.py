"""Principals, on whose behalf calls are made, and credentials, which prove that to sources."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

CALLER = "caller"
"""Among `approvers`: whoever made the call."""
GROUP = "group:"
"""Begins the name of a group among `approvers`."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or program on whose behalf a call is made. The default is the owner of the workspace."""

    id: str = "local"
    groups: frozenset[str] = frozenset()
    admin: bool = False
    """True if they may change who comes in, and see how the server is."""

    @property
    def holder(self) -> str:
        """Names the principal among those for whom a server keeps a session. Empty for the owner of the
        workspace, for whom also the workspace itself asks."""
        return "" if self.id == "local" else f"principal {self.id}"


LOCAL = Principal()

KEY_HEADER = "X-API-Key"
"""The header of an API key, where nothing says where the key goes."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The proof that is shown to a source: parts of a request, or variables of a process.

    A header without a name is a value whose place the source may know; otherwise it is `KEY_HEADER`.
    Its values are secrets: they are left out of `repr`, and `key` tells two credentials
    apart without revealing either.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cookies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token: str = field(default="", repr=False, compare=False)
    """The access token that is among them, where there is one: it can be replaced when it is refused."""
    key: str = field(default="", init=False, repr=False, compare=False)
    """A mark of all values, the same only for equal credentials."""

    def __post_init__(self) -> None:
        parts = [self.headers, self.query, self.cookies, self.env]
        if any(parts):
            object.__setattr__(self, "key", hashlib.sha256(repr(parts).encode()).hexdigest()[:16])

    @property
    def secrets(self) -> frozenset[str]:
        """All values that must not be shown, also without their scheme, such as `Bearer`."""
        groups = (self.headers, self.query, self.cookies, self.env)
        values = {value for group in groups for _, value in group}
        return frozenset(values | {value.split(" ", 1)[1] for value in values if " " in value})


NO_CREDENTIAL = Credential()


SecretKind = Literal[
    "token",
    "pending",
    "client",
    "state",
    "value",
    "session",
    "process",
    "message",
    "stream",
    "browser",
    "memory",
]


@dataclass(frozen=True, slots=True)
class Secret:
    """Something encrypted that outlives a process: a user's tokens for a source (`token`), consent that
    was asked for (`pending`), what a provider knows us as (`client`), what others keep with us (`state`),
    what settings refer to (`value`), what agents keep for a user (`memory`). Of those who serve: what clients
    set in sessions (`session`), which processes there are (`process`), what these tell each other
    (`message`), answers that wait for a client whose connection was lost (`stream`), sessions of browsers and
    links to them (`browser`)."""

    kind: SecretKind
    key: str
    sealed: bytes = field(repr=False)
    source: str = ""
    principal: str = ""
    expires_at: float | None = None
    """The time after which it may be forgotten."""
    used: bool = False
    """It did what it was for and can do it no more, but is remembered in order to say so."""
    updated_at: float = 0.0


def names_approver(approvers: Collection[str], principal: Principal, caller: Principal) -> bool:
    """True if a principal is among those who may approve what the caller does: users, `group:NAME`, and
    `caller` for whoever does it."""
    if principal.id == caller.id:
        return CALLER in approvers
    groups = {f"{GROUP}{name}" for name in principal.groups}
    # A user may be called like one of our words.
    users = {name for name in approvers if name != CALLER and not name.startswith(GROUP)}
    return principal.id in users or not groups.isdisjoint(approvers)
