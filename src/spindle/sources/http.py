"""What every source that speaks HTTP needs: one TLS context, credentials, and where not to go."""

from __future__ import annotations

import functools
import logging
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
