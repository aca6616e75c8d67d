"""Ten tasks of many calls on `servers/shop.py`: the calls of each step, and the program that does the same in
the words of Spindle's code mode and of FastMCP's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "servers"))

from shop import ORDERS, get_customer, get_stock, orders

Step = Sequence[tuple[str, dict[str, Any]]]


class Dialect:
    """How a program calls a tool, and returns its value: Spindle's, a module with typed functions."""

    beginning = "import asyncio\nimport shop\n\n"

    def call(self, tool: str, **given: str) -> str:
        return f"shop.{tool}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def wrapped(self, awaited: str) -> str:
        """A result that is no object: MCP has it in one, under `result`."""
        return awaited

    def end(self, value: str) -> str:
        return value


class FastMCPDialect(Dialect):
    """FastMCP's: one function `call_tool`, and `return`."""

    beginning = "import asyncio\n\n"

    def call(self, tool: str, **given: str) -> str:
        params = ", ".join(f'"{name}": {value}' for name, value in given.items())
        return f'call_tool("{tool}", {{{params}}})'

    def wrapped(self, awaited: str) -> str:
        return f'({awaited})["result"]'

    def end(self, value: str) -> str:
        return f"return {value}"


@dataclass(frozen=True)
class Task:
    """A question, its answer, the calls of each step, and the program that does the same."""

    question: str
    answer: Any
    steps: Sequence[Step]
    work: Callable[[Dialect], list[str]]

    def program(self, dialect: Dialect) -> str:
        *lines, value = self.work(dialect)
        return dialect.beginning + "\n".join([_read(dialect), *lines, dialect.end(value)])


def _each(say: Dialect, tool: str, name: str, values: str, **more: str) -> str:
    return f"await asyncio.gather(*[{say.call(tool, **{name: 'n'}, **more)} for n in {values}])"


def _read(say: Dialect) -> str:
    ids = say.wrapped(f"await {say.call('list_orders')}")
    return f"orders = {_each(say, 'get_order', 'id', ids)}"


def _people(say: Dialect) -> list[str]:
    return [
        "ids = sorted({o['customer'] for o in orders})",
        f"people = {_each(say, 'get_customer', 'id', 'ids')}",
    ]


def _stocks(say: Dialect) -> list[str]:
    return [
        "items = sorted({o['item'] for o in orders})",
        f"stocks = {_each(say, 'get_stock', 'item', 'items')}",
    ]


LIST: Step = [("list_orders", {})]
EACH: Step = [("get_order", {"id": n}) for n in range(ORDERS)]
CUSTOMERS: Step = [("get_customer", {"id": n}) for n in range(5)]
STOCKS: Step = [("get_stock", {"item": f"item-{n}"}) for n in range(7)]
FOUND = orders()
PEOPLE = [get_customer(n) for n in range(5)]
KEPT = [get_stock(f"item-{n}") for n in range(7)]
LATE = sorted({order["customer"] for order in FOUND if order["state"] == "late"})
IN_ULM = [n for n in LATE if PEOPLE[n]["city"] == "Ulm"]


def _reminders(customers: list[int]) -> Step:
    return [("remind", {"customer": n, "text": "late"}) for n in customers]


TASKS = [
    Task(
        "What is the total of all orders?", sum(o["total"] for o in FOUND), [LIST, EACH],
        lambda _: ["sum(o['total'] for o in orders)"],
    ),
    Task(
        "How many are late?", sum(o["state"] == "late" for o in FOUND), [LIST, EACH],
        lambda _: ["len([o for o in orders if o['state'] == 'late'])"],
    ),
    Task(
        "Which order is the largest?", ORDERS - 1, [LIST, EACH],
        lambda _: ["max(orders, key=lambda o: o['total'])['id']"],
    ),
    Task(
        "How many of each item?", [[o["item"], o["count"]] for o in FOUND], [LIST, EACH],
        lambda _: ["[[o['item'], o['count']] for o in orders]"],
    ),
    Task(
        "Which cities are waiting?", sorted({p["city"] for p in PEOPLE}), [LIST, EACH, CUSTOMERS],
        lambda say: [*_people(say), "sorted({p['city'] for p in people})"],
    ),
    Task(
        "Who has no credit?", [p["name"] for p in PEOPLE if not p["credit"]], [LIST, EACH, CUSTOMERS],
        lambda say: [*_people(say), "[p['name'] for p in people if not p['credit']]"],
    ),
    Task(
        "What runs low?", [s["item"] for s in KEPT if s["stock"] < 3], [LIST, EACH, STOCKS],
        lambda say: [*_stocks(say), "[s['item'] for s in stocks if s['stock'] < 3]"],
    ),
    Task(
        "What is not there at all?", [s["item"] for s in KEPT if not s["stock"]], [LIST, EACH, STOCKS],
        lambda say: [*_stocks(say), "[s['item'] for s in stocks if not s['stock']]"],
    ),
    Task(
        "Remind all who are late.", len(LATE), [LIST, EACH, _reminders(LATE)],
        lambda say: [
            "late = sorted({o['customer'] for o in orders if o['state'] == 'late'})",
            _each(say, "remind", "customer", "late", text="'late'"),
            "len(late)",
        ],
    ),
    Task(
        "Remind all who are late and live in Ulm.", len(IN_ULM), [LIST, EACH, CUSTOMERS, _reminders(IN_ULM)],
        lambda say: [
            *_people(say),
            "late = {o['customer'] for o in orders if o['state'] == 'late'}",
            "there = [p['id'] for p in people if p['city'] == 'Ulm' and p['id'] in late]",
            _each(say, "remind", "customer", "there", text="'late'"),
            "len(there)",
        ],
    ),
]  # fmt: skip
