"""The names by which a server may be addressed, and the web pages that may call it."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spindle.http.addresses import is_loopback

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig


@dataclass(frozen=True, slots=True)
class Addressing:
    """`host` is where the server listens."""

    host: str
    names: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, config: ServeConfig) -> Addressing:
        names = {name.lower() for name in (config.host, *config.allowed_hosts)}
        if config.url is not None:
            names.add((urlsplit(config.url).hostname or "").lower())
        origins = frozenset(origin.rstrip("/").lower() for origin in config.allowed_origins)
        return cls(config.host, frozenset(names), origins)

    def knows(self, host: str) -> bool:
        """True if a Host header names this server. Otherwise a page could make its own name point at us
        and pass for one of ours."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if not name:
            return False
        if name in self.names:
            return True
        if is_loopback(self.host):
            return is_loopback(name)
        # No name leads to an address that is written out but that address itself.
        return _is_address(name)

    def trusts(self, origin: str, host: str) -> bool:
        own = {f"http://{host}".lower(), f"https://{host}".lower()}
        return "*" in self.origins or origin.lower() in own | self.origins


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@functools.lru_cache(4096)
def network(address: str) -> str:
    """Returns what one client may call its own: an address, of version 6 a network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
