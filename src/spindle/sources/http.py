"""What every source that speaks HTTP needs: one TLS context, credentials, and where not to go."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
import socket
import ssl
from collections.abc import Generator
from typing import Any

import httpx2

from spindle.domain.identity import Credential

CONNECT_FAILURES = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)


class _WithoutQueries(logging.Filter):
    """Keeps API keys that are part of a URL out of the HTTP library's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                argument.copy_with(query=None) if isinstance(argument, httpx2.URL) else argument
                for argument in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())


@functools.cache
def shared_ssl_context() -> ssl.SSLContext:
    """One for all clients: making it takes longer than many a call."""
    return httpx2.create_ssl_context()


class CredentialAuth(httpx2.Auth):
    """Shows one credential with every request of one session."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def auth_flow(self, request: httpx2.Request) -> Any:
        return show(self._credential, request)


def show(credential: Credential, request: httpx2.Request) -> Generator[httpx2.Request]:
    """The one step of an auth flow that adds a credential to a request."""
    for name, value in credential.headers:
        request.headers[name] = value
    if credential.query:
        request.url = request.url.copy_merge_params(dict(credential.query))
    if credential.cookies:
        pairs = "; ".join(f"{name}={value}" for name, value in credential.cookies)
        present = request.headers.get("cookie")
        request.headers["cookie"] = f"{present}; {pairs}" if present else pairs
    yield request


async def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host; none when it has no such name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def is_private(url: httpx2.URL) -> bool:
    """Whether a URL leads to this machine or a network of its own, by any of its host's addresses."""
    return any(is_inside(address) for address in await addresses_of(url.host))


def is_inside(address: str) -> bool:
    """Whether an IP address is of this machine or a network that is not the public one."""
    return not ipaddress.ip_address(address.partition("%")[0]).is_global


def is_below(url: httpx2.URL, base: httpx2.URL) -> bool:
    """Whether a URL is a base's own, or one that continues its path."""
    path, root = (part.raw_path.partition(b"?")[0].rstrip(b"/") + b"/" for part in (url, base))
    return same_origin(url, base) and path.startswith(root)


def same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    ports = {"http": 80, "https": 443}
    return (one.scheme, one.host, one.port or ports.get(one.scheme)) == (
        other.scheme, other.host, other.port or ports.get(other.scheme),
    )  # fmt: skip
