"""The `[auth]` table: the key for stored secrets, and the address that providers send users back to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError, suggest


@dataclass(frozen=True)
class AuthSettings:
    """The `[auth]` table after validation."""

    key: str | None = None
    """`keyring` for the system's keyring; otherwise the key is in a file."""
    key_file: Path | None = None
    redirect_uri: str | None = None
    """The address that a provider sends users back to."""
    client_metadata_url: str | None = None
    """The address of our client metadata document, for providers that read one."""
    client_name: str | None = None
    """The name under which we introduce ourselves to providers."""
    consent: str = "user"
    """Says who may complete a consent: the `user` who began it, as the application knows them; the `browser`
    in which they typed the code that they were given; or `anyone` with the link."""


CONSENTS = ("user", "browser", "anyone")
KNOWN = tuple(field.name for field in fields(AuthSettings))


def read(table: Any, root: Path, where: str) -> AuthSettings:
    """Validates the `[auth]` table. `where` names the file in error messages."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: `auth` must be a table: [auth]")
    given = cast("dict[str, Any]", table)
    for key, value in given.items():
        if key not in KNOWN:
            meant = suggest(key, KNOWN)
            hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(KNOWN)}"
            raise ConfigurationError(f"{where}: auth.{key} is not a setting", hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"{where}: auth.{key} must be text")
    if given.get("key") not in (None, "keyring", "file"):
        # The value is not shown: somebody may have put the key itself here.
        raise ConfigurationError(
            f'{where}: auth.key must be "keyring" or "file"',
            hint="a key does not belong in a file that is shared: set SPINDLE_KEY or auth.key_file",
        )
    if given.get("consent") not in (None, *CONSENTS):
        raise ConfigurationError(
            f"{where}: auth.consent must be one of {', '.join(CONSENTS)} (got {given['consent']!r})"
        )
    if given.get("consent") == "browser" and not given.get("redirect_uri"):
        raise ConfigurationError(
            f'{where}: auth.consent = "browser" needs auth.redirect_uri',
            hint="the address of `callback_app` in your application",
        )
    if given.get("key") == "keyring" and "key_file" in given:
        raise ConfigurationError(f"{where}: give either auth.key_file or the keyring, not both")
    _check_url(given, "redirect_uri", where, loopback=True)
    _check_url(given, "client_metadata_url", where, loopback=False)
    file = given.get("key_file")
    return AuthSettings(
        key=given.get("key"),
        key_file=root / Path(file).expanduser() if file else None,
        redirect_uri=given.get("redirect_uri"),
        client_metadata_url=given.get("client_metadata_url"),
        client_name=given.get("client_name"),
        consent=given.get("consent", "user"),
    )


def _check_url(table: dict[str, Any], key: str, where: str, *, loopback: bool) -> None:
    url = str(table.get(key, ""))
    if not url:
        return
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    here = parts.scheme == "http" and host in ("127.0.0.1", "localhost", "::1") and loopback
    if not host or parts.fragment or not (parts.scheme == "https" or here):
        allowed = "an https:// URL" + (", or http:// on this machine" if loopback else "")
        raise ConfigurationError(f"{where}: auth.{key} must be {allowed} (got {url!r})")
