"""Turns on Temporal: each is a workflow with one activity, in a task queue for each queue.

Temporal is told ids only: the id of a run and the number of its turn. Everything else stays in the store.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.domain.engine import QueueConfig, TemporalConfig
from spindle.engines.notes import quiet
from spindle.engines.temporal_tls import tls_fault, tls_of
from spindle.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
    SpindleError,
)
from spindle.ports.engine import EngineWorker, RunTurn, queue_of

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.runtime import Runtime
    from temporalio.service import RPCError

    from spindle.ports.source import Note

WORKFLOW = "turn"
LOGGER = "temporalio"
ANSWER = timedelta(seconds=10)
"""In which the server answers, or counts as lost."""
TASK = timedelta(seconds=3)
"""In which a worker says what a turn does next. Nothing is executed meanwhile: one that has died with it is
noticed then."""
LOOK = 5.0
"""Seconds after which a worker looks if the server is there."""
ASKED_AT_ONCE = 100
LEVELS = ((100, 2), (101, 3), (200, 4))
"""Temporal's levels of priority: each has the priorities below a number, the last one, 5, has the others. The
first, 1, is for turns that have lost their worker."""

_REASON = re.compile(r'(?:message|error): "([^"]{1,300})"')
"""Finds what is worth reading in the library's errors, which show its own structures."""

_runtime: Runtime | None = None
"""The threads of Temporal's library. One process needs them once."""


def _keep_for_ever(value: object) -> None:
    """Has Python never release an object, not even when it ends. The end of Temporal's threads waits for all
    of them, and one that has an answer for Python then waits for ever: so would the process."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def level_of(priority: int) -> int:
    """Returns Temporal's level of a priority, from 2, which is first, to 5."""
    return next((level for below, level in LEVELS if priority < below), 5)


