"""Every key works on every kind of node, or is refused with its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.testing import Failure, ModelServer, ToolCall, Turn

KINDS: dict[str, Any] = {
    "tool": "upper",
    "run": ["git", "log"],
    "ask": "Well?",
    "flow": {"nodes": [{"id": "in", "tool": "upper", "params": {"text": "a"}}]},
    "model": "Say something",
    "agent": {"task": "Do it", "tools": ["upper"]},
    "wait for": {"for": 1},
    "wait webhook": {"webhook": True},
}
KEYS: dict[str, Any] = {
    "description": "about it",
    "params": {"text": "a"},
    "retry": {"attempts": 2},
    "timeout": 5,
    "batch": {"over": [1]},
    "cache": True,
    "fail_when": "value == 1",
    "parse": "text",
    "fingerprint": "abc",
    "approval": "required",
}
REFUSED = {
    "run": {"params"},
    "ask": {"params", "retry", "timeout", "cache", "parse", "fingerprint"},
    "flow": {"parse", "fingerprint"},
    "model": {"params", "cache", "parse", "fingerprint"},
    "agent": {"params", "cache", "parse", "fingerprint"},
    "wait for": {"params", "retry", "timeout", "batch", "cache", "parse", "fingerprint"},
    "wait webhook": {"params", "retry", "batch", "cache", "parse", "fingerprint"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_kept_or_refused_with_its_place(kind: str, key: str) -> None:
    document = {"nodes": [{"id": "a", kind.partition(" ")[0]: KINDS[kind], key: KEYS[key]}]}
    if key not in REFUSED.get(kind, set()):
        node = from_document(document).nodes[0]
        assert getattr(node, key) != getattr(
            from_document({"nodes": [{"id": "a", "tool": "t"}]}).nodes[0], key
        )
        return
    with pytest.raises(BrokenFlowError) as raised:
        from_document(document)
    (problem,) = raised.value.problems
    assert f"has no key '{key}'" in problem.message
    assert problem.hint


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SPINDLE_AGENT__MODEL", "openai-chat:any")
        yield found


ANSWER = Turn(calls=[ToolCall("final_answer", {"n": 1})])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    "node",
    [
        {"model": {"prompt": "How many?", "schema": SCHEMA}},
        {"agent": {"task": "Count", "tools": ["upper"], "schema": SCHEMA}},
        {"flow": {"nodes": [{"id": "in", "model": {"prompt": "?", "schema": SCHEMA}}]}},
    ],
    ids=["model", "agent", "flow"],
)
async def test_retries_conditions_and_other_names_work_on_it(
    opened: OpenFlows, server: ModelServer, node: dict[str, Any]
) -> None:
    after = {"id": "after", "tool": "same", "params": {"value": "${count}"}}
    again = {"retry": {"attempts": 2}}
    document: dict[str, Any] = {
        "nodes": [{"id": "a", **node, **again}, after],
        "edges": [{"from": "a", "to": "after"}],
        "mappings": {"a": {"outputs": {"n": "count"}}},
    }
    server.feed(Failure(422), ANSWER)
    async with opened() as app:
        done = await app.run_flow(from_document(document))
        assert isinstance(done, Finished)
        assert done.result.value == {"value": 1}
        assert server.left == 0

        document["nodes"] = [{"id": "a", **node, "fail_when": "n == 1"}, {**after, "params": {"value": 2}}]
        document["edges"] = [{"from": "a", "action": "error", "to": "after"}]
        server.feed(ANSWER)
        done = await app.run_flow(from_document(document))
        assert isinstance(done, Finished)
        assert done.result.value == {"value": 2}
