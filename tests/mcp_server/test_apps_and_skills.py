"""Pages of MCP Apps (`ui://`) and skills (`skill://`) of several sources, through the served catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import spindle
from servers import warm
from servers.serving import Lines, piped
from spindle.settings import Settings

SCRIPT = Path(__file__).parent.parent / "servers" / "every_field_server.py"
PAGE, SKILL = "ui://weather/view.html", "skill://forecast/SKILL.md"
META = {"ui": {"resourceUri": PAGE, "visibility": ["model", "app"]}, "ui/resourceUri": PAGE, "other": 1}


def answers(name: str) -> Any:
    page = {"uri": PAGE, "name": "view", "mimeType": "text/html;profile=mcp-app"}
    block = {"type": "resource_link", "uri": PAGE, "name": "view"}
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": name, "version": "1"},
        },
        "tools/list": {"tools": [{"name": "show", "inputSchema": {"type": "object"}, "_meta": META}]},
        "resources/list": {"resources": [page, {"uri": f"skill://{name}/SKILL.md", "name": "skill"}]},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": [{"uri": PAGE, "text": f"<p>{name}", "_meta": {"ui": {"csp": {}}}}]},
        "tools/call": {"content": [block], "_meta": META},
    }
    return {"answers": {method: {"then": {"result": result}} for method, result in results.items()}}


async def asked(lines: Lines, number: int, method: str, **params: Any) -> Any:
    lines.request(number, method, **params)
    return (await lines.answer(number))["result"]


async def test_pages_are_told_apart_by_their_source(tmp_path: Path) -> None:
    sources: dict[str, Any] = {}
    for name in ("one", "two"):
        script, heard = tmp_path / f"{name}.json", tmp_path / f"{name}.jsonl"
        script.write_text(json.dumps(answers(name)))
        command = [warm.PYTHON, str(SCRIPT), str(script), str(heard)]
        sources[name] = {"command": command, "protocol": "handshake"}
    settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
    async with spindle.open(settings=settings) as app:
        await app.catalog.sync()
        async with piped(app, names="full") as lines:
            await lines.handshake()
            tools = (await asked(lines, 1, "tools/list"))["tools"]
            listed = (await asked(lines, 2, "resources/list"))["resources"]
            read = (await asked(lines, 3, "resources/read", uri="ui://two/weather/view.html"))["contents"]
            called = await asked(lines, 4, "tools/call", name="one.show", arguments={})
            skill = await asked(lines, 5, "resources/read", uri="skill://two/SKILL.md")
    pages = {tool["name"]: tool["_meta"] for tool in tools}
    assert pages["two.show"] == {
        "ui": {"resourceUri": "ui://two/weather/view.html", "visibility": ["model", "app"]},
        "ui/resourceUri": "ui://two/weather/view.html",
        "other": 1,
    }
    assert {item["uri"] for item in listed} == {
        "ui://one/weather/view.html",
        "ui://two/weather/view.html",
        "skill://one/SKILL.md",
        "skill://two/SKILL.md",
    }
    assert read == [{"uri": "ui://two/weather/view.html", "text": "<p>two", "_meta": {"ui": {"csp": {}}}}]
    assert called["content"][0]["uri"] == "ui://one/weather/view.html"
    assert called["_meta"]["ui"]["resourceUri"] == "ui://one/weather/view.html"
    assert skill["contents"][0]["text"] == "<p>two"
    sent = [json.loads(line) for line in (tmp_path / "two.jsonl").read_text().splitlines()]
    asked_for = [item["params"]["uri"] for item in sent if item.get("method") == "resources/read"]
    assert asked_for == [PAGE, "skill://two/SKILL.md"]


async def test_a_page_of_a_source_that_is_not_seen_does_not_exist(tmp_path: Path) -> None:
    script = tmp_path / "one.json"
    script.write_text(json.dumps(answers("one")))
    command = [warm.PYTHON, str(SCRIPT), str(script), str(tmp_path / "one.jsonl")]
    settings = Settings(
        tmp_path, {"sources": {"one": {"command": command, "protocol": "handshake"}}, "store": ":memory:"}
    )
    async with spindle.open(settings=settings) as app:
        await app.catalog.sync()
        async with piped(app, excluded_tools=["one.*"]) as lines:
            await lines.handshake()
            lines.request(1, "resources/read", uri="ui://one/weather/view.html")
            refused = await lines.answer(1)
    assert refused["error"]["code"] == -32002
