"""Connections to checked addresses: TLS still asks for the name."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from servers.echo_server import PUBLIC, EchoServer
from spindle.sources import http
from spindle.sources.reach import InsideError, Reach


@pytest.fixture
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that is `good.test` and can prove it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "good.test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("good.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "server.pem").write_bytes(secret + pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "server.pem")
    trusting = ssl.create_default_context(cadata=pem.decode())
    monkeypatch.setattr(http, "shared_ssl_context", lambda: trusting)
    async with await asyncio.start_server(EchoServer().serve, PUBLIC, 0, ssl=serving) as server:
        yield server.sockets[0].getsockname()[1]


async def test_tls_is_about_the_name_and_not_about_the_address(
    secure: int, names: dict[str, list[str]]
) -> None:
    names |= {"good.test": [PUBLIC], "other.test": [PUBLIC]}
    reach = Reach(httpx2.Timeout(30))
    try:
        response = await reach.send("GET", httpx2.URL(f"https://good.test:{secure}/"), public_only=True)
        assert response.status_code == 200
        assert not await reach.is_from_inside(response)
        await response.aread()
        # The kept connection to the same address must not serve another name.
        with pytest.raises(httpx2.ConnectError, match=r"other\.test"):
            await reach.send("GET", httpx2.URL(f"https://other.test:{secure}/"), public_only=True)
    finally:
        await reach.aclose()


async def test_behind_a_proxy_names_are_checked_before_each_request(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, echo: EchoServer
) -> None:
    """The proxy resolves names; the requests go through it as anywhere else."""
    monkeypatch.setenv("HTTP_PROXY", echo.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    names |= {"away.test": [PUBLIC], "here.test": ["127.0.0.1"]}
    reach = Reach(httpx2.Timeout(30))
    try:
        response = await reach.send("GET", httpx2.URL("http://away.test/x"), public_only=True)
        await response.aread()
        assert echo.last.target == "http://away.test/x"
        assert not await reach.is_from_inside(response)
        with pytest.raises(InsideError):
            await reach.send("GET", httpx2.URL("http://here.test/x"), public_only=True)
    finally:
        await reach.aclose()
    assert len(echo.requests) == 1
