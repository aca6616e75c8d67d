"""The SDK's packages are put in place without being loaded whole, and nobody who uses them can tell."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spindle import mcp_imports

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


# --- what is leaned on: insides of the SDK, which any version may change

VERSION = importlib.metadata.version("mcp")

CALLED = {
    "Connection.for_loop": "(_, session_id=_)",
    "Connection.from_envelope": "(_, _, _, outbound=_)",
    "ListenHandler": "(_)",
    "InMemorySubscriptionBus.publish": "(self, _)",
    "NotifyOnlyOutbound": "(_)",
    "Server": "(_, version=_, instructions=_)",
    "Server.add_request_handler": "(self, _, _, _)",
    "Server.create_initialization_options": "(self, _)",
    "ServerMessageMetadata": "(can_send_request=_, request_context=_)",
    "ServerRunner": "(_, _, _, init_options=_)",
    "TransportContext": "(kind=_, can_send_request=_)",
    "aclose_shielded": "(_)",
    "as_request_id": "(_)",
    "cancelled_request_id_from_params": "(_)",
    "classify_inbound_request": "(_, headers=_)",
    "coerce_request_id": "(_)",
    "find_duplicated_routing_header": "(_)",
    "modern_error_data": "(_)",
    "progress_token_from_params": "(_)",
    "serve_one": "(_, _, _, _, connection=_, lifespan_state=_)",
    "unsupported_protocol_version_rejection": "(_)",
    "validate_mcp_param_headers": "(_, _, _)",
    "x_mcp_header_map": "(_)",
}
"""The ways in which Spindle calls parts of the SDK."""

WRITTEN = {
    "DispatchContext.send_raw_request": ["self", "method", "params", "opts"],
    "DispatchContext.notify": ["self", "method", "params", "opts"],
    "DispatchContext.progress": ["self", "progress", "total", "message"],
}
"""The methods that classes of Spindle replace, or implement for a protocol of the SDK, with parameters."""

HELD = {
    "Connection": ["initialized", "notify", "state"],
    "Server": ["instructions", "middleware"],
    "ServerRunner": ["on_notify", "on_request"],
    "ServerRequestContext": ["method", "params", "protocol_version", "request", "session"],
    "InboundModernRoute": ["client_capabilities", "client_info", "protocol_version"],
    "InboundLadderRejection": ["code", "data", "message"],
}
"""The attributes that Spindle reads or sets."""


def part(path: str) -> Any:
    found: Any = mcp_imports
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", sorted(CALLED))
def test_parts_of_the_sdk_are_called_as_they_want_to_be(path: str) -> None:
    given = [word.strip() for word in CALLED[path].strip("()").split(",")]
    positional = [word for word in given if word and "=" not in word]
    named = {word.partition("=")[0]: None for word in given if "=" in word}
    wanted = inspect.signature(part(path))
    try:
        wanted.bind(*positional, **named)
    except TypeError as error:
        pytest.fail(f"mcp {VERSION}: {path}{wanted} cannot be called as {path}{CALLED[path]}: {error}")


@pytest.mark.parametrize("path", sorted(WRITTEN))
def test_methods_of_the_sdk_that_are_replaced_have_the_parameters_that_ours_have(path: str) -> None:
    found = list(inspect.signature(part(path)).parameters)
    assert found == WRITTEN[path], f"mcp {VERSION}: {path} takes {found} now; see who replaces it in Spindle"


@pytest.mark.parametrize("name", sorted(HELD))
def test_objects_of_the_sdk_have_the_attributes_that_are_used(name: str) -> None:
    kind = part(name)
    source = inspect.getsource(kind)
    fields = {*dir(kind), *getattr(kind, "__annotations__", {}), *re.findall(r"self\.(\w+)\b", source)}
    fields |= {each for base in kind.__mro__ for each in getattr(base, "__annotations__", {})}
    missing = [each for each in HELD[name] if each not in fields]
    assert not missing, (
        f"mcp {VERSION}: {name} has no {', '.join(missing)} any more; see who uses it in Spindle"
    )


@pytest.mark.parametrize(
    "name", sorted(name for names in mcp_imports.PARTS.values() for name in names.split())
)
def test_every_part_of_the_sdk_that_is_used_is_there(name: str) -> None:
    getattr(mcp_imports, name)


def test_a_part_that_is_gone_is_named_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mcp_imports._MODULES, "gone", "mcp.server.runner")
    with pytest.raises(ImportError, match=rf"does not work with version {VERSION} of mcp: .*'gone'"):
        mcp_imports.gone  # noqa: B018


def test_nothing_else_imports_the_sdk() -> None:
    folder = Path(mcp_imports.__file__).parent
    importing = re.compile(r"^\s*(from|import) mcp(\.|\s)", re.MULTILINE)
    files = [file for file in folder.rglob("*.py") if importing.search(file.read_text("utf-8"))]
    assert [file.name for file in files] == ["mcp_imports.py"]


def test_a_session_with_a_server_needs_no_part_of_the_sdk() -> None:
    loaded = "[name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types')]"
    assert (
        python(f"import spindle.sources.mcp.session, spindle.sources.mcp.open_stdio, sys\nprint({loaded})")
        == "[]"
    )