class TemporalEngine:
    """Keeps turns in Temporal. It is connected to when it is first needed."""

    def __init__(
        self, config: TemporalConfig, root: Path, queues: Mapping[str, QueueConfig], note: Note
    ) -> None:
        self._config = config
        self._root = root
        self._queues = queues
        self._note = note
        self._opening = asyncio.Lock()
        self._client: Client | None = None

    @property
    def queues(self) -> Mapping[str, QueueConfig]:
        return self._queues

    def queue(self, name: str) -> QueueConfig:
        return queue_of(self._queues, name)

    async def check(self) -> None:
        await self._connected()

    async def submit(self, turn: RunTurn) -> None:
        from temporalio.common import Priority, WorkflowIDReusePolicy
        from temporalio.exceptions import WorkflowAlreadyStartedError
        from temporalio.service import RPCError

        client = await self._connected()
        delay = 0.0 if turn.not_before is None else turn.not_before - time.time()
        try:
            await client.start_workflow(
                WORKFLOW,
                args=[turn.run, turn.number, self._config.dead_after],
                id=self._id(turn.id),
                task_queue=self._task_queue(turn.queue),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                priority=Priority(priority_key=level_of(turn.priority)),
                start_delay=timedelta(seconds=delay) if delay > 0 else None,
                task_timeout=TASK,
                rpc_timeout=ANSWER,
            )
        except WorkflowAlreadyStartedError:
            pass  # the same turn
        except RPCError as error:
            raise self._told(error) from None

    async def unfinished(self, turns: Collection[str]) -> set[str]:
        from temporalio.service import RPCError

        client = await self._connected()
        asked, found = list(turns), set[str]()
        try:
            for start in range(0, len(asked), ASKED_AT_ONCE):
                chunk = asked[start : start + ASKED_AT_ONCE]
                ids = ", ".join(f"'{self._id(turn)}'" for turn in chunk)
                query = f"ExecutionStatus = 'Running' AND WorkflowId IN ({ids})"
                running = {found.id async for found in client.list_workflows(query, rpc_timeout=ANSWER)}
                known = {turn for turn in chunk if self._id(turn) in running}
                # A list may be a moment old, so those that it lacks are asked for one by one.
                rest = [turn for turn in chunk if turn not in known]
                is_running = await asyncio.gather(*(self._is_running(client, turn) for turn in rest))
                found |= known | {turn for turn, runs in zip(rest, is_running, strict=True) if runs}
        except RPCError as error:
            raise self._told(error) from None
        return found

    async def _is_running(self, client: Client, turn: str) -> bool:
        from temporalio.client import WorkflowExecutionStatus
        from temporalio.service import RPCError, RPCStatusCode

        try:
            found = await client.get_workflow_handle(self._id(turn)).describe(rpc_timeout=ANSWER)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status == WorkflowExecutionStatus.RUNNING

    async def cancel(self, turn: str) -> None:
        from temporalio.service import RPCError, RPCStatusCode

        client = await self._connected()
        try:
            # Not `cancel`, which would wait for a worker to hear of it.
            await client.get_workflow_handle(self._id(turn)).terminate(reason="cancelled", rpc_timeout=ANSWER)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # it is over, or there was none
                raise self._told(error) from None

    async def work(self, worker: EngineWorker) -> None:
        from spindle.engines.temporal_worker import work

        client = await self._connected()
        queues = {self._task_queue(name): self._queues[name] for name in worker.queues}
        watching = asyncio.create_task(self._watch(client), name="watching over Temporal")
        try:
            await work(client, worker, queues, self._config.dead_after)
        finally:
            watching.cancel()

    async def _watch(self, client: Client) -> None:
        """Tells when the server is away, and when it is back. Turns in hand go on meanwhile."""
        from temporalio.service import RPCError

        is_away = False
        while True:
            await asyncio.sleep(LOOK)
            try:
                await client.service_client.check_health(timeout=ANSWER)
            except (RPCError, RuntimeError) as error:
                if not is_away:
                    self._note(f"{self._unreachable(str(error)).message}; its turns wait")
                is_away = True
            else:
                if is_away:
                    self._note(f"Temporal at {self._config.address} is back")
                is_away = False

    async def close(self) -> None:
        # It has no end of its own: its connections end when nobody has it any more.
        self._client = None

    def _id(self, turn: str) -> str:
        return f"{self._config.prefix}.{turn}"

    def _task_queue(self, queue: str) -> str:
        return f"{self._config.prefix}.{queue}"

    # --- connecting

    async def _connected(self) -> Client:
        async with self._opening:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        global _runtime  # noqa: PLW0603 - threads are made once
        quiet(LOGGER, self._note)
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.client import Client
        from temporalio.runtime import Runtime, TelemetryConfig
        from temporalio.service import RPCError

        if _runtime is None:
            # Its own threads log nothing: they would wait for Python, also when that ends. See `_watch`.
            _runtime = Runtime(telemetry=TelemetryConfig(logging=None, metrics=None))
            _keep_for_ever(_runtime)
        config, key = self._config, self._config.api_key
        try:
            async with asyncio.timeout(ANSWER.total_seconds()):
                client = await Client.connect(
                    config.address,
                    namespace=config.namespace,
                    api_key=key.get_secret_value() if key is not None else None,
                    tls=tls_of(config, self._root),
                    runtime=_runtime,
                )
                asked = DescribeNamespaceRequest(namespace=config.namespace)
                await client.workflow_service.describe_namespace(asked, timeout=ANSWER)
        except RPCError as error:
            raise self._told(error) from None
        except (RuntimeError, TimeoutError) as error:
            raise self._unreachable(str(error)) from None
        return client

    def _unreachable(self, why: str) -> SpindleError:
        fault = tls_fault(why, self._config)
        if fault is not None:
            said, hint = fault
            return ConnectionFailedError(
                f"Temporal at {self._config.address} cannot be reached: {said}", hint=hint
            )
        quoted = _REASON.findall(why)
        said = f": {quoted[-1]}" if quoted else ""
        return ConnectionFailedError(
            f"Temporal at {self._config.address} cannot be reached{said}",
            hint="see that it runs, and that `address` and `tls` of [engine.temporal] are right",
        )

    def _told(self, error: RPCError) -> SpindleError:
        from temporalio.service import RPCStatusCode as Code

        said = error.message
        if error.status in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED):
            return self._unreachable(said)
        if error.status in (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED):
            return AuthError(
                f"Temporal at {self._config.address} refused this workspace: {said}",
                hint="see `api_key`, or `certificate` and `key`, of [engine.temporal]",
            )
        if error.status == Code.NOT_FOUND:
            return ConfigurationError(
                f"Temporal at {self._config.address} has no namespace {self._config.namespace!r}",
                hint="create it, or name another one as `namespace` of [engine.temporal]",
            )
        return ServerError(f"Temporal at {self._config.address} answered: {said}")
