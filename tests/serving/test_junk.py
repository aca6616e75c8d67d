"""Malformed HTTP on the port: refused, whatever it is, and the server goes on."""

from __future__ import annotations

import random
import re
import socket
import time

import httpx2

from servers.issuing import AUDIENCE, ISSUER, publishing, signed
from servers.rest import RestWorkspace
from servers.running import PATIENCE

SEED = 20261116
LINES = (
    "GET / HTTP/1.1",
    "GET /utcp HTTP/1.1",
    "POST /tools/echo HTTP/1.1",
    "POST /tools/ HTTP/1.1",
    "POST /tools/%00%ff HTTP/1.1",
    "POST /tools/../../x HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "GET //x:y@z/ HTTP/1.1",
    "GET /openapi.json?source=%00&filter=[ HTTP/1.1",
    "GET /utcp?template=%F0%28 HTTP/1.1",
    "PRI * HTTP/2.0",
    "CONNECT localhost:1 HTTP/1.1",
    "GET http://evil.example/ HTTP/1.1",
    "GET / HTTP/9.9",
    "BREW /pot HTTP/1.1",
    "GET /.well-known/oauth-protected-resource/%2e%2e/\u00e9 HTTP/1.1",
    "POST /tools/echo?" + "a" * 5000 + " HTTP/1.1",
)
HEADERS = (
    "Host: localhost",
    "Host: localhost:99999",
    "Host: [::1",
    "Host: \u00e9",
    "Host:",
    "Content-Length: 5",
    "Content-Length: 99999999999999999999999",
    "Content-Length: x",
    "Content-Length: -5",
    "Content-Length: 0",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked, gzip",
    "Content-Type: application/json",
    "Content-Type: \u00e9;;;=",
    "Accept: text/event-stream",
    "Accept: ;q=x,,*/*;q=9",
    "Authorization: Bearer a.b.c",
    "Authorization: Bearer",
    "Authorization: \u00e9 \u00e9",
    "Origin: null",
    "Origin: http://localhost",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    ": empty",
    "no colon",
    " folded",
    "X: " + "y" * 9000,
    "\0: \0",
)
BODIES = (
    b"",
    b"{}",
    b'{"text": "x"}',
    b"[" * 3000,
    b'{"text": ' + b"9" * 5000 + b"}",
    b"\xff\xfe",
    b'5\r\n{"a"\r\n0\r\n\r\n',
    b"FFFFFFFFFFFFFFFF\r\n",
    b"zz\r\n",
    b"2;x=y\r\n{}\r\n0\r\n\r\n",
    b'{"text": "\\ud800"}',
    b"null",
    b'{"text": 1e999}',
)


def junk(chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return chance.randbytes(chance.randrange(1, 2000))
    lines = [chance.choice(LINES)]
    if chance.random() < 0.8:
        lines.append("Host: localhost")
    lines += chance.sample(HEADERS, chance.randrange(0, 6))
    end = chance.choice(["\r\n", "\r\n", "\r\n", "\n"])
    made = (end.join(lines) + end + end).encode("utf-8") + chance.choice(BODIES)
    if chance.random() < 0.3:
        place = chance.randrange(len(made))
        made = made[:place] + chance.randbytes(3) + made[place + chance.randrange(4) :]
    return made


def test_random_junk_never_gets_a_500_nor_hangs_nor_stops_the_server(rest: RestWorkspace) -> None:
    chance = random.Random(SEED)
    with publishing() as keys, rest.serve() as served:
        port = httpx2.URL(served.url).port or 0
        jwt = f'jwt = {{ issuer = "{ISSUER}", audience = "{AUDIENCE}", jwks_url = "{keys.url}" }}'
        for settings, token in (("", ""), (f"[serve]\n{jwt}\n", signed())):
            rest.settings(settings)
            deadline = time.monotonic() + PATIENCE
            while token and served.client.get("/utcp").status_code != 401:
                assert time.monotonic() < deadline
            for number in range(300):
                said = answer_to(port, junk(chance))
                assert not re.match(rb"HTTP/1.1 5", said), (SEED, number, said)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            assert served.client.post("/tools/say", json={"text": "x"}, headers=headers).text == "x"
        code, said_last = served.stop()
    assert (code, "Traceback" in said_last) == (0, False), said_last


def answer_to(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes. It has to: nothing more is coming."""
    got = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw:
        try:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while chunk := raw.recv(65536):
                got += chunk
        except (ConnectionResetError, BrokenPipeError):
            pass
    return bytes(got)
