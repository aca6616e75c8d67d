"""Proxies that the environment names: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, and NO_PROXY for what goes around
them."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

from spindle.http.failures import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.http.urls import Url

_KINDS = ("http", "https", "all")


def is_proxied() -> bool:
    """True where a proxy resolves names: all that is left to us then is to look before each request."""
    return not urllib.request.getproxies().keys().isdisjoint(_KINDS)


def environment_proxies() -> Mapping[str, str]:
    """The proxies of this process, and what goes around them; empty where there is none."""
    found = urllib.request.getproxies()
    return {} if found.keys().isdisjoint(_KINDS) else found


def proxy_for(url: Url, proxies: Mapping[str, str]) -> str | None:
    """The address of the proxy that a request goes through; raises UnreachableError for one that we cannot
    speak to."""
    if not proxies:
        return None
    proxy = proxies.get(url.scheme) or proxies.get("all")
    around = f"{url.host}:{url.effective_port}"
    if not proxy or urllib.request.proxy_bypass_environment(around, dict(proxies)):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    kind = proxy.partition("://")[0].lower()
    if kind not in ("http", "https"):
        raise UnreachableError(
            url.host, f"a proxy of the kind {kind} is set, which is not supported", sent=False
        )
    return proxy
