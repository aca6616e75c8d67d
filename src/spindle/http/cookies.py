"""Cookies of one session with one server: kept until it is known that several users share the session."""

from __future__ import annotations

from email.message import Message
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.client import HTTPResponse

MOST = 64
"""Cookies of one session."""


class SessionCookies:
    """Cookies that keep a session with the machine that opened it, as some load balancers need it."""

    def __init__(self) -> None:
        from http.cookiejar import CookieJar

        self._jar = CookieJar()
        self._are_kept = True
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep_none(self) -> None:
        """Drops all of them, now and later: one user's cookie must not reach another."""
        self._are_kept = False
        self._jar.clear()
        self._count = 0

    def take(self, url: str, cookies: Sequence[str]) -> None:
        """Keeps what an answer from a URL sets, as far as it may set it."""
        if not self._are_kept or self._count >= MOST:
            return
        from urllib.request import Request

        said = _Said()
        for cookie in cookies[:MOST]:
            said.headers.add_header("Set-Cookie", cookie)
        self._jar.extract_cookies(cast("HTTPResponse", said), Request(url))  # noqa: S310 - nothing is opened
        self._count = sum(1 for _ in self._jar)

    def header(self, url: str, present: str | None) -> str | None:
        """The `Cookie` header for a URL, with what is present in it: that goes before what we keep."""
        if not self._count:
            return present
        from urllib.request import Request

        request = Request(url)  # noqa: S310 - nothing is opened
        self._jar.add_cookie_header(request)
        ours = request.get_header("Cookie") or ""
        names = {part.partition("=")[0].strip() for part in (present or "").split(";")}
        kept = [part for part in ours.split("; ") if part and part.partition("=")[0] not in names]
        return "; ".join([*([present] if present else []), *kept]) or None


class _Said:
    """The part of an answer that a jar of cookies looks at."""

    def __init__(self) -> None:
        self.headers = Message()

    def info(self) -> Message:
        return self.headers
