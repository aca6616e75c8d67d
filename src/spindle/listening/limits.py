"""The bounds of what strangers may send, how long they may take, and how many connections they may hold."""

from __future__ import annotations

import functools
import ipaddress
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig

KIB = 1024
BACKLOG = 256
"""Connections that may wait to be accepted."""
KEPT_DESCRIPTORS = 256
"""Descriptors for all but connections."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one server. Sizes are in bytes, times in seconds."""

    header_size: int = 32 * KIB
    header_count: int = 100
    header_timeout: float = 10.0
    body_size: int = 4 * KIB * KIB
    body_timeout: float = 30.0
    keep_alive: float = 60.0
    """For a known client between two requests; others have `header_timeout`."""
    send_timeout: float = 30.0
    """In which a client that is sent something must take some of it."""
    connections: int = 1000
    per_address: int = 100
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks that stand for many clients, and are not counted."""

    @classmethod
    def of(cls, config: ServeConfig) -> ConnectionLimits:
        """Returns those that the `[serve]` table sets."""
        return cls(
            header_size=config.max_header_size,
            header_count=config.max_headers,
            header_timeout=config.header_timeout,
            body_size=config.max_body_size,
            body_timeout=config.body_timeout,
            keep_alive=config.keep_alive,
            send_timeout=config.send_timeout,
            connections=config.max_connections,
            per_address=config.max_connections_per_address,
            trusted_proxies=config.trusted_proxies,
        )

    def trusts(self, address: str) -> bool:
        """True for an address that is not counted."""
        return _is_in(address, self.trusted_proxies)


@functools.lru_cache(4096)
def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ipaddress.ip_network(network) for network in networks)


def raise_descriptors(connections: int) -> None:
    """Lets this process, which is to serve, have as many descriptors as it needs, if the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + BACKLOG + KEPT_DESCRIPTORS
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections_within(wanted: int) -> int:
    """Returns how many connections there can be with the descriptors that this process may have: sources,
    stores and programs need some, and all that wait to be accepted are so at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, max(soft - BACKLOG - KEPT_DESCRIPTORS, soft // 4)))
