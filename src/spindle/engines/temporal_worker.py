"""The worker's side of Temporal: the workflow of a turn, its activity, and the signs of life."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import activity, workflow
from temporalio.bridge.proto import ActivityHeartbeat
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory
from temporalio.worker import Worker

from spindle.ports.engine import turn_id

if TYPE_CHECKING:
    from temporalio.client import Client

    from spindle.domain.engine import QueueConfig
    from spindle.ports.engine import EngineWorker

BEATS = 4
"""Signs of life in the time after which a worker without any counts as dead."""
ONCE = RetryPolicy(maximum_attempts=1)
"""Temporal would put a turn that has lost its worker behind all that wait."""
FIRST = Priority(priority_key=1)
"""Of turns that have lost their worker. No other turn is given this level."""
MOST_LOST = 1000
"""Workers that a turn may lose. After five without a step between the run fails, so this is for the servers
that lose them themselves; then whoever watches over the runs submits another turn."""
LONGEST = timedelta(days=3650)
"""Temporal wants a limit. How long a run may take is its queue's `timeout`."""
LOOK = 0.2
"""Seconds after which a worker looks if it may still take turns."""
ENDING = 10.0
"""Seconds in which a worker that ends tells the server of it."""


@workflow.defn(name="turn", sandboxed=False)
class TurnWorkflow:
    """A turn, as Temporal knows it."""

    @workflow.run
    async def run(self, run: str, number: int, dead_after: float) -> None:
        """Has a worker execute it, and another one if that is lost, or has ended."""
        priority = workflow.info().priority
        for _ in range(MOST_LOST):
            try:
                await workflow.execute_activity(
                    "execute",
                    args=[run, number],
                    start_to_close_timeout=LONGEST,
                    heartbeat_timeout=timedelta(seconds=dead_after),
                    retry_policy=ONCE,
                    priority=priority,
                )
            except ActivityError:
                priority = FIRST
            else:
                return


class Pulse:
    """The signs of life of one Temporal worker, for each turn in hand.

    They come from a thread, so that a worker whose event loop is busy is not taken for dead. The library
    sends them only from the loop, hence the way past it.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self.worker: Worker | None = None
        self._tokens: set[bytes] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="spindle-pulse", daemon=True)

    @contextlib.contextmanager
    def beating(self) -> Generator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            # The library may hold the thread while its server is away, and a worker that ends must end.
            self._thread.join(ENDING)

    @contextlib.contextmanager
    def of(self, token: bytes) -> Generator[None]:
        """Has the turn with this token shown as alive."""
        self._tokens.add(token)
        try:
            yield
        finally:
            self._tokens.discard(token)

    def _beat(self) -> None:
        while not self._is_over.wait(self._every):
            for token in tuple(self._tokens):
                assert self.worker is not None
                bridge = self.worker._bridge_worker  # pyright: ignore[reportPrivateUsage]
                bridge.record_activity_heartbeat(ActivityHeartbeat(task_token=token))


class TurnActivities:
    """Executes the turns of one queue."""

    def __init__(self, worker: EngineWorker, pulse: Pulse) -> None:
        self._worker = worker
        self._pulse = pulse
        self._in_hand: dict[str, asyncio.Task[None]] = {}
        self._is_over = False

    def end(self) -> None:
        """Cancels the turns in hand: others get them."""
        self._is_over = True
        for task in self._in_hand.values():
            task.cancel()

    @activity.defn(name="execute")
    async def execute(self, run: str, number: int) -> None:
        """Executes a turn. A second one of the same, from a server that was away and took us for dead, waits
        for the first: then it finds nothing to do, or that another worker has taken the run."""
        id = turn_id(run, number)
        with self._pulse.of(activity.info().task_token):
            while earlier := self._in_hand.get(id):
                await self._ended(earlier)
            task = asyncio.ensure_future(self._worker.execute(run, number))
            self._in_hand[id] = task
            try:
                await self._ended(task)
            finally:
                del self._in_hand[id]
        if task.cancelled():
            raise ApplicationError("the worker has ended", category=ApplicationErrorCategory.BENIGN)
        if (error := task.exception()) is not None:
            # It is over all the same: whoever watches over the runs submits another.
            activity.logger.warning("turn %s could not be executed: %s", id, error)

    async def _ended(self, task: asyncio.Task[None]) -> None:
        """Waits for an execution. Only the end of this worker cancels it: if the run is still ours is not for
        a server to say that has given it up, but for the store."""
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                if self._is_over:
                    task.cancel()


async def work(
    client: Client, worker: EngineWorker, queues: Mapping[str, QueueConfig], dead_after: float
) -> None:
    """Executes turns of these queues, given by the names of their task queues, until it is cancelled."""
    async with contextlib.AsyncExitStack() as stack:
        takers: dict[asyncio.Task[None], Worker] = {}
        for name, queue in queues.items():
            taking = _taking(client, worker, name, queue, dead_after / BEATS)
            taker, running = await stack.enter_async_context(taking)
            takers[running] = taker
        if worker.on_ready is not None:
            worker.on_ready()
        while worker.may_take():
            done, _ = await asyncio.wait(takers, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        # They take no more, and wait for the turns in hand until all of this is cancelled.
        await asyncio.gather(*(taker.shutdown() for taker in takers.values()))


@contextlib.asynccontextmanager
async def _taking(
    client: Client, worker: EngineWorker, task_queue: str, queue: QueueConfig, beat: float
) -> AsyncGenerator[tuple[Worker, asyncio.Task[None]]]:
    pulse = Pulse(beat)
    activities = TurnActivities(worker, pulse)
    most = min(queue.concurrency, worker.concurrency or queue.concurrency)
    taking = Worker(
        client,
        task_queue=task_queue,
        identity=worker.id,
        workflows=[TurnWorkflow],
        activities=[activities.execute],
        max_concurrent_activities=most,
        max_task_queue_activities_per_second=queue.rate and queue.rate.calls / queue.rate.seconds,
        # Whoever has a turn's workflow would be asked first what comes next, and may have died with it.
        max_cached_workflows=0,
        max_heartbeat_throttle_interval=timedelta(seconds=beat),
        default_heartbeat_throttle_interval=timedelta(seconds=beat),
        # A worker that executes nothing yet would go before turns of a smaller priority that wait.
        disable_eager_activity_execution=True,
    )
    pulse.worker = taking
    with pulse.beating():
        running = asyncio.create_task(taking.run(), name=f"turns of {task_queue}")
        try:
            yield taking, running
        finally:
            activities.end()
            running.cancel()
            await asyncio.wait({running}, timeout=ENDING)
