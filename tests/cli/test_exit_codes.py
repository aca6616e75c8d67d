"""The exit codes of the table in docs/reference/cli.md: each by a command that ends with it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spindle.cli.errors import EXIT_CODES, INTERNAL, exit_code
from spindle.errors import Interruption, SpindleError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
TABLE = {
    int(code)
    for codes in re.findall(
        r"^\| ([0-9, ]+) \|", PAGE.read_text("utf-8").partition("## Exit codes")[2], re.MULTILINE
    )
    for code in codes.split(",")
}
TOOLS = '''
from spindle import tool


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("no")


@tool
def add(a: int) -> int:
    return a


@tool(destructive=True)
def destroy() -> str:
    return "gone"
'''
SETTINGS = """
[sources.tools]
approve = ["destructive"]
[sources.api]
kind = "http"
url = "URL"
retry = { attempts = 1 }
breaker = { failures = 1000 }
[sources.gone]
kind = "http"
url = "http://127.0.0.1:1"
retry = { attempts = 1 }
"""
# By code: command lines that end with it.
COMMANDS = {
    0: [
        ["tools"],
        ["call", "add", "a=1"],
        ["--help"],
        ["--version"],
        ["history"],
        ["doctor", "tools"],
        ["flow", "list"],
    ],
    1: [["call", "fail"], ["doctor", "gone"], ["call", "fail", "--json"]],
    2: [
        ["tulz"],
        ["call"],
        ["call", "add", "--timeout"],
        ["tools", "--kind", "x"],
        ["export"],
        ["export", "--openapi", "--utcp"],
        ["-w", "/nowhere", "tools"],
        ["tools", "--from", ""],
        ["completion", "tcsh"],
        ["run", "add", "--only", "x", "--from", "y"],
        ["history", "--limit", "0"],
        ["serve"],
        ["call", "add", "a=1", "-w", "x"],
    ],
    3: [
        ["call", "nothing"],
        ["show", "nothing"],
        ["tools", "nothing"],
        ["sync", "nothing"],
        ["remove", "nothing"],
        ["history", "zzz"],
        ["trace", "zzz"],
        ["resume", "zzz"],
        ["add", "nothing"],
        ["flow", "show", "nothing"],
        ["run", "nothing"],
        ["auth", "login", "nothing"],
        ["call", "api.request", "path=/404"],
        ["tools", "--from", "no-such-program"],
    ],
    4: [["call", "add"], ["call", "add", "a=x"], ["call", "add", "b=1"], ["call", "add", "{"]],
    5: [["call", "api.request", "path=/401"], ["call", "api.request", "path=/403"]],
    6: [["call", "api.request", "path=/504"], ["call", "--timeout=0.01", "api.request", "path=/never"]],
    7: [
        ["sync", "gone"],
        ["tools", "--from", "http://127.0.0.1:1/mcp"],
    ],
    8: [["call", "api.request", "path=/429"]],
    9: [["call", "api.request", "path=/500"]],
    10: [["call", "api.request", "path=/400"]],
    11: [["-w", "damaged", "tools"]],
    12: [["check", "broken"], ["run", "unreadable"]],
    14: [["table", "show", "no-table.parquet"]],
    75: [["call", "destroy"]],
}
ELSEWHERE = {13, 70, 129, 130, 141, 143}
"""Tested where a model answers, a process gets a signal, or Spindle itself is made to fail."""


class Answers(BaseHTTPRequestHandler):
    """Answers with the status that the path names; /never is not answered."""

    def do_GET(self) -> None:
        if self.path.endswith("/never"):
            self.rfile.read()  # until the client gives up
            return
        self.send_response(int(self.path.rpartition("/")[2]) if self.path[-3:].isdigit() else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, url: str) -> Path:
    root = tmp_path_factory.mktemp("codes")
    for folder in ("tools", "flows", "damaged/.spindle"):
        (root / folder).mkdir(parents=True)
    (root / "tools" / "t.py").write_text(TOOLS)
    (root / "flows" / "broken.json").write_text(json.dumps({"nodes": [{"id": "a", "tool": "nothing"}]}))
    (root / "flows" / "unreadable.json").write_text("{")
    (root / "no-table.parquet").write_bytes(b"no")
    (root / "damaged" / ".spindle" / "state.db").write_bytes(b"no database" * 100)
    (root / "damaged" / "spindle.toml").touch()
    (root / "spindle.toml").write_text(SETTINGS.replace("URL", url))
    return root


def test_the_page_has_every_code():
    assert {0, INTERNAL, *EXIT_CODES.values(), 129, 141, 143} == TABLE
    assert COMMANDS.keys() | ELSEWHERE == TABLE


def test_every_error_has_a_code():
    kinds = [SpindleError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {kind.category for kind in kinds} <= EXIT_CODES.keys()
    # Other names for them, as in `spindle.compat`, have no kind of their own.
    assert {kind.kind for kind in Interruption.__subclasses__() if "kind" in vars(kind)} <= EXIT_CODES.keys()
    assert exit_code("unheard of") == INTERNAL


@pytest.mark.parametrize(
    ("code", "words"), [(code, words) for code, lines in COMMANDS.items() for words in lines], ids=str
)
def test_a_command_ends_with_the_code_of_the_table(filled, spindle, monkeypatch, code, words):
    monkeypatch.chdir(filled)
    done = spindle(*words)
    assert done.code == code, done.err
    assert "Traceback" not in done.err


def test_a_mistake_of_our_own_is_told_apart(filled, spindle, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.chdir(filled)
    monkeypatch.setattr("spindle.cli.tools.print_tools", broken)
    done = spindle("tools")
    assert done.code == 70
    assert "spindle: a bug in Spindle: ZeroDivisionError: oh" in done.err.splitlines()
