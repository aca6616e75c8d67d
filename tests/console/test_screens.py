"""The views of the screens, without a browser: plain data, and nothing that a principal may not see."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.console.copying import copied, sample_arguments
from spindle.console.differences import held_change, side_by_side
from spindle.console.rendering import Pages
from spindle.console.screen import Look
from spindle.console.screens import PLACES, SCREENS
from spindle.console.screens.calls import PAGE_SIZE, call, calls
from spindle.console.screens.find import find
from spindle.console.screens.overview import overview
from spindle.console.screens.sources import add, source, sources
from spindle.console.screens.tools import tool, tools
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import NotFoundError
from spindle.serving.access import ServingAccess

OWNER = Principal("local", frozenset({"guest"}), admin=True)
ANN = Principal("ann", frozenset({"few"}))

TOOLS = '''
from pydantic import BaseModel
from spindle import tool

class Order(BaseModel):
    customer: str
    count: int = 1

@tool(tags=["orders"], destructive=True)
def place(order: Order, note: str | None = None) -> str:
    """Place an order. It is sent at once."""
    return order.customer

@tool(read_only=True)
def look(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise ValueError("no such word")
    return word
'''


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text('[sources.gone]\nurl = "http://127.0.0.1:9/mcp"\n')
    async with spindle.open(tmp_path) as opened:
        await opened.sync("tools")
        await opened.sync("gone")
        yield opened


def looking(
    app: Spindle, principal: Principal = OWNER, query: dict[str, str] | None = None, **named: str
) -> Look:
    config = ServeConfig.model_validate({"groups": {"few": {"exposed_tools": ["look"]}}, "console": True})
    return Look(app, ServingAccess.of(config), principal, time.time(), query or {}, named)


async def make_calls(app: Spindle) -> None:
    await app.call("look", {"word": "good"}, CallOptions(ANN))
    await app.call("look", {"word": "bad"}, CallOptions(OWNER))
    await app.call("place", {"order": {"customer": "x"}}, CallOptions(OWNER))


async def test_the_overview_counts_what_a_principal_may_see(app: Spindle) -> None:
    await make_calls(app)
    all_of_it = await overview(looking(app))
    assert [(line.name, line.state) for line in all_of_it.sources] == [
        ("gone", "failing"),
        ("tools", "ready"),
    ]
    assert (all_of_it.tools, all_of_it.calls.total, all_of_it.calls.failed, all_of_it.troubled) == (
        2,
        3,
        1,
        1,
    )
    assert not all_of_it.is_new
    anns = await overview(looking(app, ANN))
    assert [(line.name, line.tools, line.error) for line in anns.sources] == [("tools", 1, None)]
    assert (anns.calls.total, anns.starters) == (1, [])


async def test_a_workspace_without_anything_leads_to_a_first_source(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    async with spindle.open(tmp_path) as opened:
        found = await overview(looking(opened))
        assert found.is_new
        assert "time" in [preset.name for preset in found.starters]


async def test_tools_are_searched_and_filtered_and_hidden_ones_are_not_there(app: Spindle) -> None:
    async def names(principal: Principal = OWNER, **query: str) -> list[str]:
        return [item.name for item in (await tools(looking(app, principal, query))).page.items]

    assert await names() == ["look", "place"]
    assert await names(q="send an order") == ["place"]
    assert await names(tag="orders") == ["place"]
    assert await names(hint="read-only") == ["look"]
    assert await names(hint="destructive", kind="python") == ["place"]
    assert await names(source="other") == []
    assert await names(ANN) == ["look"]
    assert await names(ANN, q="send an order") == []
    listed = await tools(looking(app, ANN))
    assert (listed.total, listed.tags) == (1, [])
    assert [hit.name for hit in await find(looking(app, ANN, {"q": "place order"}))] == []
    assert [hit.path for hit in await find(looking(app, query={"q": "place"}))] == ["/tools/place"]
    others = [hit.path for hit in await find(looking(app, query={"q": "gone"})) if hit.kind != "tool"]
    assert others == ["/sources/gone", "/health/settings?q=sources.gone.url"]
    assert await find(looking(app, ANN, {"q": "gone"})) == []
    assert "/tools?group=few" in [hit.path for hit in await find(looking(app, query={"q": "few"}))]


async def test_a_tools_page_has_its_arguments_its_promises_and_calls_to_copy(app: Spindle) -> None:
    await make_calls(app)
    found = await tool(looking(app, name="place"))
    assert [(field.name, field.depth, field.required) for field in found.fields] == [
        ("order", 0, True), ("customer", 1, True), ("count", 1, False), ("note", 0, False),
    ]  # fmt: skip
    assert found.promises == [("warn", "may destroy")]
    assert [line.outcome for line in found.recent] == ["ok"]
    assert found.groups == []
    assert (await tool(looking(app, name="look"))).groups == ["few"]
    texts = {copy.label: copy.text for copy in found.copies}
    assert texts["Shell"] == """spindle call place '{"order": {"customer": "…"}}'"""
    assert '"name": "place"' in texts["MCP"]
    assert "/tools/place" in texts["curl"]
    compile(texts["Python"], "copied", "exec")
    with pytest.raises(NotFoundError):
        await tool(looking(app, ANN, name="place"))
    anns = await tool(looking(app, ANN, name="look"))
    assert [line.principal for line in anns.recent] == ["ann"]


async def test_what_is_copied_cannot_leave_its_quotes(app: Spindle) -> None:
    shown = await app.show("look")
    assert sample_arguments(shown) == {"word": "…"}
    hostile = {"word": "'; rm -rf / #\n$(x)`y`"}
    texts = {copy.label: copy.text for copy in copied(shown, hostile, "http://x", "look")}
    import shlex

    assert shlex.split(texts["Shell"])[:3] == ["spindle", "call", "look"]
    assert len(shlex.split(texts["Shell"])) == 4


async def test_calls_are_filtered_paged_and_ones_own(app: Spindle) -> None:
    await make_calls(app)

    async def listed(principal: Principal = OWNER, **query: str) -> list[tuple[str, str]]:
        found = await calls(looking(app, principal, query))
        return [(line.tool, line.outcome) for line in found.calls]

    assert await listed() == [("place", "ok"), ("look", "tool"), ("look", "ok")]
    assert await listed(outcome="failed") == [("look", "tool")]
    assert await listed(tool="look", since="hour") == [("look", "tool"), ("look", "ok")]
    assert await listed(who="ann") == [("look", "ok")]
    assert await listed(ANN, who="local") == [("look", "ok")]
    assert await listed(slower="1 min") == []
    assert await listed(since="nonsense") == await listed()
    for _ in range(PAGE_SIZE):
        await app.call("look", {"word": "x"}, CallOptions(OWNER))
    first = await calls(looking(app))
    assert len(first.calls) == PAGE_SIZE
    assert first.older is not None
    second = await calls(looking(app, query={"before": first.older}))
    assert (len(second.calls), second.older) == (3, None)
    assert not {line.key for line in first.calls} & {line.key for line in second.calls}


async def test_one_call_is_shown_to_whoever_made_it(app: Spindle) -> None:
    await make_calls(app)
    lines = (await calls(looking(app))).calls
    failed, anns = lines[1], lines[2]
    view = await call(looking(app, key=failed.key))
    assert "no such word" in view.error["message"]
    assert '"word": "bad"' in view.arguments
    assert "Traceback" in view.traceback or "t.py" in view.traceback
    assert (await call(looking(app, ANN, key=anns.key))).line.principal == "ann"
    for key in (failed.key, "nothing", failed.key[:4]):
        with pytest.raises(NotFoundError):
            await call(looking(app, ANN, key=key))


async def test_a_source_has_its_error_only_for_administrators(app: Spindle) -> None:
    assert [line.name for line in (await sources(looking(app))).sources] == ["gone", "tools"]
    assert [line.name for line in (await sources(looking(app, ANN))).sources] == ["tools"]
    gone = await source(looking(app, name="gone"))
    assert "cannot reach" in str(gone.line.error)
    assert gone.reached == "http://127.0.0.1:9/mcp"
    assert gone.hint
    anns = await source(looking(app, ANN, name="tools"))
    assert (anns.reached, anns.logs, anns.hint) == ("", [], "")
    for name in ("gone", "nothing"):
        with pytest.raises(NotFoundError):
            await source(looking(app, ANN, name=name))
    assert (await sources(looking(app))).may_add
    assert not (await sources(looking(app, Principal("root", admin=True)))).may_add
    assert len((await add(looking(app))).presets) > 5


async def test_every_screen_renders_for_everybody(app: Spindle) -> None:
    await make_calls(app)
    key = (await calls(looking(app))).calls[1].key
    named = {
        "/tools/{name}": {"name": "look"},
        "/calls/{key}": {"key": key},
        "/sources/{name}": {"name": "tools"},
        "/waiting/{token}": {"token": "nothing"},
        "/tools/{name}/try": {"name": "look"},
        "/runs/{id}": {"id": "nothing"},
        "/runs/{id}/compare": {"id": "nothing"},
        "/flows/{file:path}": {"file": "greet.yaml"},
        "/flows/{file:path}/edit": {"file": "greet.yaml"},
    }
    flows = app.flows.library.folder
    flows.mkdir()
    (flows / "greet.yaml").write_text("nodes:\n- {id: a, tool: look, params: {word: hi}}\n")
    pages = Pages()
    missing: set[tuple[str, str]] = set()
    for screen in SCREENS:
        for principal in (OWNER, ANN):
            if screen.admin and not principal.admin:
                continue  # the console does not show it
            look = looking(app, principal, {}, **named.get(screen.path, {}))
            frame: dict[str, Any] = {
                "places": PLACES, "place": screen.place, "here": f"/console{screen.path}", "query": {},
                "waiting": 0, "workspace": "w", "principal": principal, "csrf": "c", "version": "1",
                "live": "",
            }  # fmt: skip
            try:
                view = await screen.view(look)
            except NotFoundError:
                missing.add((screen.path, principal.id))
                continue
            body = pages.respond(screen.template, None, view=view, look=look, **frame).body.decode()
            assert " style=" not in body
            assert "gone" not in body or principal is OWNER, screen.path
    # What does not wait, the owner's call for another, and what nobody here can examine.
    assert missing == {
        ("/waiting/{token}", "local"), ("/waiting/{token}", "ann"), ("/calls/{key}", "ann"),
        ("/runs/{id}", "local"), ("/runs/{id}", "ann"),
        ("/runs/{id}/compare", "local"), ("/runs/{id}/compare", "ann"),
        ("/health/examined", "local"), ("/flows/{file:path}", "ann"),
    }  # fmt: skip


async def test_a_held_change_is_shown_line_by_line(app: Spindle) -> None:
    look, place = await app.show("look"), await app.show("place")
    change = held_change("look", look, place)
    assert not change.is_new
    assert "description" in change.fields
    assert any("Look a word up." in (pair.old or "") for pair in change.pairs)
    assert held_change("look", None, look).is_new
    pairs = side_by_side(["a", "b", "c", "d", "e", "f"], ["a", "b", "c", "x", "e", "f"])
    assert [(pair.old, pair.new) for pair in pairs if not pair.same] == [("d", "x")]
    assert [pair.old for pair in pairs] == ["⋯", "b", "c", "d", "e", "f"]
