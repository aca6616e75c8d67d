"""A workspace whose tools wait for people, and users who may or may not answer."""

from __future__ import annotations

from pathlib import Path

from servers.rest import RestWorkspace

TOOLS = '''
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from spindle import Context, tool

HERE = Path(__file__).parent


class Line(BaseModel):
    item: str
    count: int = 1


class Order(BaseModel):
    customer: str
    lines: list[Line] = []
    express: bool | None = None


@tool(destructive=True)
def order(order: Order, note: str | None = None) -> str:
    """Order things, once somebody has agreed."""
    (HERE / "ordered.json").write_text(order.model_dump_json())
    return f"ordered {sum(line.count for line in order.lines)} for {order.customer}"


class Table(BaseModel):
    place: str
    seats: int
    when: Literal["noon", "evening"] = "noon"


@tool
async def lunch(context: Context) -> str:
    """Asks where to eat."""
    table = context.ask("Where do we eat?", Table)
    return f"{table.seats} at {table.place}, {table.when}"
'''

SETTINGS = """\
[sources.tools]
approve = ["order"]
approvers = ["group:ops"]

[serve]
console = true

[serve.tokens]
ann = { token = "token-of-ann" }
bob = { token = "token-of-bob", groups = ["ops"] }
cat = { token = "token-of-cat", groups = ["ops"] }
eve = { token = "token-of-eve" }
"""

ORDER = {"order": {"customer": "ann", "lines": [{"item": "tea", "count": 2}]}}


def asking(root: Path) -> RestWorkspace:
    """Makes the workspace."""
    rest = RestWorkspace(root)
    (rest.root / "tools" / "asks.py").write_text(TOOLS)
    rest.settings(SETTINGS)
    return rest
