"""Sealed values: secrets that settings refer to as `${secret:NAME}`, kept encrypted in the store."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, cast

from spindle.domain.identity import Secret
from spindle.errors import StoreError
from spindle.settings.expand import uses_secrets

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.ports.store import SecretStore
    from spindle.settings import Settings

REFERENCE: Final = "secret:"
"""The beginning of a reference to a sealed value, where a variable's name would stand."""


class SealedValues:
    """The sealed values of a workspace. Each belongs to a source, and goes when the source is removed."""

    def __init__(self, store: SecretStore, sealer: Sealer, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now

    async def save(self, source: str, values: Mapping[str, str]) -> None:
        """Seals the values of a source, by their keys."""
        for key, value in values.items():
            name = f"{source}.{key}"
            sealed = self._sealer.seal(value, _place(name))
            await self._store.save_secret(Secret("value", name, sealed, source, updated_at=self._now()))

    async def load(self) -> dict[str, str]:
        """Returns all values under the names by which settings refer to them. One that cannot be opened is
        left out: whoever uses it is told that it is missing."""
        found: dict[str, str] = {}
        for secret in await self._store.secrets("value"):
            try:
                found[f"{REFERENCE}{secret.key}"] = self._sealer.open(secret.sealed, _place(secret.key))
            except StoreError:
                continue
        return found

    async def environment(self, settings: Settings, environ: Mapping[str, str] | None) -> Mapping[str, str]:
        """Returns the values that references in the settings lead to: variables, and sealed values where
        the settings use them. Otherwise neither the store nor a key is asked."""
        variables = os.environ if environ is None else environ
        if not uses_secrets(settings.raw.get("sources")):
            return variables
        return ChainMap(await self.load(), cast("MutableMapping[str, str]", variables))

    async def forget(self, source: str) -> int:
        """Deletes the values of a source and returns how many there were."""
        known = await self._store.secrets("value", source=source)
        for secret in known:
            await self._store.delete_secret("value", secret.key)
        return len(known)


def _place(name: str) -> str:
    return f"value {name}"
