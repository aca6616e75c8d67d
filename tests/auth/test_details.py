"""The key with which the details of calls are sealed."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from spindle.auth.details import DetailSealer
from spindle.auth.keys import new_key


def test_the_key_is_derived_by_hkdf() -> None:
    key = new_key()
    sealed = DetailSealer(lambda: [key]).seal(b"words", "a place")
    salt, nonce, rest = sealed[1:17], sealed[17:29], sealed[29:]
    derived = HKDF(SHA256(), 32, salt, b"spindle details").derive(urlsafe_b64decode(key))
    assert AESGCM(derived).decrypt(nonce, rest, b"a place") == b"words"
