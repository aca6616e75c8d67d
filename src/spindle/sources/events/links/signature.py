"""Signed webhooks, as Standard Webhooks describes them: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping

TOLERANCE = 300.0
"""Seconds by which a sender's clock may differ, and for which a captured request could be sent again."""


def signed(secret: str, key: str, body: bytes, now: float | None = None) -> dict[str, str]:
    """The headers that prove the origin of a webhook."""
    moment = str(int(time.time() if now is None else now))
    return {
        "webhook-id": key,
        "webhook-timestamp": moment,
        "webhook-signature": _signature(secret, key, moment, body),
    }


def problem(secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None) -> str | None:
    """The reason to reject a webhook, or None. Names of headers must be in lower case."""
    key, moment = headers.get("webhook-id"), headers.get("webhook-timestamp")
    given = headers.get("webhook-signature")
    if not key or not moment or not given:
        return "it is not signed"
    if not moment.isdecimal() or len(moment) > 15:
        return "its timestamp is not a number"
    if abs((time.time() if now is None else now) - int(moment)) > TOLERANCE:
        return "its timestamp is too old, or in the future"
    expected = _signature(secret, key, moment, body).encode()
    if any(hmac.compare_digest(expected, item.encode()) for item in given.split()):
        return None
    return "its signature is wrong"


def _signature(secret: str, key: str, moment: str, body: bytes) -> str:
    content = f"{key}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return secret.encode()
