"""An authorisation server as far as ours sees it: real keys, and an HTTP server that publishes them."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://login.example.com/"
AUDIENCE = "https://tools.example.com"

_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_WEAK_RSA = rsa.generate_private_key(public_exponent=65537, key_size=1024)
KEYS: dict[str, Any] = {
    "rsa": _RSA,
    "rsa-2": _OTHER_RSA,
    "weak": _WEAK_RSA,
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ec-384": ec.generate_private_key(ec.SECP384R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
PUBLIC_PEM = _RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public(kid: str, **members: Any) -> dict[str, Any]:
    key = KEYS[kid].public_key()
    if isinstance(key, rsa.RSAPublicKey):
        made = RSAAlgorithm.to_jwk(key, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        made = ECAlgorithm.to_jwk(key, as_dict=True)
    else:
        made = OKPAlgorithm.to_jwk(key, as_dict=True)
    return {**made, "kid": kid, **members}


def claims(**others: Any) -> dict[str, Any]:
    """Good ones, changed as wanted; None leaves one out."""
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 36_000, **others}
    return {name: value for name, value in made.items() if value is not None}


def signed(kid: str = "rsa", algorithm: str = "RS256", *, shown_kid: str | None = "", **others: Any) -> str:
    headers = {"kid": kid if shown_kid == "" else shown_kid} if shown_kid is not None else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)
        return jwt.encode(claims(**others), KEYS[kid], algorithm, headers=headers)


def unsigned(**others: Any) -> str:
    return jwt.encode(claims(**others), None, "none", headers={"kid": "rsa"})


def signed_with_the_public_key(**others: Any) -> str:
    """What an attacker makes who hopes that the key's text is taken for a shared secret."""
    import hashlib
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    header = part(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "rsa"}).encode())
    body = header + b"." + part(json.dumps(claims(**others)).encode())
    return (body + b"." + part(hmac.new(PUBLIC_PEM, body, hashlib.sha256).digest())).decode()


class KeyServer:
    def __init__(self) -> None:
        self.keys = [public("rsa"), public("ec"), public("ed"), public("weak")]
        self.body: bytes | None = None
        self.status = 200
        self.fetches = 0
        self.url = ""


@contextlib.contextmanager
def publishing() -> Iterator[KeyServer]:
    state = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.fetches += 1
            body = json.dumps({"keys": state.keys}).encode() if state.body is None else state.body
            self.send_response(state.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}/jwks.json"
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
