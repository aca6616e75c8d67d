"""Requests that came to this process and are another's to answer: it is asked, and heard to the end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.bounded import BoundedMap
from spindle.errors import ConnectionFailedError

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.serving.processes import Processes

logger = logging.getLogger("spindle.serve")

TAKEN_WITHIN: Final = 3.0
"""Seconds in which a process must take a request over. It has not seen one that it did not take."""
LOOK_EVERY: Final = 5.0
"""Seconds between looks at whether the other process still gives signs of life."""
MAX_RELAYS: Final = 1000
MAX_WAITING: Final = 10_000
"""Messages that wait for whoever asked. One that does not read them is given up."""

Say = Callable[["JsonObject"], Awaitable[None]]
"""Says something to the process that asked."""
Answer = Callable[["JsonObject", Say], Awaitable[None]]
"""Answers a request of another process. When it returns, all has been said."""


class Relays:
    """The requests that this process has made of others, and those that others make of it."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._asked: BoundedMap[str, asyncio.Queue[JsonObject]] = BoundedMap(MAX_RELAYS)
        self._answers: dict[str, Answer] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        processes.on("asked", self._answer)
        processes.on("said", self._said)
        processes.on("left", self._left)

    def on(self, kind: str, answer: Answer) -> None:
        """Has requests of this kind answered."""
        self._answers[kind] = answer

    async def ask(self, process: str, kind: str, body: JsonObject) -> AsyncGenerator[JsonObject] | None:
        """All that another process says to a request. None if it is gone: the request has had no effect.
        Raises ConnectionFailedError if it goes later."""
        if await self._processes.has_left(process):
            return None
        name = secrets.token_hex(8)
        queue: asyncio.Queue[JsonObject] = asyncio.Queue()
        self._asked[name] = queue
        with self._processes.expecting():
            sent = await self._processes.send(process, "asked", {"relay": name, "kind": kind, "body": body})
            try:
                async with asyncio.timeout(TAKEN_WITHIN):
                    await queue.get()
            except TimeoutError:
                if await self._processes.take_back(sent):
                    self._asked.pop(name, None)
                    return None
        return self._heard(process, name, queue)

    async def _heard(
        self, process: str, name: str, queue: asyncio.Queue[JsonObject]
    ) -> AsyncGenerator[JsonObject]:
        ended = False
        try:
            with self._processes.expecting():
                while not ended:
                    try:
                        async with asyncio.timeout(LOOK_EVERY):
                            said = await queue.get()
                    except TimeoutError:
                        if process not in self._processes.others:
                            raise ConnectionFailedError("the process that did the work is gone") from None
                        continue
                    ended = "end" in said
                    if not ended and said:
                        yield said
        finally:
            self._asked.pop(name, None)
            if not ended:
                await self._processes.send(process, "left", {"relay": name})

    def _said(self, _: str, body: JsonObject) -> None:
        queue = self._asked.get(body["relay"])
        if queue is not None and queue.qsize() < MAX_WAITING:
            queue.put_nowait(body["said"])

    def _answer(self, sender: str, body: JsonObject) -> None:
        key = sender, str(body["relay"])
        self._tasks[key] = task = asyncio.create_task(self._answered(*key, body))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def _left(self, sender: str, body: JsonObject) -> None:
        task = self._tasks.get((sender, str(body["relay"])))
        if task is not None:
            task.cancel()

    async def _answered(self, sender: str, name: str, body: JsonObject) -> None:
        async def say(said: JsonObject) -> None:
            await self._processes.send(sender, "said", {"relay": name, "said": said})

        with self._processes.expecting():
            await say({})
            try:
                await self._answers[body["kind"]](body["body"], say)
            except Exception:
                logger.exception("what another process asked for failed")
            await say({"end": True})

    async def close(self) -> None:
        """Ends what is done for others."""
        tasks: list[asyncio.Task[Any]] = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
