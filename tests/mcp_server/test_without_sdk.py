"""Serving does without the SDK, whose models take half a second and many megabytes to load, and without other
libraries that only some servers need: each takes memory for as long as a server runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import httpx2
import pytest

import spindle
from mcp_server.conftest import fixture_source
from mcp_server.test_http_serving import handshake, modern, rpc
from servers import warm
from servers.running import PATIENCE
from servers.serving import serve_command

TOOL = '''"""Tells what this process has loaded."""
import sys
from spindle import tool

@tool
def loaded() -> dict[str, list[str]]:
    """The modules that this process has loaded."""
    return {"modules": sorted(sys.modules)}

@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()
'''
UNUSED = {
    "anyio", "email.message", "encodings.idna", "html", "importlib.metadata", "logging.handlers", "mcp",
    "mcp_types", "multiprocessing", "pickle", "spindle.registry", "spindle.serving.admin_api",
    "spindle.serving.hooks", "starlette", "uvicorn", "watchfiles", "zipfile",
}  # fmt: skip
ASKED = {"elicitation": {}, "roots": {"listChanged": True}, "sampling": {}}


async def test_a_server_answers_without_the_sdk_and_what_else_it_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process that others are forked from has loaded all that tests need.
    monkeypatch.setattr(warm, "SPINDLE", str(Path(sys.executable).parent / "spindle"))
    source = [f"{key} = {json.dumps(value)}" for key, value in fixture_source().items()]
    (tmp_path / "spindle.toml").write_text("\n".join(["[sources.fixture]", *source, ""]))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(TOOL)
    async with serve_command(tmp_path) as (url, _), httpx2.AsyncClient(timeout=PATIENCE) as http:
        headers = await handshake(http, url, **ASKED)
        tools = (await http.post(url, json=rpc("tools/list"), headers=headers)).json()["result"]["tools"]
        assert {"loaded", "shout", "test_touch_resource"} <= {item["name"] for item in tools}
        for method, key in (("resources/list", "resources"), ("prompts/list", "prompts")):
            assert (await http.post(url, json=rpc(method), headers=headers)).json()["result"][key]
        assert "result" in (await http.post(url, json=rpc("ping"), headers=headers)).json()
        for name, given in (("shout", {"text": "hi"}), ("test_touch_resource", {})):
            said = rpc("tools/call", name=name, arguments=given)
            result = (await http.post(url, json=said, headers=headers)).json()["result"]
            assert result["content"]
            assert "isError" not in result
        for method, name in (("server/discover", None), ("tools/list", None), ("tools/call", "shout")):
            given = {"arguments": {"text": "hi"}} if name else {}
            body, alone = modern(method, name, **given)
            assert "result" in (await http.post(url, json=body, headers=alone)).json()
        found = (await http.post(url, json=rpc("tools/call", name="loaded"), headers=headers)).json()
        modules = set(found["result"]["structuredContent"]["modules"])
        assert {"spindle.listening.server", "cryptography", "pydantic"} <= modules
        assert modules & UNUSED == set()


def test_only_the_judges_of_what_is_unusual_import_the_sdk() -> None:
    folder = Path(spindle.__file__).parent
    importing = re.compile(r"^\s*(?:from|import) (mcp|mcp_types)\b(?!_)", re.MULTILINE)
    found = {
        str(file.relative_to(folder)): set(importing.findall(file.read_text("utf-8")))
        for file in folder.rglob("*.py")
    }
    assert {name: used for name, used in found.items() if used} == {
        "mcp_protocol/models.py": {"mcp_types"},
        "sources/mcp/lists.py": {"mcp_types"},
        "sources/mcp/results.py": {"mcp_types"},
    }
