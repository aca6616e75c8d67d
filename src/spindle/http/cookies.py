"""Cookies of one session with one server: kept until it is known that several users share the session."""

from __future__ import annotations

from http.cookies import BaseCookie
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from aiohttp.typedefs import LooseCookies


class SessionCookies(aiohttp.CookieJar):
    """Cookies that keep a session with the machine that opened it, as some load balancers need it."""

    def __init__(self) -> None:
        # Also those of a server that is known by its address alone.
        super().__init__(unsafe=True)
        self._are_kept = True

    def keep_none(self) -> None:
        """Drops all of them, now and later: one user's cookie must not reach another."""
        self._are_kept = False
        self.clear()

    def update_cookies(self, cookies: LooseCookies, response_url: URL | None = None) -> None:
        if self._are_kept and response_url is not None:
            super().update_cookies(cookies, response_url)

    def filter_cookies(self, request_url: URL = URL()) -> BaseCookie[str]:  # noqa: B008 - as in the base
        return super().filter_cookies(request_url) if self._are_kept else BaseCookie[str]()
