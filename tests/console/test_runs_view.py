"""Runs and tools to be tried, as plain data and as pages, without a browser."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.console.rendering import Pages
from spindle.console.screen import Look
from spindle.console.screens import PLACES, SCREENS
from spindle.console.screens.calls import call, calls
from spindle.console.screens.find import find
from spindle.console.screens.runs import PAGE_SIZE, compare, run, runs
from spindle.console.screens.trying import try_tool
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import NotFoundError, SpindleError
from spindle.runs.outcomes import Finished
from spindle.serving.access import ServingAccess

OWNER = Principal("local", admin=True)
ANN = Principal("ann")
HOSTILE = "<script>alert(1)</script>\u202e</textarea><style>*{display:none}</style>"
TOOLS = '''
from spindle import Context, tool

@tool(read_only=True)
def first(word: str, password: str | None = None) -> str:
    """Begin."""
    return word.upper()

@tool
def second(word: str) -> str:
    """Go on."""
    if word == "BAD":
        raise ValueError("<img src=x> no luck")
    return word + "!"

@tool
def asks(context: Context) -> str:
    """Asks."""
    return context.ask("Which?")
'''
FLOW = """
name: two
inputs:
  word: {type: string, default: hey}
nodes:
  - {id: one, tool: first, params: {word: "${word}"}}
  - {id: two, tool: second, params: {word: "${one}"}}
edges:
  - {from: one, to: two}
