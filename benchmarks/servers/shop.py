"""shop.py PORT [code]: the MCP server over HTTP that has the tools of `code_mode.py`, and others that no task
needs; with FastMCP's code mode, if asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

ORDERS = 20
OTHERS = 30
"""Tools that no task needs, as in every catalog."""


def orders() -> list[dict[str, Any]]:
    return [
        {
            "id": n, "customer": n % 5, "item": f"item-{n % 7}", "count": n % 4 + 1, "total": 10.5 * n,
            "state": "late" if n % 3 == 0 else "open", "note": f"order number {n}, as agreed by phone",
        }
        for n in range(ORDERS)
    ]  # fmt: skip


def list_orders() -> list[int]:
    """List the ids of all orders."""
    return [order["id"] for order in orders()]


def get_order(id: int) -> dict[str, Any]:
    """Get an order: customer, item, count, total, state."""
    return orders()[id]


def get_customer(id: int) -> dict[str, Any]:
    """Get a customer: name, city, credit."""
    return {"id": id, "name": f"customer {id}", "city": ["Ulm", "Graz"][id % 2], "credit": 100 * id}


def get_stock(item: str) -> dict[str, Any]:
    """Get how many of an item are in stock."""
    return {"item": item, "stock": int(item[-1]) * 3 % 7}


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


if __name__ == "__main__":
    from fastmcp import FastMCP

    server = FastMCP("shop")
    for tool in (list_orders, get_order, get_customer, get_stock, remind, *map(other, range(OTHERS))):
        server.tool(tool)
    if sys.argv[2:] == ["code"]:
        from fastmcp.experimental.transforms.code_mode import CodeMode

        server.add_transform(CodeMode())
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
