"""Writes a tape while its calls are made."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.calls.tape import FORMAT, MAX_SIZE
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.calls.tape import TapedTool

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class TapeWriter:
    """Writes a tape: each call at once, to a file beside it that takes its place when all is done. Only one
    process does so at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        self._size = 0
        self._broken: str | None = None
        self._part = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _taken(self._part)
        except BlockingIOError:
            raise ConfigurationError(
                f"the tape {path} is being recorded by another process",
                hint="wait until it has ended, or name another file",
            ) from None
        except OSError as error:
            raise ConfigurationError(f"the tape {path} cannot be written: {error.strerror}") from None
        self._write({"tape": FORMAT})

    def check(self) -> None:
        """Raises ConfigurationError if what comes now could not be recorded. Asked before a call is made:
        once it is, its result counts for more than the tape."""
        if self._broken is not None:
            raise ConfigurationError(
                f"the tape {self.path} cannot be written: {self._broken}",
                hint="nothing was recorded: begin again when this is mended, or record less",
            )

    def add(
        self,
        tool: str,
        arguments: JsonObject,
        seconds: float,
        *,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
        is_model: bool = False,
        source: tuple[str, str] | None = None,
    ) -> None:
        """Adds a call that ended, without its secrets; nothing once the tape is in its place."""
        if self._file.closed:
            return
        self._count += 1
        what = "model" if is_model else "request" if source is not None else "tool"
        line: JsonObject = {"call": self._count, what: tool}
        if source is not None:
            line |= {"source": source[0], "kind": source[1]}
        line |= {"arguments": arguments, "ms": round(seconds * 1000, 1)}
        line |= {"result": result} if error is None else {"error": error}
        self._write(line)

    def close(self, tools: Sequence[TapedTool]) -> None:
        """Adds the tools, and puts the tape in its place. Raises ConfigurationError, and leaves the one that
        is there, if not all could be written."""
        for tool in tools:
            self._write(
                {
                    "definition": tool.definition, "name": tool.name, "source": tool.source,
                    "kind": tool.kind, "fingerprint": tool.fingerprint,
                }
            )  # fmt: skip
        self._write({"end": {"calls": self._count, "tools": len(tools)}})
        try:
            if self._broken is None:
                os.fsync(self._file)
                os.replace(self._part, self.path)
                self._file.close()
        except OSError as error:
            self._broken = error.strerror or str(error)
        self.check()

    def give_up(self) -> None:
        """Leaves nothing behind but a tape that is in its place."""
        if not self._file.closed:
            self._part.unlink(missing_ok=True)
            self._file.close()  # last: until then nobody else has this name

    def _write(self, line: JsonObject) -> None:
        if self._broken is not None:
            return
        left = memoryview(to_json(line) + b"\n")
        self._size += len(left)
        if self._size > MAX_SIZE:
            self._broken = f"it would be over {MAX_SIZE:,} bytes"
            return
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._broken = error.strerror or str(error)


def _taken(part: Path) -> FileIO:
    """Opens a file to write it alone, and empties it: a process that was killed has left it. Only its owner
    may read it: what tools return is nobody else's business. Raises BlockingIOError if somebody writes it."""
    while True:
        file = FileIO(part, "wb", opener=lambda name, _: os.open(name, _FLAGS, 0o600))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file.fileno())
            # It may have become the tape, or be gone, between the two.
            if _is_at(part, found):
                if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
                    raise OSError(errno.EPERM, f"{part.name} is in the way")
                os.fchmod(file.fileno(), 0o600)
                file.truncate()
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _is_at(path: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, path.lstat())
    except FileNotFoundError:
        return False
