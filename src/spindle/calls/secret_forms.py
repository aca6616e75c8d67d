"""The forms in which a secret can turn up in other texts: as it is, in JSON, in URLs, as base64 or hex."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

MIN_SECRET: Final = 4
"""Shorter values are no secrets, and masking them would make every text unreadable."""
_MIN_ENCODED: Final = 6
"""Characters of an encoded form that are looked for: fewer would be found in any text."""
_MAX_ENCODED: Final = 64 * 1024
"""Characters of a secret whose encoded forms are looked for."""
_MAX_PATTERNS: Final = 256


def _patterns(secret: str) -> set[str]:
    """Returns the patterns of the secret, and of the texts that stand for it where it was encoded, alone or
    with text around it."""
    forms = {secret}
    if len(secret) > _MAX_ENCODED:
        return {re.escape(secret)}
    for ascii_only in (True, False):
        forms.add(json.dumps(secret, ensure_ascii=ascii_only)[1:-1])
    forms |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    data = secret.encode(errors="surrogatepass")
    forms |= {data.hex(), data.hex().upper()}
    # Of the characters beside it, some bits are the secret's.
    beside = "[A-Za-z0-9+/_-]?"
    found = {f"{beside}{re.escape(form)}{beside}={{0,2}}" for form in _base64(data)}
    return found | {re.escape(form) for form in forms}


def _base64(data: bytes) -> set[str]:
    """Returns what base64 of the data has in common wherever it begins in the encoded bytes, as in that of
    `user:password`."""
    found: set[str] = set()
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        # What shares its bits with a neighbour is cut off, at the beginning and at the end.
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        part = text[first:last]
        found |= {part, part.replace("+", "-").replace("/", "_")}
    return {part for part in found if len(part) >= _MIN_ENCODED}


@lru_cache(_MAX_PATTERNS)
def pattern_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Returns the pattern of all forms of these secrets, or None if there is nothing to look for."""
    found = {one for secret in secrets if len(secret) >= MIN_SECRET for one in _patterns(secret)}
    if not found:
        return None
    # The longest first: otherwise one that begins like another would leave the other's end to be read.
    return re.compile("|".join(sorted(found, key=len, reverse=True)))


def replace_secrets(text: str, secrets: Collection[str], by: str) -> str:
    """Returns the text with `by` in place of every secret, in any of its forms."""
    if not secrets:
        return text
    pattern = pattern_of(secrets if isinstance(secrets, frozenset) else frozenset(secrets))
    return text if pattern is None else pattern.sub(by, text)
