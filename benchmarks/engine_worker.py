"""A process of `engine.py`: `engine_worker.py ROLE ENGINE PLACE COUNT`.

`submit` submits COUNT runs and prints the seconds of CPU of one. `work` executes runs until its standard
input ends, and prints a line for each: when it ended, and the seconds of CPU that the process has used.
PLACE is the folder of a workspace for Spindle, the address of a database for DBOS alone, and for Temporal
alone that of its server, with a name for what belongs together.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

WARM = 10
"""Runs that are submitted before the measuring begins."""
AT_ONCE = 20
"""Runs that a worker executes at once."""
POLL = 0.2
"""Seconds after which a worker of DBOS looks for runs, which is what Spindle has set too."""

Submit = Callable[[int], Awaitable[Any]]
Execute = Callable[..., Awaitable[Any]]


def noted(execute: Execute) -> Execute:
    """Prints a line for each run that was executed."""

    async def executed(*words: Any) -> Any:
        outcome = await execute(*words)
        print(time.time(), time.process_time(), flush=True)
        return outcome

    return executed


async def _cpu_of(submit: Submit, count: int) -> None:
    for number in range(WARM):
        await submit(number)
    began = time.process_time()
    for number in range(WARM, count):
        await submit(number)
    print((time.process_time() - began) / (count - WARM), flush=True)


async def _until_told() -> None:
    await asyncio.to_thread(sys.stdin.read)


# --- Spindle


async def spindle(role: str, folder: str, count: int) -> None:
    import spindle as library
    from spindle.serving.working import work

    async with library.open(folder) as app:
        if role == "submit":
            await app.sync()
            await _cpu_of(lambda number: app.submit("three", {"text": f"t{number}"}), count)
            return
        if role == "local":
            free = asyncio.Semaphore(AT_ONCE)

            async def one(number: int) -> None:
                async with free:
                    await app.run_flow("three", {"text": f"t{number}"})

            await app.sync()
            await asyncio.gather(*(noted(one)(number) for number in range(count)))
            return
        submissions = app.runner.submissions
        submissions.execute = noted(submissions.execute)
        working = asyncio.create_task(work(app, ["default"], AT_ONCE, _note))
        await _until_told()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _note(text: str) -> None:
    print(text, file=sys.stderr)


# --- DBOS alone, with the same three calls as steps


async def same(text: str) -> str:
    return text


async def dbos(role: str, address: str, count: int) -> None:
    from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

    engine = database(address)
    if role == "submit":
        client = DBOSClient(
            system_database_engine=engine, serializer=DBOSPortableJSONSerializer(), application_name="bench"
        )
        client._sys_db.run_migrations()
        client.register_queue("default", worker_concurrency=AT_ONCE, polling_interval_sec=POLL)

        async def submit(number: int) -> None:
            options = {"workflow_name": "three", "queue_name": "default", "app_version": "1"}
            await client.enqueue_async(options, f"t{number}")

        await _cpu_of(submit, count)
        client.destroy()
        return
    DBOS(
        config={
            "name": "bench",
            "system_database_engine": engine,
            "application_version": "1",
            "executor_id": uuid.uuid4().hex,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            "log_level": "WARNING",
        }
    )
    step = DBOS.step(name="same")(same)

    async def three(text: str) -> str:
        for _ in range(3):
            text = await step(text)
        return text

    DBOS.workflow(name="three")(noted_workflow(three))
    DBOS.listen_queues(["default"])
    DBOS.launch()
    await _until_told()
    DBOS.destroy()


def noted_workflow(three: Callable[[str], Awaitable[str]]) -> Callable[[str], Awaitable[str]]:
    """As `noted`, with a signature that DBOS can store. The line comes before DBOS notes the end."""

    async def workflow(text: str) -> str:
        outcome = await three(text)
        print(time.time(), time.process_time(), flush=True)
        return outcome

    return workflow


def database(address: str) -> Any:
    """With the settings that make DBOS fast, which Spindle's engine has too."""
    import sqlalchemy
    from sqlalchemy import event

    if address.startswith("postgresql:"):
        import psycopg

        return sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(address), pool_size=5, max_overflow=0
        )
    engine = sqlalchemy.create_engine(
        f"sqlite:///{address}", pool_size=5, max_overflow=0, connect_args={"timeout": 30}
    )

    def set_up(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.isolation_level = "IMMEDIATE"

    event.listen(engine, "connect", set_up)
    return engine


# --- Temporal alone, with the same three calls as activities


async def temporal(role: str, place: str, count: int) -> None:
    import engine_temporal

    address, _, name = place.partition("/")
    if role == "submit":
        await _cpu_of(await engine_temporal.submitter(address, name), count)
        return
    async with await engine_temporal.worker(address, name, AT_ONCE):
        await _until_told()


def main() -> None:
    role, engine, place, count = sys.argv[1:]
    asyncio.run({"spindle": spindle, "dbos": dbos, "temporal": temporal}[engine](role, place, int(count)))
    if engine == "temporal":
        # Its threads may meet the end of Python, which then stands still or crashes.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
