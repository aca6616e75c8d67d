"""Addresses on the network: which are of this machine or its networks, and which belong together."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from spindle.http.urls import PORTS, Url, read_url

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are given out."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Stands for all of IPv4 on networks that have only IPv6; an address there is judged by the one within."""
_INSIDE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",  # for protocols, and the metadata of one cloud
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # the metadata of another cloud, at an address that looks public
        "2002::/16",  # 6to4: leads to whatever IPv4 address is within
        "3fff::/20",  # for documentation
    )
)
"""Networks that Python, in some of its versions, takes for public."""
_INSIDE_NAMES = frozenset({"localhost", "metadata", "metadata.goog", "instance-data"})
_INSIDE_ENDINGS = (".localhost", ".local", ".internal", ".home.arpa")
_OF_WEBSOCKET = {"ws": "http", "wss": "https"}
Origin = tuple[str, str, int | None]
"""The scheme, host and port of a URL."""


def host_in(url: str) -> str:
    """The host and port that are written in a URL, which may hold variables; without a user."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def is_loopback(host: str) -> bool:
    """True for a name or address of this machine, judged as it is written: no name server is asked."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_inside(address: str) -> bool:
    """True for an IP address of this machine, of a network that is not the public one, or of a cloud's
    metadata."""
    found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else found.ipv4_mapped
        if within is None and found not in _PUBLIC_V6:
            return True
        found = within or found
    return found.is_multicast or not found.is_global or any(found in network for network in _INSIDE)


def is_written_inside(host: str) -> bool:
    """True for a host that is inside by the way it is written: no name server is asked."""
    try:
        return is_inside(host)
    except ValueError:
        pass
    name = host.lower().rstrip(".")
    if name in _INSIDE_NAMES or name.endswith(_INSIDE_ENDINGS):
        return True
    try:
        # The older ways to write an address, such as `2130706433` and `0x7f.1`, which resolvers still read.
        return is_inside(socket.inet_ntoa(socket.inet_aton(name)))
    except (OSError, ValueError):
        return False


async def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host; none when there is no such name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def leads_inside(url: str) -> bool:
    """True if any address of a URL's host is inside: it must not be contacted for somebody outside."""
    host = read_url(url).host
    # By its name too: a proxy may find a name that this machine does not.
    return is_written_inside(host) or any(is_inside(address) for address in await addresses_of(host))


async def is_wholly_inside(url: str) -> bool:
    """True if all addresses of a URL's host are inside: nobody outside can have answered for it."""
    found = await addresses_of(read_url(url).host)
    return bool(found) and all(is_inside(address) for address in found)


def same_origin(one: str, other: str) -> bool:
    """True for two URLs with the same scheme, host and port."""
    try:
        return _origin(read_url(one)) == _origin(read_url(other))
    except ValueError:
        return False


def origin_of(url: str) -> Origin | None:
    """Returns the scheme, host and port of a URL, those of a WebSocket as of the server that it is opened at;
    None for what is not a URL."""
    try:
        scheme, host, port = _origin(read_url(url))
    except ValueError:
        return None
    return (_OF_WEBSOCKET.get(scheme, scheme), host, port) if host else None


def show_origin(origin: Origin) -> str:
    """Returns an origin as people write it."""
    scheme, host, port = origin
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port == PORTS.get(scheme) else f"{scheme}://{host}:{port}"


def is_below(url: str, base: str) -> bool:
    """True for a base's own URL, and for one that continues its path."""
    path, root = (read_url(part).path.rstrip("/") + "/" for part in (url, base))
    return same_origin(url, base) and path.startswith(root)


def join_url(base: str, location: str) -> str | None:
    """Returns where a location leads from a base; None where that is not a URL."""
    try:
        return str(read_url(base).join(location))
    except ValueError:
        return None


def plain_url(url: str) -> str:
    """Returns a URL that may be shown and stored: without the parts that often hold secrets."""
    return str(read_url(url).plain())


def host_of(url: str) -> str:
    """Returns the host of a URL; an empty text for what is not a URL."""
    try:
        return read_url(url).host
    except ValueError:
        return ""


def _origin(url: Url) -> Origin:
    return url.scheme, url.host, url.effective_port
