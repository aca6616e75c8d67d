"""Encrypts what is stored: tokens, and the data of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spindle.auth.details import MARK, DetailSealer, other_key
from spindle.domain.json_schema import from_json, to_json
from spindle.errors import StoreError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


OFTEN = "events"
"""Stands for the place of all that `seal_often` seals: the true one is inside, as with the rest."""


class Sealer:
    """Encrypts JSON values. A value encrypted for one place cannot be read in another, so a row copied to
    another user's name is useless there. The first key seals, and all of them open."""

    def __init__(self, keys: Callable[[], Sequence[str]]) -> None:
        self._keys = keys
        self._known: tuple[Sequence[str], MultiFernet] | None = None
        self._fast = DetailSealer(keys)

    @property
    def _fernet(self) -> MultiFernet:
        if self._known is None:
            self.reload()
        assert self._known is not None
        return self._known[1]

    def reload(self) -> bool:
        """Read the keys; whether they are others than before."""
        from cryptography.fernet import Fernet, MultiFernet

        keys = list(self._keys())
        if self._known is not None and self._known[0] == keys:
            return False
        try:
            self._known = (keys, MultiFernet([Fernet(key) for key in keys]))
            self._fast = DetailSealer(self._keys)
            return True
        except ValueError:
            raise StoreError(
                "the key for stored secrets is not one that Spindle made",
                hint="it is 32 bytes in URL-safe base64; `spindle auth new-key` prints one",
            ) from None

    def seal(self, value: Any, place: str) -> bytes:
        return self._fernet.encrypt(to_json({"place": place, "value": value}, default=str))

    def seal_often(self, value: Any, place: str) -> bytes:
        """The same for what is written all the time: a tenth of the work."""
        return self._fast.seal(to_json({"place": place, "value": value}, default=str), OFTEN)

    def open(self, sealed: bytes, place: str) -> Any:
        found = from_json(self._fast.open(sealed, OFTEN) if sealed[:1] == MARK else self._opened(sealed))
        if found["place"] != place:
            raise StoreError("a stored secret was moved from its place in the store")
        return found["value"]

    def _opened(self, sealed: bytes) -> bytes:
        from cryptography.fernet import InvalidToken

        try:
            try:
                return self._fernet.decrypt(sealed)
            except InvalidToken:
                # Another process may have changed the key since we read it.
                if not self.reload():
                    raise
                return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise StoreError(
                "a stored secret was encrypted with another key, or has been changed",
                hint=other_key(self._keys),
            ) from None

    def peek(self, sealed: bytes) -> bytes:
        """Returns the bytes of a sealed value wherever its place is, to look for something in them."""
        if sealed[:1] == MARK:
            return self._fast.open(sealed, OFTEN)
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise StoreError(
                "a stored value was encrypted with another key, or has been changed",
                hint=other_key(self._keys),
            ) from None

    def reseal(self, sealed: bytes) -> bytes:
        """The same under the newest key."""
        if sealed[:1] == MARK:
            return self._fast.seal(self._fast.open(sealed, OFTEN), OFTEN)
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.rotate(sealed)
        except InvalidToken:
            raise StoreError("a stored secret was encrypted with a key that is gone") from None
