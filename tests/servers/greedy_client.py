"""A client that calls a tool as fast as it can, from many tasks: greedy_client.py URL TOKEN TASKS. It ends
when its stdin does, and prints how many answers of each status it got."""

from __future__ import annotations

import asyncio
import collections
import json
import sys

import httpx2


async def main(url: str, token: str, tasks: int) -> None:
    statuses: collections.Counter[int] = collections.Counter()
    limits = httpx2.Limits(max_connections=tasks)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits) as http:

        async def call() -> None:
            while True:
                statuses[(await http.post("/tools/work", json={"text": "greedy"})).status_code] += 1

        calling = [asyncio.create_task(call()) for _ in range(tasks)]
        print("begun", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)
    print(json.dumps(statuses))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
