"""The SDK's packages are put in place without being loaded whole, and nobody who uses them can tell."""

from __future__ import annotations

import subprocess
import sys

import pytest

SPARED = "import spindle.mcp_server.server, spindle.mcp_server.http, spindle.sources.mcp.session, sys\n"
UNUSED = ("mcp.server.mcpserver", "mcp.client.client", "cryptography", "httpx2")


def python(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_serving_loads_only_what_it_uses() -> None:
    assert python(f"{SPARED}print([name for name in {UNUSED} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("from mcp import Client\nprint(Client.__module__)", "mcp.client.client"),
        ("import mcp\nprint(mcp.Client is mcp.client.Client)", "True"),
        ("import mcp.server\nprint(mcp.server.MCPServer.__name__)", "MCPServer"),
        ("import mcp\nprint(mcp.types.Tool.__name__, type(mcp).__name__)", "Tool module"),
        ("from mcp import *\nprint(ClientSession.__name__)", "ClientSession"),
        ("from mcp.server import Server\nimport mcp.server.lowlevel as l\nprint(Server is l.Server)", "True"),
        ("import mcp\nprint(hasattr(mcp, 'no_such'), hasattr(mcp, 'Client'))", "False True"),
        ("import mcp, inspect\nprint(inspect.getsourcefile(mcp).endswith('__init__.py'))", "True"),
    ],
)
def test_what_others_import_of_it_is_there(text: str, printed: str) -> None:
    assert python(SPARED + text) == printed


def test_one_that_was_imported_before_stays_as_it_is() -> None:
    before = "import mcp\nwas = mcp, mcp.Client\n"
    assert python(f"{before}{SPARED}import mcp\nprint(was == (mcp, mcp.Client))") == "True"


def test_threads_that_ask_at_once_all_get_what_they_asked_for() -> None:
    asking = (
        "import threading, mcp\nstart, got = threading.Barrier(8), []\n"
        "def ask(name):\n    start.wait()\n    got.append(getattr(mcp, name).__name__)\n"
        "names = ['Client', 'ClientSession', 'StdioServerParameters', 'MCPError'] * 2\n"
        "threads = [threading.Thread(target=ask, args=[name]) for name in names]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\n"
        "print(sorted(got) == sorted(names))"
    )
    assert python(SPARED + asking) == "True"
