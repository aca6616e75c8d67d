"""The use of a worker, which can be ended from outside: the library lets a program compute to its limit, also
where nobody waits for it any more, and a worker outlive the process that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from spindle.errors import BusyError

if TYPE_CHECKING:
    from pydantic_monty import MontySession

CHECKOUT: Final = 60.0
"""Seconds that a program waits for a worker."""


class WorkerUse:
    """One use of a worker, in a thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._process: int | None = None
        self._is_over = False

    @contextlib.contextmanager
    def session(self, opening: MontySession) -> Generator[MontySession]:
        """Has a worker for as long as this lasts. Raises BusyError if none is free in time."""
        try:
            session = opening.__enter__()
        except TimeoutError:
            raise BusyError(
                f"no worker was free for the program in {CHECKOUT:g} s",
                hint="run fewer programs at once",
                sent=False,
            ) from None
        try:
            with self._changing:
                self._process = session.worker_pid
                if self._is_over:
                    self._kill()
            yield session
        finally:
            with self._changing:  # from here on it is another's
                self._process = None
            opening.__exit__(None, None, None)

    def stop(self) -> None:
        """Ends the worker; another one takes its place in the pool."""
        with self._changing:
            self._is_over = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
