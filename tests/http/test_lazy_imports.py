"""Commands that send nothing load no HTTP library."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = ("httptools", "httpx2", "httpcore2", "websockets", "h11", "mcp")
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
SETTINGS = """
[sources.api]
kind = "openapi"
document = "api.json"
base_url = "http://127.0.0.1:1"
[sources.away]
kind = "openapi"
document = "https://example.com/openapi.json"
[sources.manual]
kind = "utcp"
document = "manual.json"
[sources.any]
kind = "http"
url = "http://127.0.0.1:1"
[sources.server]
url = "http://127.0.0.1:1/mcp"
[sources.socket]
kind = "websocket"
url = "ws://127.0.0.1:1"
requests.ask = { message = { a = 1 } }
"""
API = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/a": {"get": {"operationId": "list_a"}}},
}
MANUAL = {
    "utcp_version": "1.0.1",
    "tools": [
        {"name": "one", "tool_call_template": {"call_template_type": "http", "url": "http://127.0.0.1:1"}}
    ],
}


def run(root: Path, *words: str) -> tuple[str, str]:
    """Returns what a command prints, and the HTTP libraries that it has loaded."""
    script = (
        "import sys\n"
        "from spindle.cli.main import execute\n"
        f"execute({list(words)})\n"
        f"print([name for name in {LIBRARIES} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=UNMEASURED, cwd=root, check=False
    )
    return done.stdout, done.stderr.splitlines()[-1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    (tmp_path / "api.json").write_text(json.dumps(API))
    (tmp_path / "manual.json").write_text(json.dumps(MANUAL))
    return tmp_path


def test_listing_tools_loads_no_http_library(root: Path) -> None:
    run(root, "tools")  # reads the documents that are files
    printed, loaded = run(root, "tools")
    assert "api.list_a" in printed
    assert "manual.one" in printed
    assert "socket.ask" in printed
    assert loaded == "[]"


def test_help_loads_no_http_library(root: Path) -> None:
    printed, loaded = run(root, "--help")
    assert "tools" in printed
    assert loaded == "[]"
