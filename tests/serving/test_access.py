"""Who is let in, and what stops the start."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx2
import pytest
from starlette.datastructures import Headers

from servers.rest import RestWorkspace
from spindle.domain.serve import ServeConfig
from spindle.errors import ConfigurationError
from spindle.listening.response import Response
from spindle.listening.server import listen
from spindle.serving.access import ServingAccess

TOKEN = "tok-3n-of-many-letters"


def access(**settings: Any) -> ServingAccess:
    return ServingAccess.of(ServeConfig.model_validate(settings), {"TOKEN": TOKEN})


def status(rules: ServingAccess, **headers: str) -> int:
    given = {"host": "localhost", **{key.replace("_", "-"): value for key, value in headers.items()}}
    return answered(rules, Headers(given).raw)


def answered(rules: ServingAccess, raw: list[tuple[bytes, bytes]]) -> int:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": raw, "client": ("127.0.0.1", 1)}
    admitted = asyncio.run(rules.admit(scope))
    return admitted.status_code if isinstance(admitted, Response) else 200


@pytest.mark.parametrize(
    ("settings", "host", "expected"),
    [
        ({}, "127.0.0.1:8321", 200),
        ({}, "localhost", 200),
        ({}, "LOCALHOST:1", 200),
        ({}, "[::1]:8321", 200),
        ({}, "evil.example", 421),
        ({}, "127.0.0.1.evil.example", 421),
        ({}, "localhost.evil.example:8321", 421),
        ({}, "10.0.0.1", 421),
        ({}, "", 421),
        ({}, "[", 421),
        ({}, "user@evil.example", 421),
        ({"allowed_hosts": ["Tools.example"]}, "tools.example:443", 200),
        ({"url": "https://tools.example"}, "tools.example", 200),
        ({"host": "0.0.0.0", "auth_token": TOKEN}, "192.168.1.5:8321", 401),
        ({"host": "0.0.0.0", "auth_token": TOKEN}, "evil.example", 421),
        ({"host": "box.lan", "auth_token": TOKEN}, "box.lan", 401),
    ],
)
def test_only_names_of_this_server_are_answered(settings: dict[str, Any], host: str, expected: int) -> None:
    assert status(access(**settings), host=host) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8321", 200),
        ("http://localhost:9999", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("app://desk", 200),
    ],
)
def test_only_own_pages_and_those_allowed_may_call(origin: str, expected: int) -> None:
    rules = access(allowed_origins=["app://desk/"])
    assert status(rules, host="localhost:8321", origin=origin) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        ("Bearer é", 401),
        (TOKEN, 401),
        ("", 401),
    ],
)
def test_the_token_must_be_shown_as_it_is(shown: str, expected: int) -> None:
    for settings in ({"auth_token": TOKEN}, {"auth_token_env": "TOKEN"}):
        assert status(access(**settings), authorization=shown) == expected


def test_two_tokens_in_one_request_are_none() -> None:
    pairs = [(b"host", b"localhost")] + [(b"authorization", f"Bearer {TOKEN}".encode())] * 2
    assert answered(access(auth_token=TOKEN), pairs) == 401


def test_two_names_in_one_request_are_none() -> None:
    assert answered(access(), [(b"host", b"localhost")] * 2) == 421


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": "0.0.0.0"}, "can be reached by others"),
        ({"host": "::"}, "can be reached by others"),
        ({"host": "example.com"}, "can be reached by others"),
        ({"auth_token_env": "TOKN"}, "names the variable TOKN, which is not set"),
    ],
)
def test_a_server_that_would_be_open_by_accident_does_not_start(settings: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        access(**settings)


def test_a_variable_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(ConfigurationError) as caught:
        access(auth_token_env="TOKN")
    assert caught.value.hint == "did you mean TOKEN?"


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        ("nowhere.invalid", 0, "not an address of this machine"),
        ("192.0.2.1", 0, "cannot listen on port 0 of 192.0.2.1"),
        ("a" * 70, 0, "not an address of this machine"),
    ],
)
def test_an_address_that_is_not_ours_is_one_clear_message(host: str, port: int, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        listen(host, port)


# --- the program


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("[serve]\nauth_tokn = 'x'\n", (), "serve.auth_tokn: not a setting; did you mean `auth_token`?"),
        ("[serve]\nauth_token = 'sesame'\nauth_token_env = 'X'\n", (), "serve: give either"),
        ("[serve]\nauth_token = ''\n", (), "serve: `auth_token` is empty"),
        ("[serve]\nauth_token = 5\n", (), "serve.auth_token: should be text"),
        ("[serve]\nauth_token = '${NO_SUCH}'\n", (), "NO_SUCH is not set, but serve.auth_token uses it"),
        ("[serve]\nauth_token_env = 'NO_SUCH'\n", (), "names the variable NO_SUCH"),
        ("[serve]\nport = 70000\n", (), "serve.port: input should be less than or equal to 65535"),
        ("[serve]\nurl = 'tools.example'\n", (), "serve.url: must be an address such as https://"),
        ("[serve]\nurl = 'https://me:pw@tools.example'\n", (), "must not hold a name or a password"),
        ("serve = 1\n", (), "`serve` must be a table"),
        ("", ("--host", "0.0.0.0"), "can be reached by others"),
    ],
)
def test_a_mistake_in_the_settings_stops_the_start_with_one_message(
    rest: RestWorkspace, text: str, words: tuple[str, ...], says: str
) -> None:
    rest.settings(text)
    done = rest.spindle("serve", "--rest", "--port", "0", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "sesame" not in done.stderr


def test_a_busy_port_is_one_clear_message(rest: RestWorkspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = rest.spindle("serve", "--rest", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"spindle: port {port} of 127.0.0.1 is in use by another program"


def test_without_the_token_nothing_answers_and_nothing_tells_it(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nauth_token_env = "REST_TOKEN"\n')
    with rest.serve(token=TOKEN, REST_TOKEN=TOKEN) as served:
        with httpx2.Client(base_url=served.url) as stranger:
            for method in ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"):
                for path in ("/", "/docs", "/utcp", "/openapi.json", "/tools/echo", "/nothing"):
                    answer = stranger.request(method, path)
                    if method in ("GET", "HEAD") and path in ("/", "/docs"):
                        # Pages that say nothing of the catalog.
                        assert answer.status_code in (200, 405)
                        continue
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (
                        401, 'Bearer realm="spindle"',
                    )  # fmt: skip
            wrong = stranger.get("/utcp", headers={"authorization": f"Bearer x{TOKEN}"})
            assert wrong.status_code == 401
            assert stranger.get("/utcp", headers={"host": "evil.example"}).status_code == 421
        assert served.call("echo", text="x").status_code == 200
        documents = served.client.get("/openapi.json").text + served.client.get("/utcp").text
        assert json.loads(served.client.get("/openapi.json").text)["security"] == [{"token": []}]
        code, said = served.stop()
    assert code == 0
    records = rest.spindle("history", "--json").stdout
    assert json.loads(records)[0]["principal"] == "client"
    assert TOKEN not in documents + said + records


def test_a_web_page_of_elsewhere_is_refused_before_anything_is_called(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        headers = {"origin": "https://evil.example"}
        answer = served.client.post("/tools/echo", json={"text": "x"}, headers=headers)
        assert (answer.status_code, answer.json()["category"]) == (403, "permission")
        own = served.client.post("/tools/echo", json={"text": "x"}, headers={"origin": served.url})
        assert own.status_code == 200
    assert len(rest.json("history", "--json")) == 1


def test_junk_on_the_port_is_refused_and_the_server_goes_on(rest: RestWorkspace) -> None:
    junk = [
        b"\x16\x03\x01\x02\x00" + b"\x00" * 200,
        b"GET\r\n\r\n",
        b"POST /tools/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /tools/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /utcp HTTP/1.0\r\n\r\n",
    ]
    with rest.serve() as served:
        port = httpx2.URL(served.url).port
        assert port is not None
        for data in junk:
            with socket.create_connection(("127.0.0.1", port), timeout=300) as raw:
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                try:
                    said = raw.recv(65536)
                except ConnectionResetError:
                    said = b""
            assert said == b"" or said.startswith(b"HTTP/1.1 4"), said
        assert served.call("echo", text="x").status_code == 200
        code, said = served.stop()
    assert (code, "Traceback" in said) == (0, False)
