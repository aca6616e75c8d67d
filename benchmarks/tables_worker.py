"""A column of many tools beside the same as plain JSON, in a fresh process: `tables_worker.py COUNT`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spindle.domain.tool import Hints
from spindle.tables import ToolRow, open_rows, read_table, tool_table, write_table
from spindle.tables.rows_source import by_name


def tool(number: int) -> ToolRow:
    text = {"type": "string", "description": "A text that says what is wanted, in a sentence or two."}
    parameters = {
        "type": "object",
        "properties": {
            "query": text,
            "limit": {"type": "integer", "minimum": 1, "default": 10},
            "tags": {"type": "array", "items": {"type": "string"}},
            "order": {"type": "string", "enum": ["newest", "oldest", "best"]},
        },
        "required": ["query"],
    }
    return ToolRow.remote(
        f"server{number % 97}.tool_{number}",
        f"Finds things of sort {number} and returns those that fit best.",
        parameters,
        server_uri=f"https://server{number % 97}.example.com/mcp",
        remote_name=f"tool_{number}",
        output_schema={"type": "object", "properties": {"items": {"type": "array"}}},
        hints=Hints(read_only=True, open_world=False),
        source={"name": "server", "kind": "mcp", "settings": {"url": "https://server.example.com/mcp"}},
        fingerprint=hashlib.sha256(str(number).encode()).hexdigest(),
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


async def opened(rows: list[ToolRow]) -> int:
    async with open_rows(rows) as made:
        return len(made.left_out)


def main(count: int) -> dict[str, float]:
    rows = [tool(number) for number in range(count)]
    # What is loaded at the first use is not to be measured.
    tool_table(rows[:100])["tool"].to_pylist()
    ToolRow.from_dict(json.loads(json.dumps(rows[0].to_dict())))
    found: dict[str, float] = {}
    found["json_encode"], texts = timed(lambda: [json.dumps(row.to_dict()) for row in rows])
    found["encode"], table = timed(lambda: tool_table(rows))
    found["json_decode"], _ = timed(lambda: [json.loads(text) for text in texts])
    found["json_values"], _ = timed(lambda: [ToolRow.from_dict(json.loads(text)) for text in texts])
    found["decode"], back = timed(lambda: table["tool"].to_pylist())
    assert back == rows
    found["names"], named = timed(lambda: by_name(rows))
    assert len(named) == count
    found["open"], left = timed(lambda: asyncio.run(opened(rows)))
    assert left == 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tools.parquet")
        found["write"], _ = timed(lambda: write_table(table, file))
        found["read"], again = timed(lambda: read_table(file)["tool"].to_pylist())
        assert again == rows
        found["bytes"] = file.stat().st_size
    found["json_bytes"] = sum(len(text) for text in texts)
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
