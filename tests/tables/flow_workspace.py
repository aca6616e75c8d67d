"""A workspace with tools and three flows, two of which are about tables."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

TOOLS = '''
from typing import Any

from spindle import tool


@tool(read_only=True)
def add_up(rows: list[dict[str, Any]], by: str) -> dict[str, Any]:
    """Add amounts up by a column."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row[by]] = sums.get(row[by], 0) + row["amount"]
    return {"sums": [{"name": name, "amount": amount} for name, amount in sums.items()], "groups": len(sums)}


@tool(read_only=True)
def count_file(path: str) -> int:
    """Count the rows of a Parquet file."""
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).num_rows


@tool(read_only=True)
def shout(text: str) -> str:
    return text.upper() + "!"


@tool(read_only=True)
def find_bad(rows: list[dict[str, Any]]) -> str:
    for row in rows:
        if row["amount"] < 0:
            raise ValueError(f"the amount of {row['who']!r} is {row['amount']}")
    return "all good"
'''

TOTALS = """
version: 1
description: Adds orders up.
inputs:
  orders:
    type: array
    format: table
    description: What was ordered
    items: {type: object, properties: {who: {type: string}, amount: {type: number}}}
  by: {type: string}
nodes:
- {id: sum, tool: add_up, params: {rows: "${orders}", by: "${by}"}}
outputs:
  totals: {value: "${sum.sums}", type: array, format: table}
  groups: {value: "${sum.groups}", type: integer}
"""
COUNT = """
version: 1
description: Counts the rows of a table.
inputs:
  data: {type: string, format: table}
nodes:
- {id: count, tool: count_file, params: {path: "${data}"}}
outputs:
  count: {value: "${count}", type: integer}
"""
LOUD = """
version: 1
description: Says it loudly.
inputs:
  text: {type: string}
nodes:
- {id: shout, tool: shout}
outputs:
  said: {value: "${shout}", type: string}
"""
CHECK = """
version: 1
description: Checks orders.
inputs:
  orders: {type: array, format: table}
nodes:
- {id: find, tool: find_bad, params: {rows: "${orders}"}}
outputs:
  verdict: {value: "${find}", type: string}
"""

SECRETS = ("Wilhelmina", "Bartholomew", "4711.25", "815.5")
ORDERS = pa.table({
    "who": ["Wilhelmina", "Bartholomew", "Wilhelmina"],
    "amount": [4711.25, 815.5, 0.125],
})  # fmt: skip
"""Whatever of it a model is sent would be noticed."""


def make_workspace(folder: Path) -> Path:
    (folder / "tools").mkdir(parents=True)
    (folder / "flows").mkdir()
    (folder / "spindle.toml").write_text("")
    (folder / "tools" / "sums.py").write_text(TOOLS)
    for name, text in {"totals": TOTALS, "count": COUNT, "loud": LOUD, "check_orders": CHECK}.items():
        (folder / "flows" / f"{name}.yaml").write_text(text)
    return folder


def environment(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **more}
