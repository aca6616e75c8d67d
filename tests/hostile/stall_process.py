"""A process that works on runs until it is killed, for tests that stop, kill and confuse it.

stall_process.py WORKSPACE LEASE LOG: says its owner's id; LOG gets a line of JSON for each outcome that it
was told. SIGUSR1 sets its time of day a minute ahead, SIGUSR2 a minute back.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

jumped = 0.0
_time_of_day = time.time


def now() -> float:
    return _time_of_day() + jumped


def jump(number: int, _frame: object) -> None:
    global jumped
    jumped += 60.0 if number == signal.SIGUSR1 else -60.0


signal.signal(signal.SIGUSR1, jump)
signal.signal(signal.SIGUSR2, jump)
time.time = now

import spindle  # noqa: E402 - all that it binds must be the clock that jumps
from spindle.calls.caller import Clock  # noqa: E402
from spindle.errors import RunLostError, SpindleError, StoreError  # noqa: E402

AT_ONCE = 8
LOOK_AGAIN = 0.05


class Worker:
    def __init__(self, app: spindle.Spindle, log: int) -> None:
        self._app = app
        self._log = log
        self._working: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        while True:
            await self._begin_some()
            await asyncio.sleep(LOOK_AGAIN)

    async def _begin_some(self) -> None:
        try:
            runs = await self._app.store.runs(limit=-1)
            asked = await self._app.pauses()
            tokens = {pause.run_id: pause.token for pause in asked if pause.kind == "input"}
        except StoreError as error:  # a process that was stopped in the middle of a write holds the file
            self._say(store=error.message)
            return
        left = [run for run in runs if run.status not in ("done", "failed")]
        random.shuffle(left)
        for run in left:
            if len(self._working) >= AT_ONCE:
                break
            if run.id in self._working:
                continue
            if run.id in tokens:
                self._begin(run.id, self._app.resume(tokens[run.id], "go"))
            elif run.status == "running" and (run.lease or 0.0) <= 0:
                self._begin(run.id, self._app.resume(run.id))

    def _begin(self, run: str, resuming: Coroutine[Any, Any, spindle.Outcome]) -> None:
        self._working.add(run)
        task = asyncio.create_task(self._told(run, resuming))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _told(self, run: str, resuming: Coroutine[Any, Any, spindle.Outcome]) -> None:
        try:
            outcome = await resuming
        except RunLostError:
            self._say(lost=run)
        except SpindleError as error:  # most often that another process was faster
            self._say(refused=run, why=f"{error.category}: {error.message}")
        else:
            if isinstance(outcome, spindle.Finished):
                self._say(finished=run, value=outcome.result.structured)
        finally:
            self._working.discard(run)

    def _say(self, **what: Any) -> None:
        os.write(self._log, json.dumps(what).encode() + b"\n")


async def main(root: str, lease: str, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    async with spindle.open(root, clock=Clock(now=now), note=lambda _: None) as app:
        app.runner._executions.leases.seconds = float(lease)
        print(app.runner._executions.owner, flush=True)
        await Worker(app, file).work()


asyncio.run(main(*sys.argv[1:]))
