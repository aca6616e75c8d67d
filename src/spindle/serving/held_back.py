"""The settings that a running server does not take over, written down where `spindle doctor` finds them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from spindle.owner_only import open_file

logger = logging.getLogger("spindle.serve")

_NAME = "held-back."


class HeldBack:
    """The reason why this process keeps older settings, as a file in the folder of the state."""

    def __init__(self, state: Path) -> None:
        self._file = state / f"{_NAME}{os.getpid()}"

    def say(self, why: str) -> None:
        """Writes the reason down."""
        try:
            with open_file(self._file) as file:
                file.write(why.encode())
        except OSError as error:
            logger.debug("what is held back could not be written down: %s", error)

    def clear(self) -> None:
        """Forgets the reason: the settings are in force, or the server ends."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def held_back(state: Path) -> Iterator[tuple[int, str]]:
    """Each process that serves this workspace with older settings than those in the files, and the reason."""
    for file in sorted(state.glob(f"{_NAME}*")):
        number = file.name.removeprefix(_NAME)
        if number.isdecimal() and _is_alive(int(number)):
            with contextlib.suppress(OSError):
                yield int(number), file.read_text("utf-8", errors="replace")[:2000]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
