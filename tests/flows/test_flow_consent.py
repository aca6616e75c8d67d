"""Flows with tools of sources that list them only to users who gave their consent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spindle
from servers.oauth import agree
from spindle import CallOptions, Finished, Paused, Principal
from spindle.flows import Flow, ToolNode
from spindle.flows.check.check import check
from spindle.flows.text.files import read

ANN = Principal("ann")
SAVED = json.dumps(
    {
        "name": "who",
        "inputs": {"by": {"type": "string"}},
        "nodes": [{"id": "ask", "tool": "work.whoami"}, {"id": "show", "tool": "shout"}],
        "edges": [{"from": "ask", "to": "show"}],
    }
)
TOOLS = """
from spindle import tool

@tool
def shout(ask: str) -> str:
    '''Shout.'''
    return ask.upper()
"""


@pytest.fixture
def root(tmp_path: Path, guarded_url: str) -> Path:
    lines = ["[auth]", 'redirect_uri = "http://127.0.0.1/callback"', "[sources.work]"]
    lines += [f'url = "{guarded_url}"', 'auth = { type = "oauth", provider = "Work" }']
    (tmp_path / "spindle.toml").write_text("\n".join(lines) + "\n")
    for name, text in {"tools/t.py": TOOLS, "flows/who.json": SAVED}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    return tmp_path


FLOWS = {
    "a saved flow": ("who", {"by": "me"}),
    "a line of tools": ("work.whoami --by=me >> shout --ask='${whoami}'", {}),
    "a tool alone": ("work.whoami", {}),
}


@pytest.mark.parametrize("which", FLOWS)
async def test_it_pauses_once_and_goes_on_in_another_process(root: Path, which: str) -> None:
    text, inputs = FLOWS[which]
    async with spindle.open(root) as app:
        paused = await app.run_flow(text, inputs, CallOptions(ANN))
        assert isinstance(paused, Paused)
        (pause,) = paused.pauses
        assert (pause.kind, pause.source) == ("consent", "work")
        assert [run.status for run in await app.flows.runs()] == ["paused"]
    async with spindle.open(root) as other:
        await agree(other, pause.details["url"], ANN)
        (outcome,) = await other.runner.resume_consent("work", ANN)
        assert isinstance(outcome, Finished)
        assert '"subject": "ann"' in outcome.result.text.lower()
        if inputs or "by" in text:
            assert '"by": "me"' in outcome.result.text.lower()


async def test_a_flow_made_in_python_pauses_too(root: Path) -> None:
    async with spindle.open(root) as app:
        paused = await app.run_flow(Flow(ToolNode("work.whoami")), {}, CallOptions(ANN))
        assert isinstance(paused, Paused)
        await agree(app, paused.pauses[0].details["url"], ANN)
        done = await app.resume(paused.pauses[0].token)
        assert isinstance(done, Finished)


async def test_a_flow_whose_tools_wait_can_be_checked_as_far_as_it_is_known(root: Path) -> None:
    broken = json.loads(SAVED)
    broken["edges"][0]["to"] = "nowhere"
    async with spindle.open(root) as app:
        loaded = read(json.dumps(broken), "json")
        problems = await check(loaded.definition, app.show, loaded.positions)
    said = {problem.message: problem for problem in problems}
    waiting = next(problem for message, problem in said.items() if "work.whoami is not known" in message)
    assert (waiting.severity, waiting.hint) == ("warning", "run `spindle auth login work`")
    assert "an edge names 'nowhere', but there is no such node" in said
