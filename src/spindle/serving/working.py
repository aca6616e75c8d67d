"""A worker: executes submitted runs, and watches over those that nobody has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from spindle.catalog.version import FRESH_IN_WORKER
from spindle.errors import SpindleError
from spindle.ports.engine import EngineWorker
from spindle.serving.trigger_listeners import triggered_meanwhile
from spindle.serving.waiting import continued_meanwhile

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.source import Note

LOOK: Final = 2.0
"""Seconds between two looks for runs that nobody has."""
LOOK_IF_EMPTY: Final = 0.2
PATIENCE: Final = 20.0
"""Seconds that steps in flight have to end when a worker is stopped."""


async def work(
    app: Spindle,
    queues: Collection[str],
    concurrency: int | None,
    note: Note,
    *,
    until_empty: bool = False,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Executes runs of these queues until it is cancelled, or with `until_empty` until none waits that may
    begin. When it is cancelled, steps in flight end, and other workers go on with the runs."""
    submissions = app.runner.submissions
    for name in queues:
        submissions.engine.queue(name)  # raises if there is no such queue
    submissions.begin()
    app.catalog.stored_version.fresh = FRESH_IN_WORKER
    worker = EngineWorker(
        app.runner.owner,
        submissions.execute,
        queues,
        concurrency,
        on_ready,
        lambda: submissions.takes_turns,
    )
    async with continued_meanwhile(app, note), triggered_meanwhile(app, note):
        working = asyncio.create_task(submissions.engine.work(worker), name="worker")
        tasks = [
            working,
            asyncio.create_task(_watch(app, note), name="watching over runs"),
            asyncio.create_task(app.flows.schedules.watch(note), name="ticks of schedules"),
        ]
        if until_empty:
            tasks.append(asyncio.create_task(_until_empty(app, queues), name="until there is nothing to do"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await submissions.stop(PATIENCE)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
        for ended in done:
            if isinstance(ended, Exception):
                raise ended


async def _until_empty(app: Spindle, queues: Collection[str]) -> None:
    while True:
        await asyncio.sleep(LOOK_IF_EMPTY)
        waiting = [await app.store.queued(name, due_by=time.time()) for name in queues]
        if any(waiting) or app.runner.submissions.is_busy or await app.flows.schedules.is_due():
            continue
        return


async def _watch(app: Spindle, note: Note) -> None:
    """Watches over runs that nobody has. Raises StoreError when a newer Spindle has taken over the store."""
    while True:
        newer = None
        try:
            newer = await app.store.newer()
            count = await app.runner.submissions.recover()
            if count:
                note(f"queued {count} {'run' if count == 1 else 'runs'} again that nobody had")
        except SpindleError as error:
            note(f"runs that nobody has could not be looked for: {error.message}")
        if newer is not None:
            raise newer
        await asyncio.sleep(LOOK)
