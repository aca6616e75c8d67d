"""Ten tasks of many calls, by calls of the model and by programs: requests to the model, and their size.

The model is scripted, so it makes no mistakes in either mode. In one it asks for all calls of a step at once,
the best that it can do; in the other it searches, runs one program and answers. Tokens are those of all
requests, which hold the tools and the conversation so far, at four bytes each.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from table import Row

BYTES_PER_TOKEN = 4
ORDERS = 20
OTHERS = 30
"""Tools that no task needs, as in every catalog."""


def _orders() -> list[dict[str, Any]]:
    return [
        {
            "id": n, "customer": n % 5, "item": f"item-{n % 7}", "count": n % 4 + 1, "total": 10.5 * n,
            "state": "late" if n % 3 == 0 else "open", "note": f"order number {n}, as agreed by phone",
        }
        for n in range(ORDERS)
    ]  # fmt: skip


def tools() -> list[Callable[..., Any]]:
    def list_orders() -> list[int]:
        """List the ids of all orders."""
        return [order["id"] for order in _orders()]

    def get_order(id: int) -> dict[str, Any]:
        """Get an order: customer, item, count, total, state."""
        return _orders()[id]

    def get_customer(id: int) -> dict[str, Any]:
        """Get a customer: name, city, credit."""
        return {"id": id, "name": f"customer {id}", "city": ["Ulm", "Graz"][id % 2], "credit": 100 * id}

    def get_stock(item: str) -> dict[str, Any]:
        """Get how many of an item are in stock."""
        return {"item": item, "stock": len(item) * 3 % 7}

    def remind(customer: int, text: str) -> str:
        """Remind a customer of something."""
        return f"reminded {customer}"

    def other(number: int) -> Callable[..., Any]:
        def one(
            id: int, since: str = "", limit: int = 10, words: list[str] | None = None
        ) -> list[dict[str, Any]]:
            """Read some records of a part of the shop that has nothing to do with orders."""
            return []

        one.__name__ = f"records_of_part_{number}"
        return one

    return [list_orders, get_order, get_customer, get_stock, remind, *map(other, range(OTHERS))]


@dataclass(frozen=True)
class Task:
    """A question, the calls of each step, and the program that does the same."""

    question: str
    steps: Sequence[Sequence[tuple[str, dict[str, Any]]]]
    program: str


READ = """
import asyncio
import python

orders = await asyncio.gather(*[python.get_order(id=n) for n in await python.list_orders()])
"""
LIST = [("list_orders", {})]
EACH = [("get_order", {"id": n}) for n in range(ORDERS)]
CUSTOMERS = [("get_customer", {"id": n}) for n in range(5)]
STOCKS = [("get_stock", {"item": f"item-{n}"}) for n in range(7)]
LATE = sorted({order["customer"] for order in _orders() if order["state"] == "late"})
REMINDERS = [("remind", {"customer": n, "text": "late"}) for n in LATE]
_CUSTOMERS = (
    "ids = sorted({o['customer'] for o in orders})\n"
    "people = await asyncio.gather(*[python.get_customer(id=n) for n in ids])\n"
)
_STOCKS = (
    "items = sorted({o['item'] for o in orders})\n"
    "stocks = await asyncio.gather(*[python.get_stock(item=i) for i in items])\n"
)
TASKS = [
    Task("What is the total of all orders?", [LIST, EACH], READ + "sum(o['total'] for o in orders)"),
    Task("How many are late?", [LIST, EACH], READ + "len([o for o in orders if o['state'] == 'late'])"),
    Task("Which order is the largest?", [LIST, EACH], READ + "max(orders, key=lambda o: o['total'])['id']"),
    Task("How many of each item?", [LIST, EACH], READ + "[[o['item'], o['count']] for o in orders]"),
    Task(
        "Which cities are waiting?", [LIST, EACH, CUSTOMERS],
        READ + _CUSTOMERS + "sorted({p['city'] for p in people})",
    ),
    Task(
        "Who has no credit?", [LIST, EACH, CUSTOMERS],
        READ + _CUSTOMERS + "[p['name'] for p in people if not p['credit']]",
    ),
    Task(
        "What runs low?", [LIST, EACH, STOCKS],
        READ + _STOCKS + "[s['item'] for s in stocks if s['stock'] < 5]",
    ),
    Task(
        "What is not there at all?", [LIST, EACH, STOCKS],
        READ + _STOCKS + "[s['item'] for s in stocks if not s['stock']]",
    ),
    Task(
        "Remind all who are late.", [LIST, EACH, REMINDERS],
        READ + "late = sorted({o['customer'] for o in orders if o['state'] == 'late'})\n"
        "await asyncio.gather(*[python.remind(customer=n, text='late') for n in late])\nlen(late)",
    ),
    Task(
        "Remind all who are late and live in Ulm.", [LIST, EACH, CUSTOMERS, REMINDERS],
        READ + _CUSTOMERS + "late = {o['customer'] for o in orders if o['state'] == 'late'}\n"
        "there = [p['id'] for p in people if p['city'] == 'Ulm' and p['id'] in late]\n"
        "await asyncio.gather(*[python.remind(customer=n, text='late') for n in there])\nlen(there)",
    ),
]  # fmt: skip


async def measured(task: Task, *, by_program: bool) -> tuple[int, float]:
    """Returns the requests of a task, and their tokens."""
    import spindle
    from spindle import Agent
    from spindle.testing import ModelServer, ToolCall, Turn

    if by_program:
        turns = [
            Turn(calls=[ToolCall("search_tools", {"query": "order, customer, stock, remind"})]),
            Turn(calls=[ToolCall("run_code", {"code": task.program})]),
        ]
    else:
        turns = [Turn(calls=[ToolCall(name, given) for name, given in step]) for step in task.steps]
    with tempfile.TemporaryDirectory() as folder:
        async with spindle.open(folder, tools=tools()) as app, ModelServer(*turns, "done") as model:
            os.environ.update(model.environment())
            agent = Agent(app, "openai-chat:any", code=by_program, taint="off", approve=[])
            done = await agent.run(task.question)
            # `done.calls` is what was really made: a program that failed would be cheap.
            calls: Any = getattr(done, "calls", [])
            wanted = sum(len(step) for step in task.steps) if not by_program else ORDERS + 1
            assert len(calls) >= wanted, (task.question, model.requests[-1].tool_answers[-1].text)
            assert all(call["outcome"] == "ok" for call in calls), calls
            size = sum(len(json.dumps(request.body).encode()) for request in model.requests)
            return len(model.requests), size / BYTES_PER_TOKEN


async def _all(*, by_program: bool) -> tuple[int, float]:
    found = [await measured(task, by_program=by_program) for task in TASKS]
    return sum(requests for requests, _ in found), sum(tokens for _, tokens in found)


def code(quick: bool) -> list[Row]:
    os.environ.setdefault("SPINDLE_TRUST", "1")
    direct, program = asyncio.run(_all(by_program=False)), asyncio.run(_all(by_program=True))
    rows: list[Row] = []
    for what, unit, place in (("requests to the model", "", 0), ("tokens of all requests", "tokens", 1)):
        rows.append(Row("code", f"ten tasks, {what}: calls of the model", direct[place], unit, 1.0))
        rows.append(
            Row("code", f"ten tasks, {what}: programs", program[place], unit, program[place] / direct[place])
        )
    return rows


if __name__ == "__main__":
    for row in code(quick=True):
        print(row)
