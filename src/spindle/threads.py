"""Runs a user's code in threads beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

from spindle.giving_way import considerate

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
P = ParamSpec("P")


MANY_OBJECTS = 50_000
"""New objects through which the collector looks for 10 ms."""
MAX_IDLE = 8
IDLE_TIMEOUT = 30.0

_Jobs = queue.SimpleQueue[Callable[[], None]]
_idle: deque[_Jobs] = deque()
_executors: dict[str, ThreadPoolExecutor] = {}
"""By the name of their one thread; made at the first use, and again after a fork."""
_idling = threading.Lock()
time_of_source: contextvars.ContextVar[asyncio.Timeout | None] = contextvars.ContextVar(
    "time_of_source", default=None
)
"""The limit for the answers of a source. It stands still while they are read, or wait for their turn."""
_are_considerate = False


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Runs `work` in a thread of its own and returns its result, or raises its error.

    Not an executor: Python waits for an executor's threads before it exits, and a function that never
    ends would hold up a program whose call has long timed out.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def job() -> None:
        threading.current_thread().name = name
        value, problem = None, None
        try:
            value = context.run(work)
        except BaseException as error:  # noqa: BLE001 - a thread's top: handed to the one who waits
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits any more
            loop.call_soon_threadsafe(_settle, ended, (value, problem))

    _start(job)
    # As a value, because a future refuses to carry StopIteration.
    value, problem = await ended
    if problem is not None:
        raise problem
    return value  # pyright: ignore[reportReturnType] - there was no problem, so it is there


async def in_turn(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Runs bounded work on what came from outside in one thread that all share, one after the other.

    Threads that compute at the same time each make the event loop wait for its turn, again and again: six of
    them slow every call down, one that gives way is hardly noticed.
    """
    job = functools.partial(work, *arguments, **named)
    limit, loop = time_of_source.get(), asyncio.get_running_loop()
    end = limit.when() if limit is not None else None
    if limit is None or end is None:
        return await _in("spindle-reader", job)
    left = end - loop.time()
    limit.reschedule(None)
    try:
        return await _in("spindle-reader", job)
    finally:
        limit.reschedule(loop.time() + left)


async def in_short_turn(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The same for short work that a call waits for, in another thread: so no call ever waits for a document
    that takes seconds to read."""
    return await _in("spindle-large", functools.partial(work, *arguments, **named))


async def _in(name: str, work: Callable[[], T]) -> T:
    executor = _executors.get(name)
    if executor is None:
        from concurrent.futures import ThreadPoolExecutor

        executor = _executors[name] = ThreadPoolExecutor(1, name)
    job = functools.partial(_considerately, work)
    return await asyncio.get_running_loop().run_in_executor(executor, contextvars.copy_context().run, job)


def _considerately(work: Callable[[], T]) -> T:
    if not _are_considerate:
        return without_collector(work)
    with considerate():
        return without_collector(work)


def be_considerate() -> None:
    """Has such work give way to the event loop, in a process that serves others."""
    global _are_considerate  # noqa: PLW0603 - it is the process that serves
    _are_considerate = True


def without_collector(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Does the work while the collector of circles rests: JSON of a million values has none, and to look
    through them again and again holds up every thread."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return work(*arguments, **named)
    finally:
        if was_enabled:
            if gc.get_count()[0] > MANY_OBJECTS:
                # Among the oldest, unseen: the next look at the young ones would take 200 ms for a million.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


os.register_at_fork(after_in_child=_executors.clear)


def _start(job: Callable[[], None]) -> None:
    """Gives the job to an idle thread, or to a new one."""
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = _Jobs()
        threading.Thread(target=_serve, args=(jobs,), daemon=True).start()
    jobs.put(job)


def _serve(jobs: _Jobs) -> None:
    while True:
        try:
            job = jobs.get(timeout=IDLE_TIMEOUT)
        except queue.Empty:
            try:
                _idle.remove(jobs)
            except ValueError:
                continue  # this thread was just taken, and its job is on the way
            return
        job()
        del job  # an idle thread must not keep a call's objects alive
        threading.current_thread().name = "spindle-idle"
        with _idling:
            if len(_idle) >= MAX_IDLE:
                return
            _idle.append(jobs)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_result(outcome)


_quiet = threading.Lock()
_quiet_users = 0
_stdout: TextIO | None = None


@contextlib.contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Redirects stdout to stderr, so that printing does not mix with results. May be nested and shared."""
    global _quiet_users, _stdout  # noqa: PLW0603 - there is one stdout
    with _quiet:
        _quiet_users += 1
        if _quiet_users == 1:
            _stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        with _quiet:
            _quiet_users -= 1
            if _quiet_users == 0 and _stdout is not None:
                sys.stdout, _stdout = _stdout, None
