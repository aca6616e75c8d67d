"""The clocks of calls and runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


def _since_boot() -> float:
    """Seconds since the machine started, also those that it slept."""
    return time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests can turn it."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    since_boot: Callable[[], float] = _since_boot
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
