"""Requests as they are written: nothing that somebody else chose can become a line of its own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from urllib.parse import unquote

from spindle.http.request import HEADER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.http.urls import Url

_ALWAYS_SAY_LENGTH = frozenset({"POST", "PUT", "PATCH"})
_OURS = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a request ends."""


def written_head(method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> bytes:
    """Returns all of a request before its body. Raises ValueError for what is not a method or a header; its
    text holds no value, which may be secret."""
    if not _is_word(method):
        raise ValueError("a method that is not one")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if not _is_word(name):
            raise ValueError("a header whose name is not one")
        if name not in _OURS:
            lines.append(f"{name}: {value}")
    if content or method in _ALWAYS_SAY_LENGTH:
        lines.append(f"content-length: {len(content or b'')}")
    text = "\r\n".join((*lines, "\r\n"))
    if text.count("\n") != len(lines) + 1 or text.count("\r") != len(lines) + 1 or "\0" in text:
        raise ValueError("a header that holds a line break")
    return text.encode()


def host_header(url: Url) -> str:
    """Returns the host of a URL as a request names it."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host if url.port is None else f"{host}:{url.port}"


def decoded_user(url: Url) -> tuple[str, str]:
    """Returns the name and the password in a URL."""
    user, _, password = url.user.partition(":")
    return unquote(user), unquote(password)


@functools.lru_cache(1024)
def _is_word(text: str) -> bool:
    return HEADER_NAME.fullmatch(text) is not None
