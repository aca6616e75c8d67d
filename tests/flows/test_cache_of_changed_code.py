"""A cached result is never that of other code, or of other settings."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.echo_server import Answer, EchoServer
from servers.flow_tools import OpenFlows
from spindle import Finished, tool
from spindle.flows import CacheRule, Flow, Node, ToolNode, flow_safe
from spindle.sources.code.behaviour import functions_mark
from spindle.sources.code.modules import FolderModules

PRICE = "from spindle import tool\n\n\n@tool(read_only=True)\ndef price(x: int) -> int:\n    return x * {}\n"
HELPED = """
from spindle import tool


@tool(read_only=True)
def price(x: int) -> int:
    from pricing.rates import factor

    return x * factor()
"""


async def price(root: Path, **options: Any) -> tuple[int, bool]:
    """The price, and whether it was cached, as a process of its own sees it."""
    flow = Flow(ToolNode("price", params={"x": 2}), cache=CacheRule(), name="priced")
    async with spindle.open(root, **options) as app:
        outcome = await app.run_flow(flow)
        _, _, events = await app.flows.trace(outcome.run_id)
    assert isinstance(outcome, Finished)
    return outcome.result.value, events[0].cached


async def test_a_changed_function_is_called(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    path = tmp_path / "tools" / "prices.py"
    path.write_text(PRICE.format(1))
    assert await price(tmp_path) == (2, False)
    assert await price(tmp_path) == (2, True)
    path.write_text(PRICE.format(100))
    assert await price(tmp_path) == (200, False)
    path.write_text(PRICE.format(1))
    assert await price(tmp_path) == (2, True)


@pytest.mark.parametrize("change", ["pricing/rates.py", "pricing/__init__.py"])
async def test_a_function_whose_imported_module_changed_is_called(tmp_path: Path, change: str) -> None:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools" / "pricing").mkdir(parents=True)
    (tmp_path / "tools" / "prices.py").write_text(HELPED)
    (tmp_path / "tools" / "pricing" / "__init__.py").write_text("BASE = 1\n")
    (tmp_path / "tools" / "pricing" / "rates.py").write_text(
        "from . import BASE\n\n\ndef factor() -> int:\n    return BASE * 1\n"
    )
    assert await price(tmp_path) == (2, False)
    assert await price(tmp_path) == (2, True)
    changed = tmp_path / "tools" / change
    changed.write_text(changed.read_text().replace("1", "100"))
    assert await price(tmp_path) == (200, False)


async def test_a_given_function_with_another_enclosed_value_is_called(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()

    def priced(factor: int) -> Any:
        @tool(read_only=True)
        def price(x: int) -> int:
            return x * factor

        return price

    assert await price(tmp_path, tools=[priced(1)]) == (2, False)
    assert await price(tmp_path, tools=[priced(1)]) == (2, True)
    assert await price(tmp_path, tools=[priced(100)]) == (200, False)


def test_a_function_with_other_values_bound_to_it_has_another_mark(tmp_path: Path) -> None:
    def price(x: int, factor: int) -> int:
        return x * factor

    marks = {functions_mark([functools.partial(price, factor=factor)], tmp_path) for factor in (1, 1, 100)}
    assert len(marks) == 2


async def test_another_server_behind_the_same_tool_is_asked(
    opened: OpenFlows, service: EchoServer, tmp_path: Path
) -> None:
    other = EchoServer()
    other.answers["/echo"] = Answer(b'{"id": 8}')
    listening = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    settings = tmp_path / "spindle.toml"
    flow = Flow(ToolNode("api.echo"), cache=CacheRule(), name="echoed")

    async def echoed() -> Any:
        async with opened() as app:
            outcome = await app.run_flow(flow)
        assert isinstance(outcome, Finished)
        return outcome.result.value["id"]

    async with listening:
        assert [await echoed(), await echoed()] == [7, 7]
        port = listening.sockets[0].getsockname()[1]
        settings.write_text(settings.read_text().replace(service.url, f"http://127.0.0.1:{port}"))
        assert await echoed() == 8


async def test_a_pure_node_whose_imported_module_changed_is_run(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "rates.py").write_text("FACTOR = 1\n")
    (tmp_path / "code" / "priced.py").write_text(
        "import rates\n"
        "from spindle.flows import Node, flow_safe\n\n\n"
        "@flow_safe\nclass Price(Node):\n"
        "    def prep(self, shared):\n        return shared['x']\n"
        "    def exec(self, x):\n        return x * rates.FACTOR\n"
        "    def post(self, shared, x, price):\n        shared['price'] = price\n"
    )

    async def priced() -> tuple[int, bool]:
        folder = FolderModules(tmp_path / "code")
        with folder.fresh():
            kind = folder.load("priced").Price
        flow = Flow(kind(id="node"), name="priced", cache=CacheRule(), outputs={"price": "${price}"})
        async with spindle.open(tmp_path) as app:
            outcome = await app.run_flow(flow, x=2)
            _, _, events = await app.flows.trace(outcome.run_id)
        assert isinstance(outcome, Finished)
        return outcome.result.value["price"], events[0].cached

    assert [await priced(), await priced()] == [(2, False), (2, True)]
    (tmp_path / "code" / "rates.py").write_text("FACTOR = 100\n")
    assert await priced() == (200, False)


async def test_a_pure_node_of_a_program_is_cached(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    runs: list[int] = []

    @flow_safe
    class Double(Node):
        def prep(self, shared: Any) -> int:
            return shared["x"]

        def exec(self, x: int) -> int:
            runs.append(x)
            return 2 * x

    for _ in range(2):
        async with spindle.open(tmp_path) as app:
            await app.run_flow(Flow(Double(id="double"), name="doubled", cache=CacheRule()), x=2)
    assert runs == [2]
