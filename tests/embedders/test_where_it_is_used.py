"""Whoever looks for tools finds them by meaning: agents, `ask`, search mode, the console and the shell."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

import spindle
from servers.serving import served
from servers.warm import SPINDLE
from spindle import Agent, Principal
from spindle.app import Spindle
from spindle.console.screen import Look
from spindle.console.screens.find import find
from spindle.console.screens.tools import tools
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess
from spindle.testing import ModelServer, ToolCall, Turn

QUESTION = "do I need an umbrella"
OWNER = Principal("local", frozenset({"guest"}), admin=True)
ANN = Principal("ann", frozenset({"few"}))
OTHERS = ("invoice", "song", "ticket", "parcel", "photo", "contract", "recipe", "password")
TOOLS = '''
from spindle import tool


@tool
def weather_forecast(city: str = "Bern") -> str:
    """Rain and temperature of the coming days."""
    return "dry"
''' + "".join(
    f'\n\n@tool\ndef {thing}_{number}() -> str:\n    """Archive {thing} number {number}."""\n    return ""\n'
    for thing in OTHERS
    for number in range(12)
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    folder = tmp_path / "workspace"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "some.py").write_text(TOOLS)
    (folder / "spindle.toml").write_text('[search]\nembedder = "light"\ntimeout = 60\n')
    return folder


@pytest.fixture
async def app(root: Path) -> AsyncIterator[Spindle]:
    async with spindle.open(root) as opened:
        await opened.sync()
        assert opened.catalog.meaning is not None
        await opened.catalog.meaning.settled()
        yield opened


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


async def test_an_agent_finds_a_tool_by_what_it_is_for(app: Spindle, server: ModelServer) -> None:
    server.feed(
        Turn(calls=[ToolCall("search_tools", {"query": QUESTION, "limit": 1})]),
        Turn(calls=[ToolCall("weather_forecast", {})]),
        "no",
    )
    await Agent(app, "openai-chat:any").run(QUESTION)
    assert server.requests[1].tool_answers[0].text.startswith("weather_forecast: ")
    assert "dry" in server.requests[2].tool_answers[-1].text


async def test_ask_shows_the_model_the_tools_that_are_meant(app: Spindle, server: ModelServer) -> None:
    flow = {
        "version": 1,
        "name": "ahead",
        "nodes": [{"id": "look", "tool": "weather_forecast", "params": {}}],
        "outputs": {"ahead": "${look}"},
    }
    server.feed(json.dumps(flow))
    draft = await app.draft_flow(QUESTION, model="openai-chat:any")
    assert draft.problems == ()
    assert len(draft.tools) < len(OTHERS) * 12
    assert "weather_forecast: Rain and temperature" in server.requests[0].instructions


async def test_search_mode_finds_it_for_those_who_see_it(app: Spindle) -> None:
    async with served(app, mode="search") as url, Client(url) as client:
        found = await client.call_tool("search_tools", {"query": QUESTION, "limit": 1})
        assert found.structured_content is not None
        assert [tool["name"] for tool in found.structured_content["tools"]] == ["weather_forecast"]


async def test_the_console_finds_it_for_those_who_see_it(app: Spindle) -> None:
    rules = {"groups": {"few": {"exposed_tools": ["song_*"]}}, "console": True}
    access = ServingAccess.of(ServeConfig.model_validate(rules))

    def looking(principal: Principal) -> Look:
        return Look(app, access, principal, time.time(), {"q": QUESTION}, {})

    assert (await tools(looking(OWNER))).page.items[0].name == "weather_forecast"
    assert (await find(looking(OWNER)))[0].name == "weather_forecast"
    for shown in ((await tools(looking(ANN))).page.items, await find(looking(ANN))):
        assert all(item.name.startswith("song_") for item in shown)


def test_the_shell_finds_it(root: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([SPINDLE, *words], cwd=root, capture_output=True, text=True, check=True)

    run("sync")
    found = run("search", QUESTION, "--limit", "1", "--json")
    assert [tool["name"] for tool in json.loads(found.stdout)] == ["weather_forecast"]
