"""Temporal alone, for `engine_worker.py`: a workflow of three activities, in a module of its own."""

from __future__ import annotations

import sys
import time
import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

QUEUE = "bench"
LIMIT = timedelta(seconds=60)


@activity.defn
async def same(text: str) -> str:
    return text


@workflow.defn(name="three", sandboxed=False)
class Three:
    @workflow.run
    async def run(self, text: str) -> str:
        for _ in range(3):
            text = await workflow.execute_activity(same, text, start_to_close_timeout=LIMIT)
        # The line comes before the server notes the end.
        # In one piece: workflows run in threads, and a printed line comes in several.
        sys.stdout.write(f"{time.time()} {time.process_time()}\n")
        sys.stdout.flush()
        return text


async def submitter(address: str, namespace: str) -> Any:
    client = await Client.connect(address)

    async def submit(number: int) -> None:
        await client.start_workflow(
            "three", f"t{number}", id=uuid.uuid4().hex, task_queue=f"{QUEUE}-{namespace}"
        )

    return submit


async def worker(address: str, namespace: str, at_once: int) -> Worker:
    return Worker(
        await Client.connect(address),
        task_queue=f"{QUEUE}-{namespace}",
        workflows=[Three],
        activities=[same],
        max_concurrent_activities=at_once,
    )
