"""Requests over kept connections: where they may go, and renewed tokens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError
from spindle.http.addresses import host_of, is_loopback, same_origin
from spindle.http.api import ApiClient

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer
    from spindle.http.request import Prepared
    from spindle.sources.utcp.config import UtcpConfig

Renew = Callable[[], Awaitable[str]]
"""Makes the value of a new `Authorization` header, after the present one was refused."""


class Sender(ApiClient):
    """Makes the requests of one manual's tools, to places that its settings allow."""

    reach_hint = "check that its server is there"
    inside_hint = "set sources.{name}.allow_private = true if that is meant"

    def __init__(self, name: str, config: UtcpConfig) -> None:
        super().__init__(name, config)
        self._config = config

    def is_bound(self, *, remote: bool) -> bool:
        """True if requests may go to public addresses only. With `remote`, a remote manual chose the
        address."""
        return remote and not self._config.allow_private

    async def check_scheme(self, url: str) -> None:
        """Raises ConfigurationError for a place that is not on the web, or where others can listen."""
        host = host_of(url)
        scheme = urlsplit(url).scheme if host else ""
        if scheme not in ("http", "https", "ws", "wss"):
            raise ConfigurationError(
                f"{self.name!r} leads to an address that is not http(s) or ws(s)", sent=False
            )
        secure = "wss" if scheme == "ws" else "https"
        if scheme in ("http", "ws") and not is_loopback(host) and not self._config.allow_insecure:
            raise ConfigurationError(
                f"{self.name!r} leads to {scheme}://{host}, where others can listen",
                hint=f"use {secure}, or set sources.{self.name}.allow_insecure = true",
                sent=False,
            )

    @contextlib.asynccontextmanager
    async def exchange(
        self, prepared: Prepared, *, remote: bool, renew: Renew | None = None
    ) -> AsyncGenerator[HttpAnswer]:
        """Sends a request, with a new token where the present one is refused, and hands over the answer
        while it is still coming in."""
        public_only = self.is_bound(remote=remote)
        async with self.answer(prepared, public_only=public_only, check=self.check_scheme) as answer:
            if answer.status != 401 or renew is None or not same_origin(answer.url, prepared.url):
                yield answer
                return
            refused, public_only = answer.request, self.is_bound(remote=remote or answer.sent_from_outside)
        again = replace(refused, headers={**refused.headers, "authorization": await renew()})
        async with self.answer(again, public_only=public_only, check=self.check_scheme) as answer:
            yield answer
