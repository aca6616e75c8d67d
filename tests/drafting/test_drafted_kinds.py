"""A model that writes flows is told of every kind of node and every key, and what it writes is checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.drafting.prompt import drafting
from spindle.flows.definition import SAID
from spindle.flows.text.document import schema
from spindle.testing import ModelServer

MODEL = "openai-chat:any"
SETTINGS = """
[agent]
model = "openai-chat:any"

[sources.git]
kind = "cli"
program = "git"

[sources.git.commands.log]
read_only = true
parameters.count = { type = "integer", flag = "-n" }
"""
TOOLS = '''
from spindle import tool

@tool(read_only=True)
def price(name: str) -> int:
    """The price of a thing."""
    return len(name)

@tool
def send(text: str) -> str:
    """Send a message."""
    return text
'''


def flow(*nodes: dict[str, Any], edges: list[dict[str, str]] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "it",
        "description": "Do it.",
        "nodes": [*nodes],
        "edges": edges or [],
        **more,
    }


def after(first: dict[str, Any], text: str = "${first}") -> dict[str, Any]:
    """A node, and one that tells of it."""
    tell = {"id": "tell", "tool": "send", "params": {"text": text}}
    return flow({"id": "first", **first}, tell, edges=[{"from": "first", "to": "tell"}])


PRICE = {"tool": "price", "params": {"name": "tea"}}
ONE = {"nodes": [{"id": "look", "tool": "price", "params": {"name": "${item}"}}],
       "outputs": {"n": {"value": "${look}", "type": "integer"}}}  # fmt: skip

DRAFTS: dict[str, dict[str, Any]] = {
    "tool": after(PRICE, "${text(first)}"),
    "run": after({"run": ["git", "log", "--count=3"]}, "${text(first)}"),
    "ask": after({"ask": "Which?"}),
    "model": after({"model": {"prompt": "Say something", "schema": {"type": "string"}}}),
    "agent": after({"agent": {"task": "Find out", "tools": ["price"]}}),
    "wait": after({"wait": {"for": "2h"}}, "on"),
    "transform": after({"transform": {"n": "${1 + 1}"}}, "${first.n} of them"),
    "flow": after({"flow": {**ONE, "nodes": [{"id": "look", **PRICE}]}}, "${first.n} of them"),
    "batch": after(
        {"flow": ONE, "batch": {"over": ["a", "b"], "keep_errors": True,
                                "reduce": "${sum(filter(results, item), item.n)}"}}, "${first} in all"
    ),
    "loop": after(
        {"loop": {"carry": {"left": 2}, "while": "left > 0", "limit": 5},
         "flow": {"nodes": [{"id": "look", **PRICE}], "outputs": {"left": "${left - 1}"}}}, "${first.left}"
    ),
    "when": flow(
        {"id": "look", **PRICE}, {"id": "dear", "tool": "send", "params": {"text": "dear"}},
        {"id": "cheap", "tool": "send", "params": {"text": "cheap"}},
        edges=[{"from": "look", "to": "dear", "when": "look > 3"},
               {"from": "look", "to": "cheap", "when": "else"}],
    ),
    "join": flow(
        {"id": "begin", "transform": {"a": 1}}, {"id": "one", **PRICE}, {"id": "two", **PRICE},
        {"id": "tell", "join": "all", "tool": "send", "params": {"text": "${one} ${two}"}},
        edges=[{"from": "begin", "to": "one"}, {"from": "begin", "to": "two"}, {"from": "one", "to": "tell"},
               {"from": "two", "to": "tell"}],
    ),
    "approval": flow({"id": "tell", "tool": "send", "params": {"text": "x"}, "approval": "required"}),
    "retry": after({**PRICE, "retry": {"attempts": 3, "wait": 1, "backoff": 2}}, "${text(first)}"),
    "timeout": after({**PRICE, "timeout": 20}, "${text(first)}"),
    "fail_when": after({**PRICE, "fail_when": "value == 0"}, "${text(first)}"),
}  # fmt: skip


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.mark.parametrize("kind", DRAFTS)
async def test_a_draft_of_every_kind_passes_the_check(
    kind: str, tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "shop.py").write_text(TOOLS)
    (root / "spindle.toml").write_text(SETTINGS)
    server.feed(json.dumps(DRAFTS[kind]))
    async with spindle.open(root) as app:
        draft = await app.draft_flow("look up the price of tea and send it", model=MODEL)
    assert [problem.message for problem in draft.problems] == []
    assert draft.usage.requests == 1
    assert draft.definition.name == "it"


def test_the_rules_have_every_key_that_the_schema_gives_an_example_of() -> None:
    rules = drafting([]).partition("The JSON Schema of the document")[0]
    keys = schema()["$defs"]["node"]["properties"]
    assert set(SAID) <= {name for name, key in keys.items() if "examples" in key}
    for name, key in keys.items():
        if "examples" in key:
            assert (
                f"  - {json.dumps({name: key['examples'][0]}, ensure_ascii=False)}: {key['description']}"
                in rules
            )
    without = {"id", "description", "params", "cache", "parse", "fingerprint"}
    assert set(keys) - without == {name for name, key in keys.items() if "examples" in key}
    assert {*SAID, *keys} - without <= DRAFTS.keys() | {"when"}
    assert "<" not in rules.replace("<=", "").replace("<, ", "").replace(" < ", "")


def test_the_instructions_are_bounded() -> None:
    assert len(drafting([])) < 24_000


@pytest.mark.parametrize("name", list(schema()["$defs"]["node"]["properties"]))
def test_the_examples_of_the_schema_fit_it(name: str) -> None:
    from spindle.flows.text.document import from_document

    key = schema()["$defs"]["node"]["properties"][name]
    for example in key.get("examples", ()):
        node = {"id": "a", name: example}
        if name not in SAID:
            node |= {"flow": ONE} if name == "loop" else {"tool": "t"}
        assert from_document({"nodes": [node]}).nodes[0].id == "a"
