"""Encrypts the details of call records and cached results, in about a microsecond each."""

from __future__ import annotations

import hmac
import itertools
import os
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from spindle.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK: Final = b"\x01"
"""The first byte of what is sealed. JSON in clear, as an older Spindle wrote it, never begins so."""
_SALT: Final = 16
_NONCE: Final = 12
_COUNTED: Final = 0xFFFFFFFF
_MAX_KNOWN: Final = 256


def other_key(keys: Callable[[], Sequence[str]]) -> str:
    """Returns the hint for a value that none of the keys opens."""
    from spindle.auth.keys import VARIABLE, Keys

    return keys.other_key if isinstance(keys, Keys) else f"give the key that it was as well, in {VARIABLE}"


class NoSeal:
    """Opens what was stored in clear, for a store that has no key."""

    def seal(self, data: bytes, place: str) -> bytes:
        """Returns the data as it is."""
        return data

    def open(self, stored: bytes, place: str) -> bytes:
        """Returns what was stored in clear."""
        if stored[:1] == MARK:
            raise StoreError("what is stored here is encrypted, and was read without a key")
        return stored


CLEAR: Final = NoSeal()


_sealers: WeakSet[DetailSealer] = WeakSet()
os.register_at_fork(after_in_child=lambda: [sealer.forget_own() for sealer in _sealers])


class DetailSealer:
    """Encrypts bytes for a place in the store with AES-256-GCM. Each process derives a key of its own from
    the first of the workspace's keys and a random salt, also a process that was forked, and counts what it
    encrypts with it: so no nonce comes twice with one key. The time is a part of the nonce for copies of a
    process that nothing tells, such as of a whole machine with its memory.
    All keys are tried to open what is stored; what was stored in clear stays as it is."""

    def __init__(self, keys: Callable[[], Sequence[str]]) -> None:
        self._read_keys = keys
        self._keys: Sequence[str] = ()
        self._known: dict[tuple[str, bytes], AESGCM] = {}
        self._own: tuple[bytes, AESGCM] | None = None
        self._count = itertools.count()
        _sealers.add(self)

    def seal(self, data: bytes, place: str) -> bytes:
        """Returns the data, encrypted for this place."""
        if self._own is None:
            salt = os.urandom(_SALT)
            self._load()
            self._own = MARK + salt, self._cipher(self._keys[0], salt)
        head, cipher = self._own
        nonce = ((next(self._count) & _COUNTED) << 64 | time.time_ns()).to_bytes(_NONCE, "big")
        return head + nonce + cipher.encrypt(nonce, data, place.encode())

    def forget_own(self) -> None:
        """Has a new key be derived: another process has the one that there is."""
        self._own = None

    def open(self, stored: bytes, place: str) -> bytes:
        """Returns what was sealed for this place, or what was stored in clear."""
        if stored[:1] != MARK:
            return stored
        opened = self._opened(stored, place)
        if opened is None:
            # Another process may have changed the key since we read it.
            self._load()
            opened = self._opened(stored, place)
        if opened is not None:
            return opened
        raise StoreError(
            "what is stored here was encrypted with another key, or has been changed",
            hint=other_key(self._read_keys),
        )

    def _opened(self, stored: bytes, place: str) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        salt, nonce = stored[1 : 1 + _SALT], stored[1 + _SALT : 1 + _SALT + _NONCE]
        for key in self._keys:
            try:
                return self._cipher(key, salt).decrypt(nonce, stored[1 + _SALT + _NONCE :], place.encode())
            except (InvalidTag, ValueError):
                continue
        return None

    def _load(self) -> None:
        try:
            self._keys = self._read_keys()
        except ConfigurationError as error:
            raise StoreError(error.message, hint=error.hint) from None

    def _cipher(self, key: str, salt: bytes) -> AESGCM:
        known = self._known.get((key, salt))
        if known is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[key, salt] = AESGCM(_derived(_bytes_of(key), salt))
        return known


def _derived(key: bytes, salt: bytes) -> bytes:
    """HKDF with SHA-256 (RFC 5869) for a key of one block, which is two HMACs. By `cryptography` it would
    take half a megabyte more of OpenSSL, in every process that writes a record."""
    return hmac.digest(hmac.digest(salt, key, "sha256"), b"spindle details\x01", "sha256")


def _bytes_of(key: str) -> bytes:
    try:
        found = urlsafe_b64decode(key)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise StoreError(
            "the key for stored secrets is not one that Spindle made",
            hint="it is 32 bytes in URL-safe base64; `spindle auth new-key` prints one",
        )
    return found
