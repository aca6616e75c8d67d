"""The means of one run of a flow: waiting, threads for blocking code, and notes."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

from spindle.threads import in_thread

T = TypeVar("T")
R = TypeVar("R")


class Notes(Protocol):
    """Follows a run node by node. A `node` is a `BaseNode`, whose module builds on this one."""

    async def visit(self, node: Any, shared: Any, running: RunContext) -> Any:
        """Runs the node and returns its action."""
        ...

    async def remember(self, node: Any, given: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the result of `make`, or its result from when this run was at the same place before."""
        ...

    def fork(self, place: str, at: str) -> Any:
        """Returns the notes of the branches of a fork (`ForkNotes`), which meet at this node."""
        ...


class RunContext:
    """One run. `blocking`: everything happens in the thread of the caller, who has no event loop;
    awaitables are awaited on a loop that lives as long as the run."""

    def __init__(self, *, blocking: bool = False, notes: Notes | None = None, host: Any = None) -> None:
        self.blocking = blocking
        self.notes = notes
        self.host = host
        """The object through which tools are called; None outside a workspace."""
        self._loop: asyncio.Runner | None = None

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()

    async def settled(self, value: Any) -> Any:
        """Returns the value, awaited if it is awaitable."""
        return await self.waits_for(value) if hasattr(value, "__await__") else value

    def waits_for(self, value: Awaitable[T]) -> Awaitable[T]:
        """Returns what to await here for something awaitable."""
        return self._on_own_loop(value) if self.blocking else value

    async def _on_own_loop(self, value: Awaitable[T]) -> T:
        if self._loop is None:
            if asyncio._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage] - without raising
                if inspect.iscoroutine(value):
                    value.close()
                raise RuntimeError("this flow has async nodes: use `await flow.run_async(shared)` here")
            self._loop = asyncio.Runner()
        return self._loop.run(_awaited(value))

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of a node's method: awaited if it is async, else called in a thread."""
        if self.blocking or is_async(function):
            value = function(*arguments)
            return await self.waits_for(value) if hasattr(value, "__await__") else value
        value = await in_thread(functools.partial(function, *arguments), "spindle-node")
        return await value if hasattr(value, "__await__") else value

    async def sleep(self, seconds: float) -> None:
        if self.blocking:
            time.sleep(seconds)  # noqa: ASYNC251 - whoever calls `run` wants to wait
        else:
            await asyncio.sleep(seconds)

    async def each(
        self, work: Callable[[RunContext, Any], Awaitable[R]], items: Iterable[Any], limit: int
    ) -> list[R]:
        """Does `work` for all items, several at a time."""
        if not self.blocking:
            return await map_concurrent(functools.partial(work, self), items, limit)
        beside = RunContext(notes=self.notes, host=self.host)
        return await self.settled(map_concurrent(functools.partial(work, beside), items, limit))


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def is_async(function: Callable[..., Any]) -> bool:
    """True if the function is a coroutine function."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    return bool(code is not None and code.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(
        plain
    )


async def map_concurrent(
    function: Callable[[T], Awaitable[R]], items: Iterable[T] | AsyncIterable[T], limit: int = 10
) -> list[R]:
    """Returns `function` of each item, in the order of the items, with at most `limit` at a time. If one
    raises, no other is begun, those that run are cancelled, and the error is raised here."""
    if limit < 1:
        raise ValueError("limit must be at least 1")
    results: dict[int, R] = {}
    source = aiter(items) if isinstance(items, AsyncIterable) else _iterate(items)
    taking = asyncio.Lock()
    taken = 0

    async def worker() -> None:
        nonlocal taken
        while True:
            async with taking:
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                index, taken = taken, taken + 1
            results[index] = await function(item)

    known = len(cast("list[T]", items)) if isinstance(items, (list, tuple)) else limit
    workers = [asyncio.create_task(worker()) for _ in range(min(limit, known))]
    try:
        done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION) if workers else ((), ())
        # The first in order of the items that failed by itself, not by being cancelled.
        failed = [task for task in workers if task in done and not task.cancelled() and task.exception()]
        for task in failed[:1]:
            await task
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[index] for index in range(len(results))]


async def _iterate(items: Iterable[T]) -> AsyncGenerator[T]:
    for item in items:
        yield item
