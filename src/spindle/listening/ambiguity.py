"""Heads of requests that a proxy before us might read in another way than we do."""

from __future__ import annotations

from typing import Protocol

ONCE = frozenset(
    (b"authorization", b"content-type", b"host", b"mcp-protocol-version", b"mcp-session-id", b"origin")
)
"""Headers of which two in one request mean that somebody on the way may believe the other."""


class ParsedHead(Protocol):
    """The part of httptools' parser that is asked."""

    def get_http_version(self) -> str: ...
    def should_upgrade(self) -> bool: ...


def ambiguity_of(url: bytes, pairs: list[tuple[bytes, bytes]], parsed: ParsedHead) -> str | None:
    """The reason to refuse a request, if it can be read in two ways."""
    headers, version = dict(pairs), parsed.get_http_version()
    if len(headers) != len(pairs):
        names = [name for name, _ in pairs]
        for name in ONCE.intersection(names):
            if names.count(name) > 1:
                return f"{name.decode()} is there more than once"
    if version != "1.1" and version != "1.0":
        return "this server speaks HTTP/1.1"
    host = headers.get(b"host")
    if host is None and version == "1.1":
        return "the host is missing"
    encoding = headers.get(b"transfer-encoding")
    if encoding is not None and (version == "1.0" or encoding.strip().lower() != b"chunked"):
        return "a body comes as it is, or in chunks"
    if not url.startswith(b"/"):
        parts = url.split(b"/", 3)
        if len(parts) < 3 or parts[1] or parts[2].lower() != (host or b"").lower():
            return "the request is for another host than it says"
    if parsed.should_upgrade() and (encoding is not None or headers.get(b"content-length", b"0") != b"0"):
        return "a request to change the protocol has no body"
    return None
