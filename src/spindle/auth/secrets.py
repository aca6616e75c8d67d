"""The secrets of a workspace, kept encrypted in its store, or read from the environment or a file.

One that belongs to a source is called `SOURCE.KEY`, and settings of that source refer to it as
`${secret:SOURCE.KEY}`. Any other has a name without a dot, and flows refer to it as `${secrets.NAME}`.
"""

from __future__ import annotations

import os
import re
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from spindle.domain.identity import GROUP, LOCAL, Principal, Secret
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import (
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    StoreError,
    suggest,
)
from spindle.remedies import Remedy
from spindle.settings.expand import uses_secrets
from spindle.settings.secrets import NAME, DeclaredSecret

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.ports.store import SecretStore
    from spindle.settings import Settings

REFERENCE: Final = "secret:"
"""The beginning of a reference to a sealed value, where a variable's name would stand."""
EVERYBODY: Final = "*"
OWNER: Final = (LOCAL.id,)
"""The readers of a secret that names none: whoever runs the workspace itself."""
_OF_SOURCE = re.compile(r"(?P<source>[A-Za-z0-9_-]{1,64})\.(?P<key>[A-Za-z][A-Za-z0-9_.-]{0,99})")


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """A secret as lists show it: never its value."""

    name: str
    place: str
    """`sealed`, or the variable or file that it is read from."""
    readers: tuple[str, ...] = ()
    """Users and groups whose runs may read it; none for one of a source."""
    source: str | None = None
    updated_at: float | None = None
    problem: str | None = None

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        shown = {
            "name": self.name, "place": self.place, "readers": list(self.readers), "source": self.source,
            "updated_at": self.updated_at, "problem": self.problem,
        }  # fmt: skip
        return {key: value for key, value in shown.items() if value is not None}


