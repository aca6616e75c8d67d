"""Connections to a host, to public addresses only where somebody else chose it: a name is resolved once, and
the addresses that were checked are those connected.

Checking a name first and letting a library resolve it again would leave a gap in which a hostile name server
changes its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from spindle.http import addresses
from spindle.http.failures import InsideError
from spindle.http.proxies import is_proxied

HEAD_START = 0.25
"""Seconds that an address has before the next one of the same host is tried beside it."""


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
    """Returns a socket that is connected to a host outside. Raises InsideError, or OSError where nobody
    answers."""
    return await _first_of(host, await public_addresses(host), port, public_only=True)


async def connect_anywhere(host: str, port: int) -> socket.socket:
    """Returns a socket that is connected to a host. Raises OSError where nobody answers."""
    return await _first_of(host, await addresses.addresses_of(host), port, public_only=False)


async def _first_of(host: str, found: list[str], port: int, *, public_only: bool) -> socket.socket:
    """A socket that is connected to one of several addresses, to the first that answers."""
    if not found:
        raise OSError(f"there is no host {host}")
    if len(found) == 1:
        return await _connected(found[0], port, public_only=public_only)
    trying = list[asyncio.Task[socket.socket]]()
    failure: BaseException = OSError("it cannot be connected to")
    try:
        for position, address in enumerate(found, 1):
            trying.append(asyncio.create_task(_connected(address, port, public_only=public_only)))
            is_last = position == len(found)
            while trying:
                patience = None if is_last else HEAD_START
                done, _ = await asyncio.wait(trying, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    trying.remove(task)
                    if (error := task.exception()) is None:
                        return task.result()
                    failure = error
                if not is_last:
                    break
        raise failure
    finally:
        for task in trying:
            if not task.cancel():
                with contextlib.suppress(OSError, InsideError):
                    task.result().close()


async def _connected(address: str, port: int, *, public_only: bool) -> socket.socket:
    # Once more, where the socket is made: nothing that was not checked gets one.
    if public_only and addresses.is_inside(address):
        raise InsideError(address)
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A stream may be silent for days: the system then asks whether the other end is still there.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made
