"""A catalog of many tools, in a fresh process: `catalog_worker.py sync|open|search FOLDER`."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from pathlib import Path

QUERIES = [
    "read file", "create an issue", "search", "delete branch in project 4242", "list_table_00011",
    "message channel", "owner", "update the row of a table", "a", "returns what was found", "nothing like it",
    "write user query place",
]  # fmt: skip


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def sync(folder: str) -> dict[str, float]:
    import spindle

    async with spindle.open(folder) as s:
        wall, cpu = time.perf_counter(), time.process_time()
        (report,) = await s.sync()
        assert report.error is None, report.error
        return {
            "tools": report.tools,
            "s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
        }


async def open_and_find(folder: str) -> dict[str, float]:
    import spindle

    async with spindle.open(Path(folder) / ".."):  # loads the code; only the catalog is to be measured
        pass
    before, wall = rss_mb(), time.perf_counter()
    async with spindle.open(folder) as s:
        tool = await s.show("echo.echo")
        assert tool.name == "echo.echo"
        return {"ms": (time.perf_counter() - wall) * 1e3, "mb": rss_mb() - before}


async def search(folder: str) -> dict[str, float]:
    import spindle

    times: list[float] = []
    async with spindle.open(folder) as s:
        await s.search("warm up")
        for query in QUERIES * 5:
            began = time.perf_counter()
            await s.search(query)
            times.append((time.perf_counter() - began) * 1e3)
    by_query = [min(times[place :: len(QUERIES)]) for place in range(len(QUERIES))]
    return {"median_ms": statistics.median(times), "worst_ms": max(by_query)}


if __name__ == "__main__":
    actions = {"sync": sync, "open": open_and_find, "search": search}
    print(json.dumps(asyncio.run(actions[sys.argv[1]](sys.argv[2]))))