class Secrets:
    """The secrets of a workspace."""

    def __init__(self, store: SecretStore, sealer: Sealer, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now
        self._declared: Mapping[str, DeclaredSecret] = {}
        self._environ: Mapping[str, str] = {}

    # --- those that a source's settings refer to

    async def save(self, source: str, values: Mapping[str, str]) -> None:
        """Seals the values of a source, by their keys."""
        for key, value in values.items():
            name = f"{source}.{key}"
            sealed = self._sealer.seal(value, _place(name))
            await self._store.save_secret(Secret("value", name, sealed, source, updated_at=self._now()))

    async def load(self) -> dict[str, str]:
        """Returns the secrets of sources under the names by which settings refer to them. One that cannot be
        opened is left out: whoever uses it is told that it is missing."""
        found: dict[str, str] = {}
        for secret in await self._store.secrets("value"):
            if not secret.source:
                continue
            try:
                found[f"{REFERENCE}{secret.key}"] = self._sealer.open(secret.sealed, _place(secret.key))
            except StoreError:
                continue
        return found

    async def environment(self, settings: Settings, environ: Mapping[str, str] | None) -> Mapping[str, str]:
        """Returns the values that references in the settings lead to: variables, and sealed values where
        the settings use them. Otherwise neither the store nor a key is asked. Raises ConfigurationError if
        the settings say of a secret what nobody can understand."""
        variables = os.environ if environ is None else environ
        _ = settings.secrets
        if not uses_secrets([settings.raw.get("sources"), settings.raw.get("search")]):
            return variables
        return ChainMap(await self.load(), cast("MutableMapping[str, str]", variables))

    def adopt(self, settings: Settings, environ: Mapping[str, str] | None) -> None:
        """Reads from now on what these settings name from where they say."""
        self._declared = settings.secrets
        self._environ = os.environ if environ is None else environ

    async def forget(self, source: str) -> int:
        """Deletes the values of a source and returns how many there were."""
        known = await self._store.secrets("value", source=source)
        for secret in known:
            await self._store.delete_secret("value", secret.key)
        return len(known)

    # --- those that flows read by name

    async def set(self, name: str, value: str, readers: Sequence[str] = OWNER) -> None:
        """Seals a secret. `readers` are users, `group:NAME`, or `*` for everybody whose runs may read it."""
        checked_name(name)
        if not value:
            raise InvalidArgumentsError(f"the secret {name} would be empty", hint="give it a value")
        if name in self._declared:
            raise ConfigurationError(
                f"the settings say that the secret {name} is read from {self._declared[name].place}",
                hint=f"set it there, or take secrets.{name} out of spindle.toml",
            )
        for reader in readers:
            if not reader.removeprefix(GROUP).strip():
                raise InvalidArgumentsError(f"{reader!r} is neither a user nor a group", hint="group:NAME")
        content = {"value": value, "readers": list(readers) or list(OWNER)}
        sealed = self._sealer.seal(content, _place(name))
        await self._store.save_secret(Secret("value", name, sealed, updated_at=self._now()))

    async def list(self) -> list[SecretInfo]:
        """Lists all secrets by name, without their values."""
        found = [SecretInfo(name, item.place, item.readers or OWNER) for name, item in self._declared.items()]
        for secret in await self._store.secrets("value"):
            readers, problem = (), None
            try:
                content = self._sealer.open(secret.sealed, _place(secret.key))
                if is_object(content):
                    readers = tuple(content["readers"])
            except StoreError as error:
                problem = error.message
            info = SecretInfo(
                secret.key, "sealed", readers, secret.source or None, secret.updated_at, problem
            )
            found.append(info)
        return sorted(found, key=lambda info: info.name)

    async def remove(self, name: str) -> None:
        """Deletes a sealed secret, also one of a source. Raises NotFoundError if there is none."""
        if name in self._declared:
            raise ConfigurationError(
                f"the secret {name} is read from {self._declared[name].place}, not sealed here",
                hint=f"take secrets.{name} out of spindle.toml",
            )
        if not await self._store.delete_secret("value", name):
            raise await self._unknown(name)

    async def read(self, name: str, principal: Principal) -> str:
        """Returns the value of a secret for a run of this principal. Raises NotFoundError if there is none,
        and PermissionDeniedError if it is not for them."""
        declared = self._declared.get(name)
        if declared is not None:
            self._require(name, declared.readers or OWNER, principal)
            return declared.read(name, self._environ)
        stored = await self._store.secret("value", name)
        if stored is None or stored.source:
            raise await self._unknown(name)
        content = self._sealer.open(stored.sealed, _place(name))
        self._require(name, content["readers"], principal)
        return content["value"]

    def _require(self, name: str, readers: Sequence[str], principal: Principal) -> None:
        mine = {EVERYBODY, principal.id, *(f"{GROUP}{group}" for group in principal.groups)}
        if mine.isdisjoint(readers):
            raise PermissionDeniedError(
                f"{principal.id!r} may not use the secret {name}",
                remedy=Remedy("allow_secret", name),
            )

    async def _unknown(self, name: str) -> NotFoundError:
        known = [info.name for info in await self.list() if info.source is None]
        meant = suggest(name, known)
        hint = f"did you mean {meant}?" if meant else f"`spindle secret set {name}` makes it"
        return NotFoundError(f"there is no secret {name!r} in this workspace", hint=hint)


def checked_name(name: str) -> str:
    """Returns the name of a secret. Raises InvalidArgumentsError if it cannot be one."""
    if not NAME.fullmatch(name):
        raise InvalidArgumentsError(
            f"{name!r} cannot be the name of a secret",
            hint="letters, digits, - and _, beginning with a letter; SOURCE.KEY is one of a source",
        )
    return name


def source_and_key(name: str) -> tuple[str, str] | None:
    """Returns the source and the key of a secret's name, or None if it does not belong to a source."""
    match = _OF_SOURCE.fullmatch(name)
    return None if match is None else (match["source"], match["key"])


def _place(name: str) -> str:
    return f"value {name}"
