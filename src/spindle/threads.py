"""Runs a user's code in threads beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


MAX_IDLE = 8
IDLE_TIMEOUT = 30.0

_Jobs = queue.SimpleQueue[Callable[[], None]]
_idle: deque[_Jobs] = deque()
_idling = threading.Lock()


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
