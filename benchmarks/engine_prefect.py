"""A process of `engine.py` that runs in Prefect's own environment: `engine_prefect.py COUNT`.

Executes runs of a flow of three tasks, whose states and results are kept, twenty at once, and prints a line
for each: when it ended, and the seconds of CPU that the process has used.
"""

from __future__ import annotations

import asyncio
import sys
import time

from prefect import flow, task

AT_ONCE = 20


@task(persist_result=True)
async def same(text: str) -> str:
    return text


@flow(persist_result=True)
async def three(text: str) -> str:
    for _ in range(3):
        text = await same(text)
    return text


async def main(count: int) -> None:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with free:
            await three(f"t{number}")
            print(time.time(), time.process_time(), flush=True)

    await asyncio.gather(*(one(number) for number in range(count)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
