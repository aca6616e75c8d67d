"""The part of our own environment that a program started by us gets to see."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.domain import trail

# What every program may need to run at all. Everything else, secrets above all, must be declared.
BASE_ENVIRONMENT = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
)  # fmt: skip
# Launchers such as npx and uvx cannot install a server without these.
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def environment(declared: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a program: the base, what its source declares, and the trail of the call."""
    base = {key: value for key, value in os.environ.items() if _is_for_everybody(key, value)}
    way = trail.current()
    # The word of a source that says another trail would hide a loop.
    return base | dict(declared) | ({trail.VARIABLE: trail.written(way)} if way else {})


def _is_for_everybody(key: str, value: str) -> bool:
    # The address of a proxy may hold a password, and then it must be declared like any secret.
    return key in BASE_ENVIRONMENT or (key.lower() in PROXIES and "@" not in value)