"""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(TOOLS)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "two.yaml").write_text(FLOW)
    (tmp_path / "spindle.toml").touch()
    async with spindle.open(tmp_path) as opened:
        await opened.sync()
        yield opened


def looking(app: Spindle, principal: Principal = OWNER, query: Any = None, **named: str) -> Look:
    access = ServingAccess.of(ServeConfig.model_validate({"console": True}))
    return Look(app, access, principal, time.time(), query or {}, named, principal is OWNER)


def page(look: Look, path: str, view: Any) -> str:
    screen = next(screen for screen in SCREENS if screen.path == path)
    frame: dict[str, Any] = {
        "places": PLACES, "place": screen.place, "here": "/console/x", "query": look.query, "waiting": 0,
        "workspace": "w", "principal": look.principal, "csrf": "c", "version": "1", "live": "",
    }  # fmt: skip
    body = Pages().respond(screen.template, None, view=view, look=look, **frame).body.decode()
    assert " style=" not in body
    assert "<style" not in body
    return body


async def ran(app: Spindle, word: str) -> str:
    """Runs the flow and returns the id of its run."""
    try:
        outcome = await app.run_flow("two", word=word)
        assert isinstance(outcome, Finished)
    except SpindleError:
        pass
    return (await app.store.runs(limit=1))[0].id


async def test_runs_are_listed_filtered_paged_and_ones_own(app: Spindle) -> None:
    await ran(app, "good")
    await ran(app, "bad")
    await app.run("two", {"word": "ann"}, CallOptions(ANN))

    async def listed(principal: Principal = OWNER, **query: str) -> list[tuple[str, str, str]]:
        found = await runs(looking(app, principal, query))
        return [(line.kind, line.status, line.principal) for line in found.runs]

    everything = [("call", "done", "ann"), ("flow", "failed", "local"), ("flow", "done", "local")]
    assert await listed() == everything
    assert await listed(status="failed") == everything[1:2]
    assert await listed(kind="call", name="two") == everything[:1]
    assert await listed(who="ann") == everything[:1]
    assert await listed(ANN, who="local") == everything[:1]
    assert await listed(status="nonsense") == everything
    for _ in range(PAGE_SIZE - 2):
        await app.run("two", {"word": "x"}, CallOptions(OWNER))
    first = await runs(looking(app))
    assert len(first.runs) == PAGE_SIZE
    second = await runs(looking(app, query={"before": first.older}))
    assert [line.status for line in second.runs] == ["done"]
    assert "What ran, and what runs?" in page(looking(app), "/runs", first)


async def test_a_run_is_a_timeline_and_a_picture_and_its_nodes_can_be_looked_into(app: Spindle) -> None:
    good, bad = await ran(app, "good"), await ran(app, "bad")
    look = looking(app, query={"node": "two"}, id=bad)
    view = await run(look)
    assert [(line.name, line.word) for line in view.timeline.lines] == [("one", "done"), ("two", "failed")]
    chosen = view.timeline.chosen
    assert chosen is not None
    assert "no luck" in chosen.error
    assert '"word": "BAD"' in chosen.inputs
    assert (view.may_cancel, view.may_resume, view.is_now) == (False, True, False)
    assert view.picture is not None
    assert 'class="state done"' in view.picture
    assert 'class="state failed"' in view.picture
    assert [line.outcome for line in view.calls] == ["tool", "ok"]
    body = page(look, "/runs/{id}", view)
    assert "Run again from here" in body
    assert "<img" not in body
    # A call of the run leads back to it.
    key = (await calls(looking(app))).calls[0].key
    assert (await call(looking(app, key=key))).run == bad
    # Two runs of one flow, side by side.
    both = await compare(looking(app, query={"with": good}, id=bad))
    assert [(row.name, row.same, row.one.split()[0]) for row in both.rows] == [
        ("one", False, "done"),
        ("two", False, "failed"),
    ]
    assert "What differs" in page(looking(app, query={"with": good}), "/runs/{id}/compare", both)
    assert [block["text"] for block in (await run(looking(app, id=good))).result["content"]] == ["GOOD!"]
    for look in (looking(app, ANN, id=good), looking(app, id=good[:8]), looking(app, id="nothing")):
        with pytest.raises(NotFoundError):
            await run(look)
    with pytest.raises(NotFoundError):
        await compare(looking(app, ANN, {"with": good}, id=bad))


async def test_what_is_too_long_for_a_page_does_not_reach_it(app: Spindle) -> None:
    long = "x" * 10_000_000
    run_id = await ran(app, long)
    view = await run(looking(app, id=run_id))
    body = page(looking(app), "/runs/{id}", view)
    assert len(body) < 500_000
    assert f"GET /runs/{run_id} returns all of it" in body
    assert "10,000,0" in body
    # Nor do the arguments of an earlier run get into a form; those of others do.
    for word, begins_with in ((long, None), ("short", {"word": "short"})):
        await app.run("two", {"word": word}, CallOptions(OWNER))
        (made,) = await app.store.runs(limit=1)
        tried = await try_tool(looking(app, query={"run": made.id}, name="two"))
        assert tried.value == begins_with


async def test_a_call_that_waits_leads_to_its_answer(app: Spindle) -> None:
    await app.run("asks", {}, CallOptions(LOCAL))
    id = (await app.store.runs(limit=1))[0].id
    view = await run(looking(app, id=id))
    assert [pause.message for pause in view.waiting] == ["Which?"]
    assert view.may_cancel
    body = page(looking(app), "/runs/{id}", view)
    assert f"/console/waiting/{view.waiting[0].token}" in body
    assert f"/console/tools/asks/try?run={id}" in body


async def test_a_tool_is_tried_with_the_arguments_of_an_earlier_call(app: Spindle) -> None:
    await app.call("first", {"word": HOSTILE, "password": "hunter2"}, CallOptions(ANN))
    key = (await calls(looking(app))).calls[0].key
    empty = await try_tool(looking(app, name="first"))
    assert (empty.value, empty.may_save, empty.promises) == (None, True, [("good", "read-only")])
    again = await try_tool(looking(app, query={"call": key}, name="first"))
    assert again.value is not None
    assert again.value["word"] == HOSTILE
    assert "hunter2" not in str(again.value)
    assert again.is_masked
    body = page(looking(app), "/tools/{name}/try", again)
    assert "<script>alert" not in body
    assert "</textarea><style>" not in body
    # The call of another, or of another tool, fills in nothing.
    assert (await try_tool(looking(app, Principal("eve"), {"call": key}, name="first"))).value is None
    assert (await try_tool(looking(app, query={"call": key}, name="second"))).value is None
    mine = await try_tool(looking(app, ANN, {"call": key}, name="first"))
    assert (mine.value is not None, mine.may_save) == (True, False)


async def test_the_search_for_everything_finds_flows_and_runs_of_whoever_looks(app: Spindle) -> None:
    done = await app.run_flow("two", word="hey")
    assert isinstance(done, Finished)
    (made,) = (await runs(looking(app))).runs

    async def hits(words: str, principal: Principal = OWNER) -> list[tuple[str, str]]:
        return [(hit.kind, hit.path) for hit in await find(looking(app, principal, {"q": words}))]

    assert ("flow", "/flows/two.yaml") in await hits("tw")
    assert ("run", f"/runs/{made.id}") in await hits("two")
    assert await hits(made.id[:10]) == [("run", f"/runs/{made.id}")]
    assert await hits(made.id) == [("run", f"/runs/{made.id}")]
    assert [hit for hit in await hits("two", ANN) if hit[0] == "run"] == []
    assert await hits(made.id, ANN) == []
    assert await hits("0" * 32) == []
