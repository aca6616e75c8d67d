"""On whose behalf a call is made, and what proves it to a source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call. The default is the person who owns the workspace."""

    id: str = "local"
    groups: frozenset[str] = frozenset()


LOCAL = Principal()


@dataclass(frozen=True, slots=True)
class Credential:
    """What is shown to a source: parts of a request, or variables of a process.

    A header without a name is a value whose place the source knows.
    Its values are secrets: they are left out of `repr`, and `key` tells two credentials
    apart without revealing either.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cookies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def key(self) -> str:
        parts = [self.headers, self.query, self.cookies, self.env]
        if not any(parts):
            return ""
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def secrets(self) -> frozenset[str]:
        groups = (self.headers, self.query, self.cookies, self.env)
        values = {value for group in groups for _, value in group}
        return frozenset(values | {value.split(" ", 1)[1] for value in values if " " in value})


NO_CREDENTIAL = Credential()
