"""A trace of a large batch stays short, and shows one item on demand."""

from __future__ import annotations

import json

from servers.shell import Run, Workspace

TOOLS = '''
from spindle import tool

@tool(read_only=True)
def look(n: int) -> dict[str, int]:
    """Look it up."""
    if n % 100 == 7:
        raise ValueError(f"{n} is bad")
    return {"n": n}

@tool(read_only=True)
def long(n: int) -> str:
    """A long text."""
    return f"{n}:" + "x" * 2000
'''
FLOW = """
inputs:
  numbers: {type: array, items: {type: integer}}
nodes:
- id: each
  batch: {over: "${numbers}", item: n, keep_errors: true, reduce: "${len(filter(results, item))}"}
  flow:
    nodes:
    - {id: look, tool: look}
    - {id: twice, transform: {twice: "${look.n * 2}"}}
    edges: [{from: look, to: twice}]
- {id: longs, tool: long, batch: {over: "${numbers}", item: n}}
- {id: end, transform: {count: "${each} of ${len(longs)}"}}
edges: [{from: each, to: longs}, {from: longs, to: end}]
"""


def prepare(workspace: Workspace) -> None:
    workspace.write("tools/t.py", TOOLS)
    workspace.write("flows/many.yaml", FLOW)


def test_a_large_batch_is_told_in_a_few_lines(workspace: Workspace, spindle: Run) -> None:
    prepare(workspace)
    ran = spindle("run", "many", "--numbers", json.dumps(list(range(800))))
    assert '"count": "792 of 800"' in ran.out
    assert len(ran.err.splitlines()) < 80
    assert "further items of each[…]/look are counted" in ran.err
    assert "800 items, 8 failed" in ran.err
    told = spindle("trace")
    assert len(told.out.splitlines()) < 40
    assert "✓ each " in told.out
    assert "each[…]/look" in told.out
    assert "each[…]/twice" in told.out
    assert "792 items" in told.out
    assert "800 items, 8 failed" in told.out
    assert 'each[7]/look   "ValueError: 7 is bad"' in told.out
    assert "… and 3 failures more" in told.out
    assert "slowest [" in told.out
    assert "--node 'each[0]'" in told.err


def test_one_item_is_shown_by_its_name(workspace: Workspace, spindle: Run) -> None:
    prepare(workspace)
    spindle("run", "-q", "many", "--numbers", json.dumps(list(range(300))))
    one = spindle("trace", "--node", "each[107]")
    assert "each[107]/look" in one.out
    assert "107 is bad" in one.out
    assert "each[10]" not in one.out
    # Its results are too large to be kept together.
    whole = spindle("trace", "--node", "longs")
    assert "$left_out" in whole.out
    assert "longs[…]" not in whole.out
    other = spindle("trace", "--node", "longs[299]", "--full")
    assert "299:xxxx" in other.out
    unknown = spindle("trace", "--node", "long[3]")
    assert unknown.code == 3
    assert "the run has no node 'long[3]'" in unknown.err
    as_json = json.loads(spindle("trace", "--json").out)
    assert len([node for node in as_json["nodes"] if node["node"].startswith("each[")]) == 300 + 297


def test_one_item_of_a_small_batch_is_shown_too(workspace: Workspace, spindle: Run) -> None:
    workspace.write("tools/t.py", TOOLS)
    nodes = '[{"id": "a", "tool": "look", "batch": {"over": [1, 7, 3], "item": "n", "keep_errors": true}}]'
    workspace.write("flows/few.json", f'{{"nodes": {nodes}}}')
    spindle("run", "-q", "few")
    assert 'in    {"n": 7}' in spindle("trace", "--node", "a[1]").out
    assert "7 is bad" in spindle("trace", "--node", "a[1]").out
    assert 'out   {"n": 3}' in spindle("trace", "--node", "a[2]").out
    assert spindle("trace", "--node", "a[3]").code == 3


def test_few_items_are_shown_one_by_one(workspace: Workspace, spindle: Run) -> None:
    prepare(workspace)
    spindle("run", "-q", "many", "--numbers", "[1, 2, 3]")
    told = spindle("trace").out
    assert "each[2]/look" in told
    assert "[…]" not in told
