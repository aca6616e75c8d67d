"""TLS for a server: its certificate, read again when its files change."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.ports.source import Note

EVERY: Final = 2.0
"""Seconds between two looks at the files."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a certificate with its chain, its key (which may be in the same file), and the
    certificates of those who sign the clients' own, where clients must show one."""

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None


class ServerTls:
    """The TLS of one server. Connections that are open keep the certificate that they began with."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.context = _context(files)
        self._mark = self._marks()

    def _marks(self) -> tuple[object, ...]:
        marks: list[object] = []
        for file in (self._files.certificate, self._files.key):
            try:
                found = os.stat(file) if file is not None else None
                marks.append(found and (found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                marks.append(None)
        return tuple(marks)

    def reload(self) -> None:
        """Reads the files again, for connections from now on. Raises ConfigurationError, and keeps the
        certificate in force, if they are wrong."""
        self._mark = self._marks()
        _context(self._files)  # a pair that does not fit must not reach the one in use
        self.context.load_cert_chain(self._files.certificate, self._files.key)

    async def run(self, note: Note) -> None:
        """Reads the files whenever they change."""
        while True:
            await asyncio.sleep(EVERY)
            self.look(note)

    def look(self, note: Note) -> None:
        """Reads the files if they changed."""
        if self._marks() == self._mark:
            return
        try:
            self.reload()
        except ConfigurationError as error:
            note(f"the certificate changed, but the old one stays in force: {error.message}")
        else:
            note("the certificate changed, and is in force for new connections")


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except FileNotFoundError:
        missing = next(file for file in (files.certificate, files.key) if file and not file.exists())
        raise ConfigurationError(
            f"there is no file {missing}", hint="see serve.tls_certificate and serve.tls_key"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{files.certificate} and its key cannot be used: {error}",
            hint="both are PEM files; the certificate comes first, then those that signed it",
        ) from None
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            raise ConfigurationError(f"serve.tls_client_ca {files.client_ca}: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to type its password")
