"""All that a source might leave behind in this process: processes, tasks, threads, sockets and pipes."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Self

from servers.running import PATIENCE

SHARED = ("spindle-idle", "asyncio_")
"""Threads that are kept for whoever needs one next: our own, and the event loop's."""


def present() -> set[str]:
    """Each of them, by a name that only it has."""
    found = {f"task {task.get_name()}: {task.get_coro()}" for task in asyncio.all_tasks()}
    found |= {
        f"thread {thread.name} {thread.ident}" for thread in threading.enumerate() if not _is_shared(thread)
    }
    for children in Path("/proc/self/task").glob("*/children"):
        found |= {f"process {pid}" for pid in children.read_text().split()}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # the one by which the folder itself was read
        if target.startswith(("socket:", "pipe:")):
            found.add(target)
    return found


def _is_shared(thread: threading.Thread) -> bool:
    return thread.name.startswith(SHARED)


class Leftovers:
    """What is there now that was not when this was made."""

    def __init__(self) -> None:
        self._before = present()

    def now(self) -> set[str]:
        """What there is too much at this moment."""
        return present() - self._before

    async def none(self) -> Self:
        """Returns when there is nothing too much, however long servers take to see that a client has gone."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self.now():
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"left behind: {sorted(self.now())}") from None
        return self
