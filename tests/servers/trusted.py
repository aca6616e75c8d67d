"""One TLS context for all HTTP clients of the tests: reading certificates takes longer than most tests."""

from __future__ import annotations

import functools
import os
import ssl

import httpcore2


def share_the_context() -> None:
    """Lets clients of httpx2 that want no context of their own share one. Spindle's own do so anyway."""
    make = httpcore2.default_ssl_context

    @functools.cache
    def made(trust_env: bool, _file: str | None, _folder: str | None) -> ssl.SSLContext:
        return make(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        return made(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    httpcore2.default_ssl_context = shared
