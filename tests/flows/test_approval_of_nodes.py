"""`approval` on nodes of every kind: who may give it, refusals, batches, and other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, Paused, SpindleError
from spindle.calls.options import CallOptions
from spindle.domain.identity import Principal
from spindle.errors import PermissionDeniedError
from spindle.flows.draw.pictures import mermaid
from spindle.flows.text.document import from_document
from spindle.flows.text.writing import to_document
from spindle.runs.outcomes import OpenPause

ANN, BOB, EVE = Principal("ann"), Principal("bob", groups=frozenset({"ops"})), Principal("eve")
SEND = {"id": "send", "tool": "upper", "params": {"text": "${word}"}}


def flow(*nodes: dict[str, Any], edges: list[dict[str, str]] | None = None) -> Any:
    return from_document({"inputs": {"word": {"default": "hi"}}, "nodes": list(nodes), "edges": edges or []})


async def paused_by(app: Any, definition: Any, principal: Principal = ANN) -> OpenPause:
    outcome = await app.run_flow(definition, {}, CallOptions(principal))
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    return pause


@pytest.mark.parametrize(
    "node",
    [
        SEND,
        {"id": "send", "flow": {"nodes": [SEND], "outputs": {"said": "${send}"}}},
        {"id": "send", "tool": "upper", "params": {"text": "${item}"}, "batch": {"over": ["a", "b"]}},
        {"id": "send", "tool": "upper", "params": {"text": "x"}, "retry": {"attempts": 3}},
    ],
    ids=["a tool", "a flow", "a batch", "with retries"],
)
async def test_nothing_is_done_before_somebody_has_approved_it_once(
    opened: OpenFlows, node: dict[str, Any]
) -> None:
    async with opened() as app:
        pause = await paused_by(app, flow({**node, "approval": "required"}))
        assert (pause.kind, pause.details["node"]) == ("approval", "send")
        assert await app.history() == []
    async with opened() as app:  # another process, after a restart
        done = await app.resume(pause.token, {"approved": True})
        assert isinstance(done, Finished)
        assert len(await app.history()) == (2 if "batch" in node else 1)


async def test_only_those_may_approve_whom_the_node_names(opened: OpenFlows) -> None:
    node = {**SEND, "approval": {"by": ["group:ops"], "message": "Send ${word}?"}}
    async with opened() as app:
        pause = await paused_by(app, flow(node))
        assert pause.message == "Send hi?"
        for other in (ANN, EVE):  # neither whoever started it, nor anybody else
            with pytest.raises(PermissionDeniedError):
                await app.resume(pause.token, {"approved": True}, principal=other)
            assert await app.pauses(approver=other) == []
        assert [found.token for found in await app.pauses(approver=BOB)] == [pause.token]
        done = await app.resume(pause.token, {"approved": True}, principal=BOB)
        assert isinstance(done, Finished)
        (decision,) = await app.runner.decisions(done.run_id)
        assert (decision["approved"], decision["by"]) == (True, "bob")


async def test_without_names_only_the_owner_may_and_with_caller_whoever_started_it(opened: OpenFlows) -> None:
    async with opened() as app:
        pause = await paused_by(app, flow({**SEND, "approval": "required"}))
        with pytest.raises(PermissionDeniedError):
            await app.resume(pause.token, {"approved": True}, principal=ANN)
        pause = await paused_by(app, flow({**SEND, "approval": {"by": ["caller"]}}))
        assert isinstance(await app.resume(pause.token, {"approved": True}, principal=ANN), Finished)


async def test_a_refusal_takes_its_edge_or_fails_the_run(opened: OpenFlows) -> None:
    node = {**SEND, "approval": {"by": ["bob"]}}
    after = {"id": "after", "tool": "upper", "params": {"text": "${send.error.message}"}}
    edges = [{"from": "send", "action": "refused", "to": "after"}]
    async with opened() as app:
        pause = await paused_by(app, flow(node, after, edges=edges))
        done = await app.resume(pause.token, {"approved": False, "reason": "not now"}, principal=BOB)
        assert isinstance(done, Finished)
        assert done.result.value == "NODE 'SEND' WAS NOT APPROVED: NOT NOW"
        pause = await paused_by(app, flow(node))
        with pytest.raises(SpindleError, match="node 'send' was not approved: no"):
            await app.resume(pause.token, refused="no", principal=ANN)  # everybody may refuse their own


async def test_it_holds_in_a_flow_that_is_called_as_a_tool(opened: OpenFlows, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "tell.yaml").write_text(
        "nodes:\n- {id: send, tool: upper, params: {text: hi}, approval: {by: [bob]}}\n"
    )
    async with opened() as app:
        await app.sync()
        paused = await app.run("tell", {}, CallOptions(ANN))
        assert isinstance(paused, Paused)
        with pytest.raises(PermissionDeniedError):
            await app.resume(paused.pauses[0].token, {"approved": True}, principal=EVE)
        done = await app.resume(paused.pauses[0].token, {"approved": True}, principal=BOB)
        assert isinstance(done, Finished)
        assert done.result.text == "HI"


def test_it_is_written_drawn_and_refused_with_its_place() -> None:
    definition = flow({**SEND, "approval": {"by": ["ann"]}})
    assert to_document(definition)["nodes"][0]["approval"] == {"by": ["ann"]}
    assert from_document(to_document(definition)) == definition
    assert "with approval" in mermaid(definition)
    with pytest.raises(SpindleError, match="approval"):
        flow({**SEND, "approval": "maybe"})
