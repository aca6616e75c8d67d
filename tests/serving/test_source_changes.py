"""Adding sources over the admin API: what is taken, what is refused, and who may."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import InvalidArgumentsError, PermissionDeniedError
from spindle.serving.admin_api import AdminApi
from spindle.serving.admin_document import REQUESTS, document
from spindle.serving.source_changes import add_sources, require_owner, tables_of


def test_every_way_to_name_a_source_becomes_its_settings() -> None:
    assert tables_of({"preset": "time"})["time"]["command"]
    assert tables_of({"name": "x", "url": "https://a.example/mcp"}) == {"x": {"url": "https://a.example/mcp"}}
    assert tables_of({"name": "x", "command": "npx -y 'a b'", "pinned": True}) == {
        "x": {"pinned": True, "command": ["npx", "-y", "a b"]}
    }
    pasted = {
        "mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"K": "v"}}, "b": {"url": "https://b"}}
    }
    expected = {"a": {"command": ["x", "1"], "env": {"K": "v"}}, "b": {"url": "https://b"}}
    assert tables_of(pasted) == expected
    assert tables_of({"mcpServers": pasted}) == expected


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": "https://x"},
        {"name": "x", "url": "https://x", "command": "y"},
        {"preset": "nothing-like-this"},
        {"name": "x", "command": "a 'b"},
        {"name": 3, "command": "a"},
        {"name": "x", "command": [1]},
        {"mcpServers": []},
        {"mcpServers": {"a": {}}},
        {"mcpServers": {str(number): {"url": "https://x"} for number in range(51)}},
        {"name": "x", "url": "https://x", "evil": 1},
    ],
)
def test_anything_else_is_refused_with_a_reason(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentsError):
        tables_of(body)


def test_only_the_owner_adds_what_may_run() -> None:
    require_owner(Principal(LOCAL.id, admin=True))
    for principal in (LOCAL, Principal("root", admin=True)):
        with pytest.raises(PermissionDeniedError, match="only the owner"):
            require_owner(principal)


async def test_an_added_source_is_in_the_settings_and_its_tools_are_there(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    script = tmp_path / "server.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if 'id' not in m: continue\n"
        "    tool = {'name': 'hi', 'inputSchema': {'type': 'object'}}\n"
        "    made = {'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n"
        "        'serverInfo': {'name': 's', 'version': '1'}}, 'tools/list': {'tools': [tool]}}\n"
        "    made = made.get(m['method'])\n"
        "    answer = {'result': made} if made else {'error': {'code': -32601, 'message': 'no'}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **answer}), flush=True)\n"
    )
    async with spindle.open(tmp_path) as app:
        (report,) = await add_sources(app, {"own": {"command": [sys.executable, str(script)]}})
        assert (report["source"], report["tools"], report["error"]) == ("own", 1, None)
        assert "[sources.own]" in (tmp_path / "spindle.toml").read_text("utf-8")
        assert [tool.name for tool in await app.tools()] == ["own.hi"]
        # A name twice, a mistake in the settings and a name of ours change nothing.
        before = (tmp_path / "spindle.toml").read_text("utf-8")
        for tables in (
            {"own": {"url": "https://x"}},
            {"a": {"url": "nonsense"}},
            {"tools": {"url": "https://x"}},
            {"fine": {"url": "https://x"}, "own": {"url": "https://x"}},
        ):
            with pytest.raises(InvalidArgumentsError):
                await add_sources(app, tables)
        assert (tmp_path / "spindle.toml").read_text("utf-8") == before


def test_the_document_names_every_request_that_is_answered() -> None:
    paths = document()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == set(
        REQUESTS
    )
    known = {
        (request.split(" ")[0], request.split(" ")[1].removeprefix("/admin/v1").strip("/"))
        for request in REQUESTS
    }

    class Nothing:
        store = None

    routes = AdminApi(Nothing(), Nothing(), "/admin/v1")._routes  # type: ignore[arg-type]
    for method, place, named in routes:
        fitting = [path for verb, path in known if verb == method and path.partition("/")[0] == place]
        assert any(("/" in path) == named for path in fitting), (method, place, named)
