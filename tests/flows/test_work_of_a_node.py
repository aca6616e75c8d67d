"""The work that one tool node makes, as far as it can be counted."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.domain.json_schema import from_json, to_json
from spindle.flows import Flow, ToolNode
from spindle.flows.visits import kept


@spindle.tool
async def same(text: str) -> str:
    return text


def chain(name: str, length: int) -> Flow:
    nodes = [ToolNode("same", id=f"{name}{number}", params={"text": "x"}) for number in range(length)]
    for one, other in itertools.pairwise(nodes):
        one.next(other)
    return Flow(nodes[0])


async def test_a_node_writes_its_events_with_two_statements_and_without_a_transaction_around_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", connected)
    (tmp_path / "spindle.toml").touch()
    async with spindle.open(tmp_path, tools=[same]) as app:
        await app.run_flow(chain("first", 30))  # whose first records go into the table one by one
        statements: list[str] = []
        for connection in made:
            connection.set_trace_callback(statements.append)

        async def made_by(length: int) -> tuple[int, int]:
            statements.clear()
            await app.run_flow(chain(f"of_{length}_", length))
            words = [statement.split() for statement in statements]
            events = sum(word[:3] == ["INSERT", "INTO", "main.run_events"] for word in words)
            return events, sum(word[0] in ("BEGIN", "COMMIT") for word in words)

        few, around_few = await made_by(10)
        many, around_many = await made_by(30)
    assert many - few == 2 * 20
    assert around_many == around_few


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"text": "x", "none": None, "yes": True},
        {"number": 1.5, "list": [1], "inner": {"a": {"b": "c"}}},
        {"long": "x" * 20_000},
        {str(number): "x" for number in range(40)},
        ["a", {"b": 1}],
        "text",
        None,
    ],
)
def test_the_history_keeps_a_copy_of_what_json_can_hold(value: Any) -> None:
    found = kept(value)
    assert found == from_json(to_json(value))
    assert found is not value or not isinstance(value, (dict, list))


def test_the_history_describes_what_json_cannot_hold() -> None:
    assert kept({"path": Path("a"), "text": "x"}) == {"path": "PosixPath('a')", "text": "x"}
    assert kept({"text": "x" * 300_000}) == {"$left_out": "300011 bytes"}
