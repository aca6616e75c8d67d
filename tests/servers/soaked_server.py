"""A workspace that is served over MCP and REST by one process, which says how much it holds whenever it is
sent a line: soaked_server.py FOLDER."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from collections import deque
from pathlib import Path

import spindle
from spindle import settings as settings_module
from spindle.listening.server import listen
from spindle.mcp_server.serve import run_http
from spindle.rest.app import make_app
from spindle.serving.access import ServingAccess
from spindle.serving.pruning import pruned_meanwhile
from spindle.serving.server import serve

CONTAINERS = (dict, list, set, deque)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def held(root: Path) -> dict[str, int]:
    """Memory in kB, descriptors, tasks, threads, objects, bytes of the state, and the largest container."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    objects = gc.get_objects()
    return {
        "memory": int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "objects": len(objects),
        "largest": max(len(item) for item in objects if type(item) in CONTAINERS and item is not objects),
        "state": size_of(root / ".spindle"),
    }


async def main(root: Path) -> None:
    note = lambda text: print(text, file=sys.stderr)  # noqa: E731
    settings = settings_module.load(root)
    config = settings.serve()
    mcp_access, rest_access = ServingAccess.of(config), ServingAccess.of(config)
    async with spindle.open(root, visible=mcp_access.shows, note=note) as app:
        await app.sync()
        with listen("127.0.0.1", 0) as mcp, listen("127.0.0.1", 0) as rest:
            served = [
                asyncio.create_task(run_http(app, mcp_access, mcp)),
                asyncio.create_task(
                    serve(make_app(app, rest_access), rest, lambda: rest_access.config, lambda: None)
                ),
            ]
            urls = {
                name: f"http://127.0.0.1:{item.getsockname()[1]}"
                for name, item in (("mcp", mcp), ("rest", rest))
            }
            print(json.dumps(urls), flush=True)
            async with pruned_meanwhile(app, note):
                while await asyncio.to_thread(sys.stdin.readline):
                    print(json.dumps(held(root)), flush=True)
            for task in served:
                task.cancel()
            await asyncio.gather(*served, return_exceptions=True)


asyncio.run(main(Path(sys.argv[1])))
