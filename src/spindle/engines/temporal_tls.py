"""TLS to a Temporal server: the files of the settings, and what is wrong when no connection is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from temporalio.service import TLSConfig

    from spindle.domain.engine import TemporalConfig

_FAULTS = {
    "UnknownIssuer": (
        "its certificate is of an authority that is not trusted",
        "name the file with the certificate of its authority as `ca` of [engine.temporal]",
    ),
    "NotValidForName": (
        "its certificate is for another name",
        "use a name that is in its certificate as `address` of [engine.temporal]",
    ),
    "InvalidCertificate(Expired": ("its certificate has expired", "have it renewed"),
    "InvalidContentType": (
        "it does not speak TLS",
        "take `tls`, `ca` and `certificate` out of [engine.temporal], or see that `address` is right",
    ),
    "InconsistentKeys": (
        "the key is not that of the certificate",
        "see `certificate` and `key` of [engine.temporal]",
    ),
}
"""Words in the library's errors, what they mean, and the way out."""
_HUNG_UP = ("brokenpipe", "unexpectedeof", "connectionreset", "connection closed", "alertreceived")
"""The same for a connection that the other side has ended, in small letters."""


def tls_fault(why: str, config: TemporalConfig) -> tuple[str, str] | None:
    """Returns what is wrong with TLS and the way out, if that is why no connection was made."""
    for word, fault in _FAULTS.items():
        if word in why:
            return fault
    if not any(word in why.lower() for word in _HUNG_UP):
        return None
    if not config.uses_tls:
        return "it hung up", "if it speaks TLS, set `tls = true` or `ca` of [engine.temporal]"
    wanted = "another `certificate`" if config.certificate else "a `certificate` and `key`"
    return "it hung up", f"it may want {wanted} of ours: see [engine.temporal]"


def tls_of(config: TemporalConfig, root: Path) -> TLSConfig | bool:
    """Returns how the connection is encrypted. Raises ConfigurationError for a file of no use."""
    if not config.uses_tls:
        return False
    from temporalio.service import TLSConfig

    return TLSConfig(
        server_root_ca_cert=_read(root, "ca", config.ca),
        client_cert=_read(root, "certificate", config.certificate),
        client_private_key=_read(root, "key", config.key),
    )


def _read(root: Path, setting: str, name: str | None) -> bytes | None:
    if name is None:
        return None
    try:
        found = (root / name).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"engine.temporal: {name} cannot be read: {error.strerror}") from None
    what = b"PRIVATE KEY-----" if setting == "key" else b"-----BEGIN CERTIFICATE-----"
    if what not in found:
        kind = "private key" if setting == "key" else "certificate"
        raise ConfigurationError(
            f"engine.temporal: {name}, its `{setting}`, has no {kind}", hint="it must be a file in PEM's form"
        )
    return found
