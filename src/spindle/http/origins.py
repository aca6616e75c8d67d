"""The origins that a source's credentials may go to: those that its settings name, never ones that only its
document does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError
from spindle.http.addresses import Origin, is_loopback, origin_of, show_origin

_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](?::\d{1,5})?|[A-Za-z0-9._-]+(?::\d{1,5})?")
_KNOWN_ADDRESSES = 1024


def check_auth_host(text: str) -> str:
    """Returns an entry of `auth_hosts`; raises ValueError for what names no host."""
    if text.startswith("${"):
        return text
    scheme, separator, rest = text.partition("://")
    if separator and (scheme not in ("http", "https", "ws", "wss") or not _HOST.fullmatch(rest)):
        raise ValueError(f"{text!r} is not an origin such as https://api.example.com")
    if not separator and not _HOST.fullmatch(text):
        raise ValueError(f"{text!r} is not a host such as api.example.com or api.example.com:8443")
    return text


class CredentialOrigins:
    """The origins that the credentials of one source may go to. `named` are addresses in its settings (one
    that is missing or is a file names none), `hosts` its `auth_hosts`."""

    def __init__(self, source: str, named: Iterable[str | None], hosts: Iterable[str]) -> None:
        self._source = source
        self._origins: set[Origin] = set()
        for address in named:
            if address is not None and address.startswith(("http://", "https://", "ws://", "wss://")):
                self._add(origin_of(address))
        for host in hosts:
            for address in _addresses(host):
                self._add(origin_of(address))
        self._known: dict[str, bool] = {}

    def _add(self, origin: Origin | None) -> None:
        if origin is None:
            return
        self._origins.add(origin)
        if origin[0] == "http" and origin[2] == 80:
            # A server that leads from http to https is still the one that was named.
            self._origins.add(("https", origin[1], 443))

    def admit(self, url: str) -> bool:
        """True if credentials may go to this URL."""
        # All up to the path, which decides, so that URLs of one server are looked at once.
        end = url.find("/", len("https://"))
        start = url if end < 0 else url[:end]
        known = self._known.get(start)
        if known is None:
            if len(self._known) >= _KNOWN_ADDRESSES:
                self._known.clear()
            known = self._known[start] = origin_of(start) in self._origins
        return known

    def require(self, url: str, what: str) -> None:
        """Raises ConfigurationError where credentials may not go to this URL. `what` would go there."""
        if not self.admit(url):
            raise self.refusal(url, what)

    def refusal(self, url: str, what: str) -> ConfigurationError:
        """Returns the error for credentials that would go to a URL they are not for."""
        origin = origin_of(url)
        place = show_origin(origin) if origin is not None else "what is not a URL"
        return ConfigurationError(
            f"{what} would go to {place}, which only the document of {self._source!r} names",
            hint=self.way_out(url),
            sent=False,
        )

    def way_out(self, url: str) -> str:
        """Returns the setting that lets credentials go to a URL."""
        origin = origin_of(url)
        if origin is None:
            return f"check the document of {self._source!r}"
        entry = show_origin(origin)
        if origin[0] == "https" or is_loopback(origin[1]):
            entry = entry.partition("://")[2]
        return f'if it may have them, set sources.{self._source}.auth_hosts = ["{entry}"]'


def _addresses(host: str) -> list[str]:
    """A host alone is spoken to in secret, or is this machine; an origin is meant as it is written."""
    if "://" in host:
        return [host]
    name = urlsplit(f"//{host}").hostname or ""
    return [f"https://{host}", *([f"http://{host}"] if is_loopback(name) else [])]
