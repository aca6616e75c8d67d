"""The one TLS context of all clients: making it takes longer than many a call."""

from __future__ import annotations

import functools
import os
import ssl
import sys

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""The files of certificates that systems trust, for a Python that was built for another system."""


@functools.cache
def shared_ssl_context() -> ssl.SSLContext:
    """Returns the TLS context: it trusts what the system does, or SSL_CERT_FILE and SSL_CERT_DIR name."""
    context = _context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context() -> ssl.SSLContext:
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    if sys.platform == "darwin":
        # OpenSSL does not see what the system trusts there.
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    # Each is None where there is no such file.
    if not (paths.cafile or paths.capath):
        return ssl.create_default_context(cafile=next(filter(os.path.isfile, _BUNDLES), None))
    return ssl.create_default_context()
