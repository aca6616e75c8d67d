"""Reads the WWW-Authenticate header (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEADER = 8 * 1024

# A scheme such as `Bearer`, then `name=value` parts; a part may be quoted, with backslashes. A quote that is
# not closed goes to the end, or the rest would be searched again from each sign in it.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_PART = re.compile(r'(?<![\w-])([A-Za-z][\w-]*+)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z][\w-]*)(?=\s+[A-Za-z][\w-]*\s*=|\s*(?:,|$))")


@dataclass(frozen=True, slots=True)
class Challenge:
    """The parts of a WWW-Authenticate header that matter for OAuth."""

    error: str | None = None
    scopes: tuple[str, ...] = ()
    resource_metadata: str | None = None


def bearer_challenge(header: str | None) -> Challenge | None:
    """The Bearer part of the header; None where it has none."""
    text = (header or "")[:MAX_HEADER]
    # Commas inside quoted values must not look like the start of another scheme.
    bare = _QUOTED.sub(lambda found: "_" * len(found[0]), text)
    schemes = list(_SCHEME.finditer(bare))
    for index, scheme in enumerate(schemes):
        if scheme[1].lower() == "bearer":
            own = text[scheme.end() : schemes[index + 1].start() if schemes[index + 1 :] else None]
            parts = {
                found[1].lower(): re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else found[3]
                for found in _PART.finditer(own)
            }
            scopes = tuple(dict.fromkeys(parts.get("scope", "").split()))
            return Challenge(parts.get("error"), scopes, parts.get("resource_metadata"))
    return None
