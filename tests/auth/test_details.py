"""The key with which the details of calls are sealed."""

from __future__ import annotations

import subprocess
import sys
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


def test_no_two_are_sealed_with_the_same_key_and_nonce_also_not_in_a_process_that_was_forked() -> None:
    code = """
import os, sys
from spindle.auth.details import DetailSealer
sealer = DetailSealer(lambda: [sys.argv[1]])
shown = [sealer.seal(b"words", "a place").hex() for _ in range(100)]
child = os.fork()
shown += [sealer.seal(b"words", "a place").hex() for _ in range(100)]
failed = child and os.waitpid(child, 0)[1]
os.write(1, "".join(f"{item} " for item in shown).encode())
sys.exit(failed)
"""
    key = new_key()
    done = subprocess.run([sys.executable, "-c", code, key], capture_output=True, check=True, timeout=30)
    sealed = {bytes.fromhex(item) for item in done.stdout.decode().split()}
    assert len({item[:29] for item in sealed}) == 300, "100 before, and 100 of each process"
    assert len({item[:17] for item in sealed}) == 2, "a key for each process"
    opener = DetailSealer(lambda: [key])
    assert {opener.open(item, "a place") for item in sealed} == {b"words"}
