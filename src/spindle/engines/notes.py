"""Says as notes what the libraries of engines log."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.ports.source import Note


class _Notes(logging.Handler):
    def __init__(self, note: Note) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self._note(f"engine: {record.getMessage()}")


def quiet(library: str, note: Note) -> None:
    """Has warnings of a library said as notes. It would else write to the terminal itself."""
    logger = logging.getLogger(library)
    logger.propagate = False
    logger.handlers = [_Notes(note)]
