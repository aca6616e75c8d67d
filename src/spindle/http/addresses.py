"""Addresses on the network: which are of this machine or its networks, and which belong together."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_loopback(host: str) -> bool:
    """True for a name or address of this machine, judged as it is written: no name server is asked."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_inside(address: str) -> bool:
    """True for an IP address of this machine or of a network that is not the public one."""
    found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else found.sixtofour
        found = found.ipv4_mapped or found
        if within is not None and not within.is_global:
            return True
    return not found.is_global


def is_written_inside(host: str) -> bool:
    """True for a host that is inside by the way it is written: no name server is asked."""
    try:
        return is_inside(host)
    except ValueError:
        return is_loopback(host)


async def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host; none when there is no such name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def leads_inside(url: str) -> bool:
    """True if any address of a URL's host is inside: it must not be contacted for somebody outside."""
    return any(is_inside(address) for address in await addresses_of(_parsed(url).host))


async def is_wholly_inside(url: str) -> bool:
    """True if all addresses of a URL's host are inside: nobody outside can have answered for it."""
    found = await addresses_of(_parsed(url).host)
    return bool(found) and all(is_inside(address) for address in found)


def same_origin(one: str, other: str) -> bool:
    """True for two URLs with the same scheme, host and port."""
    import httpx2

    try:
        return _origin(one) == _origin(other)
    except (httpx2.InvalidURL, UnicodeError):
        return False


def is_below(url: str, base: str) -> bool:
    """True for a base's own URL, and for one that continues its path."""
    path, root = (_parsed(part).raw_path.partition(b"?")[0].rstrip(b"/") + b"/" for part in (url, base))
    return same_origin(url, base) and path.startswith(root)


def join_url(base: str, location: str) -> str | None:
    """Returns where a location leads from a base; None where that is not a URL."""
    import httpx2

    try:
        return str(_parsed(base).join(location))
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        return None


def plain_url(url: str) -> str:
    """Returns a URL that may be shown and stored: without the parts that often hold secrets."""
    return str(_parsed(url).copy_with(query=None, fragment=None, userinfo=b""))


def host_of(url: str) -> str:
    """Returns the host of a URL; an empty text for what is not a URL."""
    import httpx2

    try:
        return _parsed(url).host
    except (httpx2.InvalidURL, UnicodeError):
        return ""


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = _parsed(url)
    return parts.scheme, parts.host, parts.port or _PORTS.get(parts.scheme)


def _parsed(url: str) -> httpx2.URL:
    # By the library that sends requests: two readers of URLs that differ are a way around every check.
    import httpx2

    return httpx2.URL(url)
