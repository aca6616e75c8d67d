"""`spindle add NAME URL --http`, and what is said of an API that was taken for an MCP server."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class PlainApi(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(404 if "api" in self.path or "utcp" in self.path or "swagger" in self.path else 200)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(200)

    def _answer(self, status: int) -> None:
        body = b'{"hello": "world"}'
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), PlainApi)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_api_is_added_by_its_address(workspace, spindle, api):
    done = spindle("add", "shop", api, "--http")
    assert done.code == 0, done.err
    assert "shop.request" in done.out
    assert "no OpenAPI document or UTCP manual at any of 32 usual places" in done.err
    assert tomllib.loads((workspace.root / "spindle.toml").read_text())["sources"] == {
        "shop": {"kind": "http", "url": api}
    }
    assert spindle("call", "shop.request", "--path=/x", "--json").json["structured"] == {"hello": "world"}
    assert "usual places" in spindle("sync", "--verbose").err


def test_an_api_that_was_taken_for_an_mcp_server_says_the_way_out(workspace, spindle, api):
    done = spindle("add", "shop", api)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1] == (
        "note: it was taken for an MCP server; if it is another HTTP API:"
        f" spindle add shop {api} --http --replace"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["shop", "--http"], "give a name and the URL where the API begins"),
        (["shop", "file.json", "--http"], "give a name and the URL where the API begins"),
        (["shop", "http://h/x.json", "--http", "--openapi"], "--openapi and --http do not go together"),
        (["shop", "http://h/?a=b", "--http"], "must be an address without `?`"),
    ],
)
def test_mistakes_are_named(words, problem, workspace, spindle):
    done = spindle("add", *words)
    assert done.code == 2, done.err
    assert problem in done.err
