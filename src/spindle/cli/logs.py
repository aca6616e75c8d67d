"""The logs of a server: as text for people, or as lines of JSON for programs (`--log json`).

They are written by a thread of their own, so that a reader of stderr who is slow never stops the server.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import queue
import sys
import traceback
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, TextIO

from spindle.domain.audit import timestamp
from spindle.domain.json_schema import to_json
from spindle.domain.visible import quoted, visible

if TYPE_CHECKING:
    from spindle.cli.context import CliContext

LogForm = Literal["text", "json"]
MOST_WAITING = 10_000
"""Lines that wait to be written. Further ones are counted and left out."""
SERVER = "spindle.serve"


class JsonLines(logging.Formatter):
    """A record as one line of JSON: `time`, `level`, `logger`, `message`, and what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = "".join(traceback.format_exception(record.exc_info[1]))
        return to_json(line, default=str).decode()


class TextLines(logging.Formatter):
    """A record as a line that no terminal obeys."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(quoted(super().format(record)))


class BoundedQueue(logging.handlers.QueueHandler):
    """Hands records to the thread that writes them. What finds the queue full is counted, and said later."""

    def __init__(self) -> None:
        super().__init__(queue.Queue(MOST_WAITING))
        self.left_out = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self.left_out:
                told = f"{self.left_out} lines were left out: the log was not read fast enough"
                self.queue.put_nowait(logging.makeLogRecord({"name": SERVER, "msg": told, "levelno": 30,
                                                             "levelname": "WARNING"}))  # fmt: skip
                self.left_out = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self.left_out += 1

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # it stays in this process, and the formatter wants all of it


@contextlib.contextmanager
def logging_as(cli: CliContext, form: LogForm, *, requests: bool) -> Generator[None]:
    """Has a server's logs written in this form, meanwhile. As JSON, also what is said to people on stderr is
    a line of the log. `requests`: each request is logged."""
    stream: TextIO = sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines("%(asctime)s %(message)s"))
    handed = BoundedQueue()
    listener = logging.handlers.QueueListener(handed.queue, handler, respect_handler_level=True)
    root = logging.getLogger() if form == "json" else logging.getLogger("spindle.access")
    access = logging.getLogger("spindle.access")
    before = access.level, access.propagate
    access.setLevel(logging.INFO if requests else logging.WARNING)
    access.propagate = form == "json"
    own = logging.getLogger(SERVER)
    own_before = own.level
    if form == "json":
        own.setLevel(logging.INFO)
        cli.output.say = lambda text, is_note: own.log(
            logging.WARNING if is_note else logging.INFO, "%s", text
        )
    # Libraries that set up a log of their own when they are imported would write text between the lines.
    others = [other for other in root.handlers if _writes_to_stream(other)] if form == "json" else []
    for other in others:
        root.removeHandler(other)
    root.addHandler(handed)
    listener.start()
    try:
        yield
    finally:
        cli.output.say = None
        root.removeHandler(handed)
        for other in others:
            root.addHandler(other)
        listener.stop()
        access.setLevel(before[0])
        access.propagate = before[1]
        own.setLevel(own_before)


def _writes_to_stream(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler)
