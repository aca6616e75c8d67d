"""Health, TLS, Unix sockets, systemd, SIGHUP, draining and CORS, of a server that runs as a process."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from servers import warm
from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE
from spindle.errors import ConfigurationError
from spindle.listening.systemd import ServiceManager, inherited_socket
from spindle.listening.unix import listen_unix


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline


# --- health


def test_health_and_readiness_need_no_token(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nauth_token = "only-this-token-is-good"')
    with rest.serve() as served:
        assert served.client.get("/healthz").json() == {"alive": True}
        ready = served.client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"ready": True})
        assert served.client.post("/healthz").status_code == 401


def test_a_server_whose_store_is_gone_is_not_ready_and_says_why(
    rest: RestWorkspace, postgres_url: str, postgres_server: Any
) -> None:
    rest.settings(f'store = "{postgres_url}"\n[serve]\naudit = "off"')
    with rest.serve() as served:
        assert served.client.get("/readyz").status_code == 200
        name = postgres_url.rpartition("schema=")[2].partition("&")[0]
        postgres_server.execute(f'DROP SCHEMA "{name}" CASCADE')
        answer = served.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["reasons"] == ["the store cannot be read (StoreError)"]
        assert served.client.get("/healthz").status_code == 200


def test_a_server_that_is_told_to_stop_says_so_and_ends_its_calls(rest: RestWorkspace) -> None:
    rest.settings("[serve]\ndrain_delay = 1.0")
    with rest.serve() as served:
        waiting = subprocess.Popen(
            [warm.PYTHON, "-c", "import sys, urllib.request as r; print(r.urlopen(r.Request(sys.argv[1],"
             " b'{\"name\": \"go\"}', {'Content-Type': 'application/json'})).read().decode())",
             f"{served.url}/tools/wait_for"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun = rest.root / "tools" / "go.begun"
        wait_until(begun.exists)
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: served.client.get("/readyz").status_code == 503)
        assert served.client.get("/readyz").json()["reasons"] == ["the server is stopping"]
        (rest.root / "tools" / "go").touch()
        assert "it came" in waiting.communicate(timeout=PATIENCE)[0]
        served.process.communicate(timeout=PATIENCE)


# --- TLS


def certificate(folder: Path, name: str, cn: str = "localhost") -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, cn)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(cn)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file


def shown_by(port: int) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as raw,
        context.wrap_socket(raw) as link,
    ):
        found = link.getpeercert(binary_form=True)
        assert found is not None
        return found


def test_a_server_over_tls_takes_a_new_certificate_while_it_runs(rest: RestWorkspace) -> None:
    cert, key = certificate(rest.root, "one")
    other_cert, other_key = certificate(rest.root, "two")
    with over_tls(rest, "--tls-cert", str(cert), "--tls-key", str(key)) as served:
        port = int(served.url.rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(base_url=f"https://localhost:{port}", verify=context) as client:
            answer = client.post("/tools/say", json={"text": "x"})
            assert (answer.status_code, answer.text) == (200, "x")
            document = client.get("/openapi.json").json()
            assert document["servers"][0]["url"] == f"https://localhost:{port}"
        first = shown_by(port)
        cert.write_text("this is no certificate")
        served.process.send_signal(signal.SIGHUP)
        read_until(served.process, "the old one stays in force")
        assert shown_by(port) == first
        key.write_bytes(other_key.read_bytes())
        cert.write_bytes(other_cert.read_bytes())
        served.process.send_signal(signal.SIGHUP)
        wait_until(lambda: shown_by(port) != first)
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/healthz")
        code, _ = served.stop()
    assert code == 0


def read_until(process: subprocess.Popen[str], said: str) -> str:
    """Returns the line in which the process says this, once it has."""
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return line
    raise AssertionError(f"the process ended, and did not say {said!r}")


@contextlib.contextmanager
def over_tls(rest: RestWorkspace, *words: str) -> Iterator[Served]:
    process = subprocess.Popen(
        [warm.SPINDLE, "serve", "--rest", "--port", "0", *words], cwd=rest.root, env=rest.env,
        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        url = read_until(process, "serving").split()[-1]
        assert url.startswith("https://127.0.0.1:")
        with httpx2.Client() as client:
            yield Served(url, process, rest.root, client)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        process.stderr.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tls-cert", "none.pem"), "there is no file"),
        (("--tls-cert", "spindle.toml"), "cannot be used"),
        (("--tls-key", "spindle.toml"), "no certificate"),
        (("--unix", "x.sock", "--port", "1"), "--unix takes the place"),
        (("--unix", "spindle.toml"), "is no socket"),
        (("--unix", "x" * 200), "too long"),
        (("--rest",), "one server serves one way"),
    ],
)
def test_mistakes_stop_the_start(rest: RestWorkspace, words: tuple[str, ...], said: str) -> None:
    done = rest.spindle("serve", "--http", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# --- Unix sockets and systemd


def test_a_server_on_a_unix_socket_is_the_owners_alone(rest: RestWorkspace) -> None:
    path = rest.root / "s.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    process = subprocess.Popen(
        [warm.SPINDLE, "serve", "--rest", "--unix", str(path)], cwd=rest.root, env=rest.env,
        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        while "serving" not in process.stderr.readline():
            assert process.poll() is None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        transport = httpx2.HTTPTransport(uds=str(path))
        with httpx2.Client(base_url="http://localhost", transport=transport) as client:
            assert client.post("/tools/say", json={"text": "over a file"}).text == "over a file"
        with pytest.raises(ConfigurationError, match="another program listens"), listen_unix(path, 0o600):
            pass
    finally:
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    assert "/docs" not in said, "no browser gets there"
    assert not path.exists()


def test_others_need_a_token_where_the_socket_lets_them_connect(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nunix_mode = "666"')
    done = rest.spindle("serve", "--rest", "--unix", "s.sock")
    assert done.returncode == 2
    assert "no token is required" in done.stderr


def test_a_service_takes_systemds_socket_and_tells_how_it_is(rest: RestWorkspace) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    place = rest.root / "notify"
    told.bind(str(place))
    told.settimeout(PATIENCE)
    # As systemd does: descriptor 3, and the process's own id.
    script = (
        "import os, sys; fd = int(sys.argv[1]); os.dup2(fd, 3); os.set_inheritable(3, True);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )

    def wait_for(word: bytes) -> None:
        """Signs of life come in between, as many as the machine is slow."""
        deadline = time.monotonic() + PATIENCE
        while told.recv(1000).partition(b"\n")[0] != word:
            assert time.monotonic() < deadline, word

    import sys

    program = str(Path(sys.executable).with_name("spindle"))
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(listening.fileno()), program, "serve", "--rest"],
        cwd=rest.root, env={**rest.env, "NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "300000"},
        pass_fds=[listening.fileno()], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert told.recv(1000).startswith(b"READY=1")
        port = listening.getsockname()[1]
        assert httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        assert told.recv(1000) == b"WATCHDOG=1"
        process.send_signal(signal.SIGHUP)
        wait_for(b"RELOADING=1")
        wait_for(b"READY=1")
        process.terminate()
        wait_for(b"STOPPING=1")
        assert process.wait(PATIENCE) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        told.close()
        listening.close()


def test_sockets_that_are_another_processs_are_left_alone() -> None:
    assert inherited_socket({"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1"}) is None
    with pytest.raises(ConfigurationError, match="2 sockets"):
        inherited_socket({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})
    ServiceManager({"NOTIFY_SOCKET": "/nowhere/at/all"}).ready("nobody listens, and nothing fails")


def test_sighup_reads_the_settings_again(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        assert served.call("say", text="x").status_code == 200
        rest.settings('[serve]\nexcluded_tools = ["say"]')
        served.process.send_signal(signal.SIGHUP)
        wait_until(lambda: served.call("say", text="x").status_code == 404)
        served.process.send_signal(signal.SIGHUP)
        assert served.call("hello").status_code == 200
        assert served.process.stderr is not None
        while "the settings were read again, and are in force" not in (
            line := served.process.stderr.readline()
        ):
            assert line, "the second time nothing had changed"
        code, _ = served.stop()
    assert code == 0


# --- pages of other origins

PAGE = "https://app.example"


def test_pages_of_allowed_origins_may_ask_before_and_read_the_answers(rest: RestWorkspace) -> None:
    rest.settings(f'[serve]\nauth_token = "of-a-page-that-may"\nallowed_origins = ["{PAGE}"]')
    with rest.serve() as served:
        wanted = {
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,mcp-session-id",
        }
        asked = served.client.options("/tools/say", headers=wanted)
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert asked.headers["access-control-allow-headers"] == wanted["access-control-request-headers"]
        refused = served.client.post("/tools/say", json={"text": "x"}, headers={"origin": PAGE})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == PAGE
        token = {"origin": PAGE, "authorization": "Bearer of-a-page-that-may"}
        answer = served.client.post("/tools/say", json={"text": "x"}, headers=token)
        assert (answer.text, answer.headers["access-control-allow-origin"]) == ("x", PAGE)
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
        evil = served.client.options("/tools/say", headers={**wanted, "origin": "https://evil.example"})
        assert evil.status_code == 403
        assert "access-control-allow-origin" not in evil.headers
        plain = served.client.post(
            "/tools/say", json={"text": "x"}, headers={"authorization": token["authorization"]}
        )
        assert "access-control-allow-origin" not in plain.headers


def test_any_page_may_call_only_where_a_token_is_needed(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nallowed_origins = ["*"]')
    done = rest.spindle("serve", "--rest", "--port", "0")
    assert done.returncode == 2
    assert "every page could call" in done.stderr
    token = rest.spindle("token", "create", "page").stdout.strip()
    with rest.serve(token=token) as served:
        answer = served.client.get("/openapi.json", headers={"origin": PAGE})
        assert answer.headers["access-control-allow-origin"] == PAGE
