"""Public addresses only: a name is resolved once, and the addresses that were checked are those connected.

Checking a name first and letting a library resolve it again would leave a gap in which a hostile name server
changes its answer.
"""

from __future__ import annotations

import asyncio
import socket

from spindle.http import addresses
from spindle.http.failures import InsideError
from spindle.http.proxies import is_proxied

PATIENCE_PER_ADDRESS = 3.0
"""Seconds for one of several addresses of a host, before the next is tried."""


async def public_addresses(host: str) -> list[str]:
    """The addresses of a host, all of which are public; raises InsideError where one is not."""
    found = await addresses.addresses_of(host)
    if any(addresses.is_inside(address) for address in found):
        raise InsideError(host)
    return found


async def answered_inside(url: str, peer: str | None) -> bool:
    """True if the address that answered for a URL is inside; behind a proxy, all that its name leads to."""
    if is_proxied():
        return await addresses.is_wholly_inside(url)
    return peer is not None and addresses.is_inside(peer)


async def connect_public(host: str, port: int) -> socket.socket:
    """Returns a socket that is connected to a host outside, for a library that would resolve its name by
    itself. Raises InsideError, or OSError where nobody answers."""
    found = await public_addresses(host)
    if not found:
        raise OSError(f"there is no host {host}")
    *others, last = found
    for address in others:
        try:
            async with asyncio.timeout(PATIENCE_PER_ADDRESS):
                return await _connected(address, port)
        except (OSError, TimeoutError):
            continue
    return await _connected(last, port)


async def _connected(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made
