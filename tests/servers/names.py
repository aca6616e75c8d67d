"""Fixtures for all that speaks HTTP: a real server, made-up names for where it is, and one with TLS."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from servers.echo_server import PUBLIC, EchoServer
from spindle.http import addresses, pool


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    server = EchoServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    server.public_url = f"http://{PUBLIC}:{port}"
    async with await asyncio.start_server(server.serve, PUBLIC, port):
        yield server
    listening.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of made-up hosts: the first is the answer to the first question and so on, and the
    last to all that follow. One address of this machine counts as one of somebody else's."""
    answers: dict[str, list[str]] = {}
    real, inside = socket.getaddrinfo, addresses.is_inside

    def getaddrinfo(host: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in answers:
            host = answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]
        return real(host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(addresses, "is_inside", lambda address: address != PUBLIC and inside(address))
    return answers


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server needs to be `good.test`, and what a client needs to believe it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "good.test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("good.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "server.pem").write_bytes(secret + pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "server.pem")
    return serving, ssl.create_default_context(cadata=pem.decode())


@pytest.fixture
async def secure(
    certificate: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EchoServer]:
    """A server that is `good.test` and can prove it."""
    serving, trusting = certificate
    monkeypatch.setattr(pool, "shared_ssl_context", lambda: trusting)
    echo = EchoServer()
    async with await asyncio.start_server(echo.serve, PUBLIC, 0, ssl=serving) as server:
        echo.url = f"https://good.test:{server.sockets[0].getsockname()[1]}"
        yield echo
