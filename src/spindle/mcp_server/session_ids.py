"""Session ids that contain themselves: all that the handshake agreed on, encrypted for one principal and one
store, so that any process of the workspace can go on with a session that it has never seen."""

from __future__ import annotations

import asyncio
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from spindle.auth.details import MARK
from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.errors import BusyError, StoreError

if TYPE_CHECKING:
    from spindle.auth.details import DetailSealer
    from spindle.domain.identity import Principal
    from spindle.ports.store import Store

LIFE = 30 * 24 * 3600.0
"""Seconds from the handshake on in which a session can be gone on with by a process that does not know it."""
MAX_ID = 2000
"""Characters of an id. It comes with every request, as a header."""
MAX_FACTS = 64 * 1024
"""Bytes that an id unpacks to, at most."""
_BINDING = "store"
_LEASE_NAME, _LEASE = "naming the store", 10.0


class SessionFacts(NamedTuple):
    """The facts about a session that its id contains."""

    key: str
    """The name of the session, in the store and between processes. Its client never sees it."""
    version: str
    """Of the protocol."""
    began: float
    client: JsonObject | None
    """The client's description of itself; None if it is in the store, being too long."""

    @property
    def expires(self) -> float:
        return self.began + LIFE


class SessionIds:
    """Makes the ids, and reads those that clients bring."""

    def __init__(self, store: Store, sealer: DetailSealer, now: Callable[[], float]) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now
        self._binding = ""

    async def make(self, principal: Principal, version: str, client: JsonObject) -> tuple[str, SessionFacts]:
        """An id for a new session. What does not fit into it must be kept in the store."""
        await self._bind()
        facts = SessionFacts(secrets.token_hex(12), version, self._now(), client)
        made = self._sealed(principal, facts)
        if len(made) > MAX_ID:
            facts = facts._replace(client=None)
            made = self._sealed(principal, facts)
        return made, facts

    async def read(self, shown: str, principal: Principal) -> SessionFacts | None:
        """The facts of an id; None if it was not made for this principal by a process of this workspace, or
        too long ago."""
        if len(shown) > MAX_ID:
            return None
        await self._bind()
        try:
            sealed = urlsafe_b64decode(shown.encode("ascii") + b"=" * (-len(shown) % 4))
            if sealed[:1] != MARK:
                return None
            packed = self._sealer.open(sealed, self._place(principal))
            found = from_json(zlib.decompressobj().decompress(packed, MAX_FACTS))
        except (ValueError, zlib.error, StoreError):
            return None
        key, version, began, client = found
        facts = SessionFacts(key, version, began, client if is_object(client) else None)
        return facts if began <= self._now() + 60 and self._now() < facts.expires else None

    def _sealed(self, principal: Principal, facts: SessionFacts) -> str:
        packed = zlib.compress(to_json([*facts]), 9)
        return urlsafe_b64encode(self._sealer.seal(packed, self._place(principal))).rstrip(b"=").decode()

    def _place(self, principal: Principal) -> str:
        return f"session {self._binding} {principal.id}"

    async def _bind(self) -> None:
        """Learns the name of this store. A user's key serves all their workspaces, and an id only one."""
        if self._binding:
            return
        owner = secrets.token_hex(8)
        for _ in range(100):
            found = await self._store.secret("session", _BINDING)
            if found is not None:
                self._binding = found.sealed.decode()
                return
            if await self._store.acquire(_LEASE_NAME, owner, _LEASE):
                try:
                    if await self._store.secret("session", _BINDING) is None:
                        name = secrets.token_hex(16).encode()
                        await self._store.save_secret(
                            Secret("session", _BINDING, name, updated_at=self._now())
                        )
                finally:
                    await self._store.release(_LEASE_NAME, owner)
            else:
                await asyncio.sleep(0.1)
        raise BusyError("the store could not be given a name for sessions", retry_after=1.0)


def client_of(told: JsonObject) -> JsonObject:
    """Returns a client's description of itself, as an id carries it: without pictures."""
    info: JsonObject = {key: value for key, value in told["clientInfo"].items() if key != "icons"}
    return {**told, "clientInfo": info}
