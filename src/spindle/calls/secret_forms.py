"""The forms in which a secret can turn up in other texts: as it is, in JSON, in URLs, as base64 or hex."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
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
_MAX_FORMS: Final = 2048
"""Secrets whose forms are remembered."""
_MANY: Final = 8
"""Secrets that one regular expression looks for. Of more it would take long to be made, and to look."""
_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")


@lru_cache(_MAX_FORMS)
def _forms(secret: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the secret and the texts that stand for it where it was encoded alone; and those that do so in
    base64 of more than the secret."""
    forms = {secret}
    if len(secret) > _MAX_ENCODED:
        return frozenset(forms), frozenset()
    for ascii_only in (True, False):
        forms.add(json.dumps(secret, ensure_ascii=ascii_only)[1:-1])
    forms |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    data = secret.encode(errors="surrogatepass")
    forms |= {data.hex(), data.hex().upper()}
    return frozenset(forms), frozenset(_base64(data))


def _patterns(secret: str) -> set[str]:
    """Returns the patterns of all forms of a secret."""
    forms, encoded = _forms(secret)
    # Of the characters beside it, some bits are the secret's.
    beside = "[A-Za-z0-9+/_-]?"
    found = {f"{beside}{re.escape(form)}{beside}={{0,2}}" for form in encoded}
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
    if len(secrets) > _MANY:
        return _replace_many(text, frozenset(secrets), by)
    pattern = pattern_of(secrets if isinstance(secrets, frozenset) else frozenset(secrets))
    return text if pattern is None else pattern.sub(by, text)


@lru_cache(4)
def _index(secrets: frozenset[str]) -> Mapping[str, Sequence[tuple[str, bool]]]:
    """Returns the forms of many secrets by their first characters, the longest first, each with whether it is
    base64. Unlike a regular expression it is made, and looked up, in a time that grows with them alone."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            forms, encoded = _forms(secret)
            for form in forms | encoded:
                found.setdefault(form[:MIN_SECRET], []).append((form, form in encoded))
    for forms in found.values():
        forms.sort(key=lambda form: -len(form[0]))
    return found


def _replace_many(text: str, secrets: frozenset[str], by: str) -> str:
    index = _index(secrets)
    parts: list[str] = []
    done = position = 0
    while position <= len(text) - MIN_SECRET:
        forms = index.get(text[position : position + MIN_SECRET], ())
        found = next((form for form in forms if text.startswith(form[0], position)), None)
        if found is None:
            position += 1
            continue
        start, end = position, position + len(found[0])
        if found[1]:
            start -= start > done and text[start - 1] in _BASE64
            end += text[end : end + 1] in _BASE64
            end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
        parts += (text[done:start], by)
        done = position = end
    return "".join((*parts, text[done:])) if parts else text
