"""Changes of tokens, groups and quotas by administrators: one way for the shell, the API and the console.

They are kept in the store, so that all servers of a workspace share them, and each change is in the audit
log. What the settings name themselves is changed there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from spindle.auth.clients import RESERVED
from spindle.auth.issued import IssuedToken, digest_of, new_token
from spindle.domain.access_entry import AccessEntry, AccessKind
from spindle.domain.audit import AuditEntry
from spindle.domain.quota import QuotaRule, check_name
from spindle.domain.serve import Exposure
from spindle.errors import InvalidArgumentsError, NotFoundError, did_you_mean

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.serve import ServeConfig
    from spindle.ports.serving_store import AccessStore
    from spindle.serving.access import ServingAccess

MAX_ENTRIES = 10_000
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class Administrator:
    """The maker of a change, and the way by which it came."""

    id: str
    door: str
    address: str = ""


def administered(app: Spindle, access: ServingAccess) -> ServeConfig:
    """Returns the settings that tokens and groups stand beside: those of this server, or, where its own are
    for one owner alone, those that a server of this workspace would have."""
    is_owners = access.sessions is not None and access.sessions.alone
    return app.settings.serve() if is_owners else access.config


class Administration:
    """Makes and lists what administrators may change. `config` is what the settings say."""

    def __init__(
        self,
        store: AccessStore,
        config: Callable[[], ServeConfig],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._config = config
        self.now = now

    # --- tokens

    async def tokens(self) -> list[IssuedToken]:
        """All tokens that were made, the revoked ones too."""
        return [IssuedToken.of(entry) for entry in await self._entries("token")]

    async def create_token(
        self,
        by: Administrator,
        name: str,
        *,
        user: str | None = None,
        groups: Sequence[str] = (),
        admin: bool = False,
        expires_in: float | None = None,
    ) -> tuple[IssuedToken, str]:
        """Makes a token and returns it, also as the text that is shown this once."""
        self._check(name, "token", self._config().tokens)
        for group in groups:
            _checked(group)
        whose = _checked(user or name)
        if whose in RESERVED:
            raise InvalidArgumentsError(f"{whose!r} is a name that Spindle uses itself")
        text, at = new_token(), self.now()
        expires = at + expires_in if expires_in is not None else None
        token = IssuedToken(name, digest_of(text), whose, tuple(groups), admin, at, by.id, expires)
        await self._room("token")
        about = f"user {whose}" + (f", groups {' '.join(groups)}" if groups else "") + (", admin" * admin)
        noted = self._noted(by, "token.create", name, about)
        if not await self._store.put_access_entry(token.entry(at, by.id), noted, new=True):
            raise InvalidArgumentsError(
                f"there is a token {name!r} already", hint="choose another name; names are never used again"
            )
        return token, text

    async def revoke_token(self, by: Administrator, name: str) -> IssuedToken:
        """Makes a token good for nothing, for ever."""
        tokens = {token.name: token for token in await self.tokens()}
        found = tokens.get(name)
        if found is None:
            raise self._missing("token", name, tokens, self._config().tokens)
        if found.revoked_at is not None:
            return found
        revoked = replace(found, revoked_at=self.now())
        noted = self._noted(by, "token.revoke", name, f"user {found.user}")
        await self._store.put_access_entry(revoked.entry(self.now(), by.id), noted)
        return revoked

    # --- groups and quotas

    async def groups(self) -> dict[str, Exposure]:
        """The groups that administrators made."""
        return {entry.name: Exposure.model_validate(entry.body) for entry in await self._entries("group")}

    async def set_group(self, by: Administrator, name: str, lists: Mapping[str, Any]) -> Exposure:
        """Makes a group, or gives it other lists."""
        self._check(name, "group", self._config().groups)
        group = _validated(Exposure, lists)
        body = group.model_dump(mode="json", exclude_defaults=True)
        await self._put(by, AccessEntry("group", name, body, self.now(), by.id), body)
        return group

    async def quotas(self) -> dict[str, QuotaRule]:
        """The quotas that administrators made."""
        return {entry.name: QuotaRule.model_validate(entry.body) for entry in await self._entries("quota")}

    async def set_quota(self, by: Administrator, name: str, rule: Mapping[str, Any]) -> QuotaRule:
        """Makes a quota, or changes it."""
        self._check(name, "quota", self._config().quotas.rules)
        quota = _validated(QuotaRule, rule)
        body = quota.model_dump(mode="json", exclude_defaults=True)
        await self._put(by, AccessEntry("quota", name, body, self.now(), by.id), body)
        return quota

    async def remove(self, by: Administrator, kind: AccessKind, name: str) -> None:
        """Removes a group or a quota."""
        noted = self._noted(by, f"{kind}.remove", name, "")
        if not await self._store.delete_access_entry(kind, name, noted):
            known = {entry.name for entry in await self._entries(kind)}
            config = self._config()
            written = config.groups if kind == "group" else config.quotas.rules
            raise self._missing(kind, name, known, written)

    # --- common to all

    async def _entries(self, kind: AccessKind) -> list[AccessEntry]:
        return [entry for entry in await self._store.access_entries() if entry.kind == kind]

    async def _room(self, kind: AccessKind) -> None:
        if len(await self._entries(kind)) >= MAX_ENTRIES:
            raise InvalidArgumentsError(f"there are {MAX_ENTRIES} {kind}s already")

    async def _put(self, by: Administrator, entry: AccessEntry, body: Mapping[str, Any]) -> None:
        await self._room(entry.kind)
        about = ", ".join(f"{key} {_short(value)}" for key, value in body.items())
        await self._store.put_access_entry(entry, self._noted(by, f"{entry.kind}.set", entry.name, about))

    def _noted(self, by: Administrator, action: str, target: str, about: str) -> AuditEntry:
        return AuditEntry(
            self.now(), action, target[:500], by.id, reason=about[:500], door=by.door, address=by.address
        )

    def _check(self, name: str, kind: AccessKind, written: Collection[str]) -> None:
        _checked(name)
        if name in written:
            raise InvalidArgumentsError(f"the {kind} {name!r} is in spindle.toml", hint="change it there")

    def _missing(
        self, kind: AccessKind, name: str, known: Collection[str], written: Collection[str]
    ) -> NotFoundError:
        if name in written:
            return NotFoundError(f"the {kind} {name!r} is in spindle.toml", hint="remove it there")
        hint = did_you_mean(name, known, f"`spindle {kind} list` shows them")
        return NotFoundError(f"there is no {kind} {name!r}", hint=hint)


def _checked(name: str) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise InvalidArgumentsError(str(error)) from None


def _validated(model: type[Any], given: Mapping[str, Any]) -> Any:
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ")
        raise InvalidArgumentsError(f"{place}: {said}" if place else said) from None


def _short(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
